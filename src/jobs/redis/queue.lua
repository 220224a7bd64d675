-- queue: changes settings of a queue. Arguments: names and values of the fields that change.
local q = queues[1]
if call('HEXISTS', q.set, 'rate_ns') == 0 then
  call('HSET', q.set, 'paused', '0', 'concurrency', '0', 'rate', '0', 'rate_ns', '1000000000',
    'rate_us', '1000000', 'catch_up', '0')
end
if ARGV[arg] then
  call('HSET', q.set, unpack(ARGV, arg))
end
note_queue(q)
event(EV_QUEUE, q.name, '')
return answer({0, 0, 0})
