-- count: counts jobs. Answer: how many records of ends are kept; then for each queue: pending,
-- overdue, running and dead jobs, for how long the oldest has been overdue, and the settings
-- (paused, concurrency, rate, rate_ns, catch_up; false if the queue has none).
local reply = {0, 0, 0, call('ZCOUNT', KEPT, fmt('(%.0f', now), '+inf')}

for _, q in ipairs(queues) do
  local pending, overdue, oldest = 0, 0, now
  for _, key in ipairs({q.due[1], q.due[2], q.due[3], q.again}) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    pending = pending + call('ZCARD', key)
    overdue = overdue + call('ZCOUNT', key, '-inf', now)
    if first[2] and tonumber(first[2]) < oldest then
      oldest = tonumber(first[2])
    end
  end
  reply[#reply + 1] = pending
  reply[#reply + 1] = overdue
  reply[#reply + 1] = call('ZCARD', q.lease)
  reply[#reply + 1] = tonumber(call('HGET', DEAD_N, q.name) or 0)
  reply[#reply + 1] = now - oldest
  reply[#reply + 1] = call('HMGET', q.set, 'paused', 'concurrency', 'rate', 'rate_ns', 'catch_up')
end
return answer(reply)
