-- cron: defines or removes a cron. Arguments: 'set', 'set_there' (only if it is defined here) or
-- 'remove', name, revision (8 bytes), expression, zone, the rest of the definition. Answer: 0 (done);
-- 1: the revision is not higher; 2 (remove): there is no such cron; 3 (set_there): the cron is not
-- defined here; 4: the cron is on its way to another server. The queue of the call is that of the
-- ticks.
local name, revision, expression, zone, more = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3],
  ARGV[arg + 4], ARGV[arg + 5]
local q = queues[1]
local field = q.name .. '/' .. name
local old = call('HGET', CRONS, name)

local function remove_tick()
  local j, s = find(q, name), nil
  if j then
    leave(j)
    call('HDEL', q.job, name)
    call('HDEL', q.run, name)
  end
  s = call('HGET', DEAD, field)
  if s then
    take_dead(field, s)
  end
  s = call('HGET', ENDS, field)
  if s then
    forget_end(field, s)
  end
end

local function is_higher()
  local _, high, low = unpack_bytes('>BI4I4', old)
  local new_high, new_low = unpack_bytes('>I4I4', revision)
  return new_high > high or (new_high == high and new_low > low)
end

local function last_of_new()
  local last, old_expression, old_zone
  if not old then
    return now
  end
  last, old_expression, old_zone = unpack_bytes('>i8Hc0Bc0', old, 10)
  return (last > now or (old_expression == expression and old_zone == zone)) and last or now
end

if not old and in_outbox(field) then
  return answer({0, 0, 0, 4})
end
if not old and ARGV[arg] == 'set_there' then
  return answer({0, 0, 0, 3})
end
if ARGV[arg] == 'remove' then
  if not old then
    return answer({0, 0, 0, 2})
  end
  remove_tick()
  call('HDEL', CRONS, name)
  return answer({0, 0, 0, 0})
end
if old and not is_higher() then
  return answer({0, 0, 0, 1})
end
call('HSET', CRONS, name, pack('>B', 1) .. revision ..
  pack('>i8Hc0Bc0', last_of_new(), #expression, expression, #zone, zone) .. more)
remove_tick()
note_queue(q)
if ARGV[arg] == 'set_there' then
  note_stray()
end
number = number + 1
local head = make_head(1, number, 0, name, nil, false)
local j = plain(q, name, read_head(head, 1))
call('HSET', q.job, name, head)
make_pending(j, now)
return answer({0, 0, 0, 0})
