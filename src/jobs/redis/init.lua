-- init: makes `meta` if it is not there, and notes which server holds the data. It does not begin
-- with common.lua. KEYS: meta, the key for the text of put. ARGV: the version of the format, a new
-- epoch, the run id of the server, the text of put. Answer: 0, the epoch; or 1, the version.
local m = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'run_id', 'fence')
if not m[1] then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'epoch', ARGV[2], 'run_id', ARGV[3], 'number', '0',
    'fence', '0', 'event', '0', 'map', '0')
  m = {ARGV[1], ARGV[2], ARGV[3], '0'}
  -- Nodes that knew the data before look at once, and not when they would have looked anyway.
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'events', 'new')
end
if m[1] ~= ARGV[1] and m[1] ~= '2' then -- '2': there is a map (map.lua)
  return {1, m[1]}
end
-- Another server, or the same one after a restart, may lack the last writes. So the fences that are
-- given out now must be above those that were given out before.
if m[3] ~= ARGV[3] then
  redis.call('HSET', KEYS[1], 'run_id', ARGV[3], 'fence',
    string.format('%.0f', tonumber(m[4]) + 4294967296))
end
if redis.call('GET', KEYS[2]) ~= ARGV[4] then
  redis.call('SET', KEYS[2], ARGV[4])
end
return {0, m[2]}
