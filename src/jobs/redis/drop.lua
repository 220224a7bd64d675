-- drop: removes the batch in the outbox, and the unique keys of its jobs, after the new server has
-- taken the batch over. Arguments: the number and the kind of the batch. The queue of the call is
-- that of the jobs. If the outbox has another batch, nothing is done.
local function drop_key(field, s)
  local q, rest = queues[1], sub(field, #queues[1].name + 2)
  local p = select(7, unpack_bytes('>i8I4I4Hc0Hc0I4c0', s))
  local key = p <= #s and read_head(s, p).key
  if key and call('HGET', q.key, key) == rest then
    call('HDEL', q.key, key)
  end
end

if call('HGET', META, 'batch') == ARGV[arg] then
  local all = call('HGETALL', OUTBOX)
  for i = 1, #all, 2 do
    if ARGV[arg + 1] == 'job' then
      drop_key(all[i], all[i + 1])
    end
    call('HDEL', OUTBOX, all[i])
  end
end
return answer({0, 0, 0})
