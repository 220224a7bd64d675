-- import: takes over a batch of another server. `meta` has the number of the last batch of each
-- source, so that a batch is taken over only once. Each item gets a new number, and keeps its time of
-- put. The next fence is higher than any fence that a job had on the other server.
-- Arguments: the source of the batch, its number, its kind, the last fence of the other server, then
-- for each item its id with its queue, and its text (export.lua). Answer: how many items were taken
-- over; -1: the batch was taken over before.
local inbox, batch, kind = 'from:' .. ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2]
local count = 0

-- Gives a record, which begins at p, a new number.
local function renumber(s, p)
  number = number + 1
  return sub(s, 1, p + 1) .. pack('>I7', number) .. sub(s, p + 9)
end

local function is_free(field, q, rest)
  local ended = call('HGET', ENDS, field)
  if ended and end_until(ended) <= now then
    forget_end(field, ended)
    ended = false
  end
  return not ended and call('HEXISTS', DEAD, field) == 0 and
    (not q or call('HEXISTS', q.job, rest) == 0)
end

local function add_letter(field, s)
  local ended, _, _, _, _, p = select(2, unpack_bytes(DEAD_HEAD, s))
  s = renumber(s, p)
  note_queue({name = string.match(field, '^[^/]*')}) -- the letter may be redriven
  call('HSET', DEAD, field, s)
  index_dead(field, number, ended)
end

local function add_job(field, s)
  local q, rest = queues[1], sub(field, #queues[1].name + 2)
  local due, failures, crashes, err, progress, definition, p = unpack_bytes('>i8I4I4Hc0Hc0I4c0', s)
  local record, j = sub(s, p), nil
  note_queue(q)
  if definition ~= '' and call('HEXISTS', CRONS, rest) == 0 then
    call('HSET', CRONS, rest, definition)
  end
  if record == '' then
    return
  end
  record = renumber(record, 1)
  j = plain(q, rest, read_head(record, 1))
  j.failures, j.crashes, j.err, j.progress, j.due = failures, crashes, err, progress, due
  -- This happens only if a caller has put one id with two keys, or has broken the rules of the map.
  if not is_free(field, q, rest) or (j.key and call('HEXISTS', q.key, j.key) == 1) then
    local reason = 'moved here, and its id or key is in use'
    if call('HEXISTS', DEAD, field) == 0 then
      call('HSET', DEAD, field, pack(DEAD_HEAD, 1, now, failures, crashes, due, #reason, reason) ..
        record)
      index_dead(field, number, now)
      event(EV_DEAD, field, reason)
    end
    return
  end
  note_size(q, #record)
  call('HSET', q.job, rest, record)
  if j.key then
    call('HSET', q.key, j.key, rest)
  end
  make_pending(j, due)
end

local function add_end(field, s)
  local _, _, _, put, ended, till = unpack_bytes(END, s)
  if till > now and is_free(field) then
    s = renumber(s, 1)
    call('HSET', ENDS, field, s)
    index_end(field, number, put, ended, till)
  end
end

if tonumber(call('HGET', META, inbox) or 0) >= batch then
  return answer({0, 0, 0, -1})
end
fence = math.max(fence, tonumber(ARGV[arg + 3]))
for i = arg + 4, #ARGV, 2 do
  local field, s = ARGV[i], ARGV[i + 1]
  if kind == 'job' then
    add_job(field, s)
  elseif kind == 'end' then
    add_end(field, s)
  elseif is_free(field) then
    add_letter(field, s)
  end
  count = count + 1
end
call('HSET', META, inbox, fmt('%.0f', batch))
return answer({0, 0, 0, count})
