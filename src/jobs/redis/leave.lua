-- leave: ends the leases of this node in the queue, and its part in leading. Argument: how many
-- leases to skip. Answer: how many to skip next time; -1: all leases were looked at.
local PAGE = 500
local q, skip = queues[1], tonumber(ARGV[arg])
local members = call('ZRANGEBYSCORE', q.lease, fmt('(%.0f', now), '+inf', 'LIMIT', skip, PAGE)
for _, m in ipairs(members) do
  local _, _, _, owner = unpack_bytes('>BBI7I6', call('HGET', q.run, sub(m, 5)))
  if owner == node then
    call('ZADD', q.lease, now, m)
    nearer(q, now)
  else
    skip = skip + 1
  end
end
call('ZREM', q.idle, ARGV[4])
local l = read_lead(q)
if l and l.node == node then
  call('HDEL', LEAD, q.name)
  wake_idle(q)
end
return answer({0, 0, 0, #members < PAGE and -1 or skip})
