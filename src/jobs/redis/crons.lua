-- crons: lists the crons. Answer: for each cron its name, its definition, and when its tick is
-- visible.
local reply = {0, 0, 0}
local all = call('HGETALL', CRONS)
for i = 1, #all, 2 do
  local j = find(queues[1], all[i])
  local at = j and place(j)
  reply[#reply + 1] = all[i]
  reply[#reply + 1] = all[i + 1]
  reply[#reply + 1] = at and tonumber(call('ZSCORE', at, j.member)) or NEVER
end
return answer(reply)
