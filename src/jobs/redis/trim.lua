-- trim: TRIM of store.h. Arguments: how many records of ends and how many dead letters to keep, the
-- greatest age of a dead letter, how many to remove at most. Answer: how many were removed.
local max_done, max_dead = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1])
local dead_age, limit = tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
local LOOKED_AT = 1000 -- after this many records that are too young, stop
local count = 0

local function forget_past(key)
  for _, field in ipairs(call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit - count)) do
    forget_end(field, call('HGET', ENDS, field))
    count = count + 1
  end
end

local function forget_kept()
  local over = call('ZCOUNT', KEPT, fmt('(%.0f', now), '+inf') - max_done
  local members
  if over <= 0 or count >= limit then
    return
  end
  members = call('ZRANGE', KEPT_AT, 0, limit - count + LOOKED_AT)
  for _, member in ipairs(members) do
    local field = sub(member, 8)
    local s = call('HGET', ENDS, field)
    if over <= 0 or count >= limit then
      return
    end
    if (unpack_bytes('>I7', s, 10)) + REPEAT <= now then
      forget_end(field, s)
      over, count = over - 1, count + 1
    end
  end
end

local function drop_dead()
  local dead, removed = call('ZCARD', DEAD_AT), 0
  local first = call('ZRANGE', DEAD_AT, 0, 0, 'WITHSCORES')
  while count < limit and first[1] and (tonumber(first[2]) < now - dead_age or dead > max_dead) do
    local field = sub(first[1], 8)
    remove_dead(field, call('HGET', DEAD, field))
    dead, removed, count = dead - 1, removed + 1, count + 1
    first = call('ZRANGE', DEAD_AT, 0, 0, 'WITHSCORES')
  end
  if removed > 0 then
    event(EV_DROPPED, '', 'removed: ' .. removed)
  end
end

forget_past(UNTIL)
forget_past(KEPT)
forget_kept()
drop_dead()
return answer({0, 0, 0, count})
