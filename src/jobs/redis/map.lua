-- map: writes the map of the servers (redis_map.h), unless the server already has this map or a newer
-- one. This script does not begin with common.lua. KEYS: meta, map. ARGV: the version of the format,
-- the random part of the epoch, the generation and the text of the map, how many servers jobs are
-- claimed from, '1' if jobs move, the run id of the server, a random name for this data, '1' to make
-- `meta` if there is none. Answer: 0, the epoch; 1, another version; 2, '' (there is no data); 3, the
-- epoch (this server has other data); or 4, the epoch (this server has a different map of this
-- generation).
local m = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'number', 'id')
if not m[1] and ARGV[9] ~= '1' then
  return {2, ''}
end
if not m[1] then
  m = {ARGV[1], ARGV[2], '0', false}
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'run_id', ARGV[7], 'number', '0', 'fence', '0',
    'event', '0')
end
if m[1] ~= ARGV[1] and m[1] ~= '2' then
  return {1, m[1]}
end
local random, generation = string.match(m[2], '^([^.]*)%.?(%d*)$')
generation = tonumber(generation) or 0
if generation == tonumber(ARGV[3]) and redis.call('GET', KEYS[2]) ~= ARGV[4] then
  return {4, m[2]}
elseif random ~= ARGV[2] then
  return {3, m[2]}
elseif generation >= tonumber(ARGV[3]) then
  return {0, m[2]}
end
local epoch = random .. '.' .. ARGV[3]
-- With version 2, programs that do not know maps refuse to work with this data.
redis.call('HSET', KEYS[1], 'version', '2', 'epoch', epoch, 'servers', ARGV[5], 'moving', ARGV[6], 'moved_from',
  m[3], 'id', m[4] or ARGV[8])
redis.call('SET', KEYS[2], ARGV[4])
-- Nodes that know only the former map ask at once.
redis.call('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'events', 'new')
return {0, epoch}
