-- scan: reads a page. Arguments: 'jobs' (of the queue), 'dead' or 'ends'; cursor; how many. Answer:
-- the next cursor ('0': no more); then for each job its id, when it is visible, its run ('': none),
-- its head; for each dead letter or end the whole id, its text. Dead letters come by number, and
-- the cursor is a number; jobs and ends come in no order, and the cursor is that of HSCAN.
local what, cursor, n = ARGV[arg], ARGV[arg + 1], tonumber(ARGV[arg + 2])
local reply = {0, 0, 0, '0'}
local BYTES, bytes, seen = 1048576, 0, 0
local got

if what == 'dead' then
  got = call('ZRANGEBYSCORE', DEAD_NO, '(' .. cursor, '+inf', 'WITHSCORES', 'LIMIT', 0, n)
  reply[4] = #got == 2 * n and got[#got] or '0'
  for i = 1, #got, 2 do
    local s = call('HGET', DEAD, got[i])
    reply[#reply + 1] = got[i]
    reply[#reply + 1] = s
    bytes = bytes + #s
    if bytes > BYTES and i + 1 < #got then
      reply[4] = got[i + 1]
      break
    end
  end
  return answer(reply)
end
-- HSCAN reads whole records, which may be large: a few at a time.
repeat
  got = call('HSCAN', what == 'ends' and ENDS or queues[1].job, cursor, 'COUNT', 10)
  cursor = got[1]
  for i = 1, #got[2], 2 do
    local id, s = got[2][i], got[2][i + 1]
    if what == 'jobs' then
      local j = find(queues[1], id)
      local at = place(j)
      reply[#reply + 1] = id
      reply[#reply + 1] = at and tonumber(call('ZSCORE', at, j.member)) or NEVER
      reply[#reply + 1] = j.run or ''
      reply[#reply + 1] = j.head
    elseif end_until(s) > now then
      reply[#reply + 1] = id
      reply[#reply + 1] = s
    end
    seen, bytes = seen + 1, bytes + #s
  end
until cursor == '0' or seen >= n or bytes > BYTES
reply[4] = cursor
return answer(reply)
