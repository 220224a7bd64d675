-- bulk: redrives or removes. Arguments: 'redrive', 'purge' (dead letters) or 'forget' (records of
-- ends), then for each item the index of its queue and its id. Answer: a digit for each item: 0
-- (done); 1: its key is in use, or may be in use on another server while jobs move; 2: it is gone, or
-- still needed for repeated puts.
local function redrive(q, rest, field, s)
  local j, record = read_head(s, select(7, unpack_bytes(DEAD_HEAD, s))), nil
  if j.key and (moving or call('HEXISTS', q.key, j.key) == 1) then
    return 1
  end
  if moving then
    note_stray()
  end
  j, record = take_dead(field, s)
  plain(q, rest, j)
  note_size(q, #record) -- the letter may have moved here: then `large` is not set
  call('HSET', q.job, rest, record)
  if j.key then
    call('HSET', q.key, j.key, rest)
  end
  make_pending(j, now)
  return 0
end

local function forget(field)
  local s = call('HGET', ENDS, field)
  if not s or end_until(s) <= now or (unpack_bytes('>I7', s, 10)) + REPEAT > now then
    return 2
  end
  forget_end(field, s)
  return 0
end

local digits = {}
for a = arg + 1, #ARGV, 2 do
  local q, rest = queues[tonumber(ARGV[a])], ARGV[a + 1]
  local field = q.name .. '/' .. rest
  local s = ARGV[arg] ~= 'forget' and call('HGET', DEAD, field)
  local status = 2
  if ARGV[arg] == 'forget' then
    status = forget(field)
  elseif s and ARGV[arg] == 'redrive' then
    status = redrive(q, rest, field, s)
  elseif s then
    remove_dead(field, s)
    status = 0
  end
  digits[#digits + 1] = status
end
return answer({0, 0, 0, table.concat(digits)})
