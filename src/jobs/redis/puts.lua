-- puts: the functions with which PUT and SETTLE put jobs. A job has 10 arguments: the index of its
-- queue, id, name ('': the queue's), key ('': none), key policy, class, due time, how long its end
-- is kept, metadata, payload.
--
-- ONLY IF THERE. While jobs move between servers, the caller of a put asks the former owner of the
-- job's slot first, which is this server. If the id or the key is in use here, the put is carried out
-- here. Otherwise the caller puts the job on the new owner.
local PUT_ARGS = 10
local KEEP, REPLACE = 0, 1 -- UVS_KEY_...
local ONLY_IF_THERE = 4    -- is added to the key policy
local STRAY = 8            -- the same, in a settle: the job belongs to another server by now
local ELSEWHERE, IN_TRANSIT = 3, 4

local function note_queue(q)
  if not q.noted and not call('ZSCORE', QUEUES, q.name) then
    call('ZADD', QUEUES, call('ZCARD', QUEUES) + 1, q.name)
  end
  q.noted = true
end

local function make_record(q, a)
  local name, key, meta = ARGV[a + 2], ARGV[a + 3], ARGV[a + 8]
  local head
  note_size(q, #ARGV[a + 9])
  number = number + 1
  head = make_head(tonumber(ARGV[a + 5]), number, tonumber(ARGV[a + 7]),
    name ~= '' and name ~= q.name and name, key ~= '' and key, meta ~= '')
  if meta ~= '' then
    return head, head .. pack('>H', #meta) .. meta .. ARGV[a + 9]
  end
  return head, head .. ARGV[a + 9]
end

-- Holds the new job until the run of the job that holds its key has ended.
local function hold(q, rest, head, due, holder)
  local j
  if holder.successor ~= '' then
    end_job(find(q, holder.successor), REPLACED, '')
  end
  holder.successor = rest
  save_run(holder)
  j = plain(q, rest, read_head(head, 1))
  j.held, j.holder, j.due = true, holder.rest, due
  save_run(j)
end

-- Returns 0 (new); 1 (exists) or 2 (the key is in use), and the id of the other job; 3 ("only if
-- there", and neither the id nor the key is in use here); or 4 (the job to be replaced is in the
-- outbox).
local function put_one(q, a)
  local rest, key, policy = ARGV[a + 1], ARGV[a + 3], tonumber(ARGV[a + 4])
  local only_if_there = band(policy, ONLY_IF_THERE) ~= 0
  local field, due = q.name .. '/' .. rest, due_of(ARGV[a + 6])
  local ended = call('HGET', ENDS, field)
  local holder = false
  local head, record
  if call('HEXISTS', q.job, rest) == 1 or call('HEXISTS', DEAD, field) == 1 or
    (ended and end_until(ended) > now) or in_outbox(field) then
    return 1, rest
  end
  if ended then
    forget_end(field, ended)
  end
  if key ~= '' then
    holder = call('HGET', q.key, key)
    if holder and policy % ONLY_IF_THERE ~= REPLACE then
      return policy % ONLY_IF_THERE == KEEP and 1 or 2, holder
    end
    if holder and in_outbox(q.name .. '/' .. holder) then
      return IN_TRANSIT
    end
    holder = holder and find(q, holder)
  end
  if only_if_there and not holder then
    return ELSEWHERE
  elseif policy >= ONLY_IF_THERE then
    note_stray()
  end
  if holder and not holder.claimed then
    end_job(holder, REPLACED, '')
    holder = false
  end
  note_queue(q)
  head, record = make_record(q, a)
  call('HSET', q.job, rest, record)
  if holder then
    hold(q, rest, head, due, holder)
    return 0
  end
  if key ~= '' then
    call('HSET', q.key, key, rest)
  end
  call('ZADD', q.due[tonumber(ARGV[a + 5]) + 1], due, member_of(number, rest))
  nearer(q, due)
  return 0
end

-- Finds out which ids are in use. A job without a key whose id is free is put together with others.
local function look_up(from, n)
  local fields, rests, ids, found = {}, {}, {}, {}
  for i = 1, n do
    local a = from + PUT_ARGS * (i - 1)
    local q = queues[tonumber(ARGV[a])]
    rests[q] = rests[q] or {}
    table.insert(rests[q], ARGV[a + 1])
    fields[i] = q.name .. '/' .. ARGV[a + 1]
  end
  for q, list in pairs(rests) do
    for i, s in ipairs(call('HMGET', q.job, unpack(list))) do
      ids[q.name .. '/' .. list[i]] = s and true or nil
    end
  end
  for _, hash in ipairs({DEAD, ENDS, OUTBOX}) do
    if n > 0 and call('HLEN', hash) > 0 then
      found = call('HMGET', hash, unpack(fields))
      for i = 1, n do
        ids[fields[i]] = ids[fields[i]] or (found[i] and true or nil)
      end
    end
  end
  return ids, fields
end

local function write_together(q)
  if q.records then
    note_queue(q)
    call('HSET', q.job, unpack(q.records))
    for class = 1, 3 do
      if q.members[class] then
        call('ZADD', q.due[class], unpack(q.members[class]))
      end
    end
    q.records, q.members = nil, nil
  end
end

local function put_together(q, a)
  local class, due, rest = tonumber(ARGV[a + 5]) + 1, due_of(ARGV[a + 6]), ARGV[a + 1]
  local _, record = make_record(q, a)
  local r, m
  q.records, q.members = q.records or {}, q.members or {}
  r, m = q.records, q.members[class] or {}
  q.members[class] = m
  r[#r + 1] = rest
  r[#r + 1] = record
  m[#m + 1] = due
  m[#m + 1] = member_of(number, rest)
  nearer(q, due)
end

-- Puts n jobs. Adds to the answer a digit for each job, and then the ids of the other jobs.
local function put_all(from, n, to)
  local digits, there = {}, {}
  local ids, fields = look_up(from, n)
  for i = 1, n do
    local a = from + PUT_ARGS * (i - 1)
    local q = queues[tonumber(ARGV[a])]
    if ARGV[a + 3] == '' and not ids[fields[i]] then
      if band(ARGV[a + 4], ONLY_IF_THERE) ~= 0 then
        digits[i] = ELSEWHERE
      else
        put_together(q, a)
        digits[i] = 0
      end
    else
      for _, each in ipairs(queues) do
        write_together(each)
      end
      digits[i], there[#there + 1] = put_one(q, a)
    end
    ids[fields[i]] = true
  end
  for _, each in ipairs(queues) do
    write_together(each)
  end
  to[#to + 1] = table.concat(digits)
  for _, rest in ipairs(there) do
    to[#to + 1] = rest
  end
end
