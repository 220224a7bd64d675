-- get: reads a job. Argument: its id. Answer: 0 (none); 1 (not ended), when it is visible, its run
-- ('': none), its record; 2 (dead letter), the text of the letter; 3 (ended), the record of the
-- end; 4 (the job, letter or end is on its way to another server).
local q, rest = queues[1], ARGV[arg]
local field = q.name .. '/' .. rest
local record = call('HGET', q.job, rest)
local s
if record then
  local j = find(q, rest)
  local at = place(j)
  return answer({0, 0, 0, 1, at and tonumber(call('ZSCORE', at, j.member)) or NEVER, j.run or '',
    record})
end
s = call('HGET', DEAD, field)
if s then
  return answer({0, 0, 0, 2, s})
end
s = call('HGET', ENDS, field)
if s and end_until(s) > now then
  return answer({0, 0, 0, 3, s})
end
return answer({0, 0, 0, in_outbox(field) and 4 or 0})
