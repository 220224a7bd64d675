-- events: reads up to n events with numbers above N. Arguments: N, n. Answer: the events.
local from, n = tonumber(ARGV[arg]) + 1, tonumber(ARGV[arg + 1])
local reply, fields = {0, 0, 0}, {}
from = math.max(from, last_event - 999)
for i = from, math.min(last_event, from + n - 1) do
  fields[#fields + 1] = fmt('%.0f', i % 1000)
end
if #fields > 0 then
  for _, s in ipairs(call('HMGET', EVENTS, unpack(fields))) do
    reply[#reply + 1] = s
  end
end
return answer(reply)
