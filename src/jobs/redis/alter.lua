-- alter: cancels or moves a job. Arguments: 'cancel' or 'move', id, due time. Answer: 0 (done); 1:
-- the job is running; 2: there is no such job; 3: the job is on its way to another server.
local j = find(queues[1], ARGV[arg + 1])
local status = 0
forget_old()
if not j then
  status = in_outbox(queues[1].name .. '/' .. ARGV[arg + 1]) and 3 or 2
elseif j.claimed then
  status = 1
  if ARGV[arg] == 'cancel' then
    j.cancelled = true
    save_run(j)
  end
elseif ARGV[arg] == 'cancel' then
  end_job(j, CANCELLED, '')
elseif j.held then
  j.due = due_of(ARGV[arg + 2])
  save_run(j)
else
  make_pending(j, due_of(ARGV[arg + 2]))
end
return answer({0, 0, 0, status})
