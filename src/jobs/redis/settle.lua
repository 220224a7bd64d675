-- settle: ends runs, or extends their leases. An item has 8 arguments, and then those of its puts:
-- the index of its queue, id, fence, what to do, time (EXTEND: the length of the lease), text (the
-- result, the error or the progress), the newest occurrence of a tick ('0': none), the number of
-- puts. Answer: a digit for each item (0: done; 1: lost; 2: cancelled), then for each item whose
-- puts were carried out, the digits and ids as in put.lua.
local ITEM_ARGS = 8
local ACK, RETRY, EXTEND, RELEASE, BURY = 1, 2, 3, 4, 5 -- enum uvs__settle_op
local runs = {}    -- the runs of this call, by queue and id
local simple = nil -- simple ends, which are written together

local function write_simple()
  local s = simple
  simple = nil
  if not s then
    return
  end
  for q, rests in pairs(s.rests) do
    call('HDEL', q.job, unpack(rests))
    call('HDEL', q.run, unpack(rests))
    call('ZREM', q.lease, unpack(s.members[q]))
  end
  if #s.ends > 0 then
    call('HSET', ENDS, unpack(s.ends))
    call('ZADD', UNTIL, unpack(s.untils))
  end
end

-- Ends a job that has no key and no successor, and whose record is not kept for long.
local function ack_simply(q, rest, num, put, failures, crashes, name, result)
  local till = put + REPEAT
  local rests, members
  simple = simple or {rests = {}, members = {}, ends = {}, untils = {}}
  simple.rests[q], simple.members[q] = simple.rests[q] or {}, simple.members[q] or {}
  rests, members = simple.rests[q], simple.members[q]
  rests[#rests + 1] = rest
  members[#members + 1] = member_of(num, rest)
  if till > now then
    local ends, untils, n, field = simple.ends, simple.untils, #simple.ends, q.name .. '/' .. rest
    if till ~= simple.till then -- the same for the jobs of one put
      simple.till, simple.till_text = till, fmt('%.0f', till)
    end
    ends[n + 1], untils[n + 2] = field, field
    ends[n + 2] = pack(END .. 'Bc0', 1, DONE, num, put, now, till, failures, crashes, #name, name) ..
      result
    untils[n + 1] = simple.till_text
  end
  runs[q] = runs[q] or {}
  runs[q][rest] = false
end

-- Handles most ACKs: the job has none of the optional fields of runs and records. Returns true if
-- the job was ended.
local PLAIN_REST = pack('HHBB', 0, 0, 0, 0)
local function ack_plain(q, rest, s, wanted, result)
  local _, flags, f, failures, crashes, head, num, put
  if sub(s, 32, 37) ~= PLAIN_REST then
    return false
  end
  _, flags, f, _, failures, crashes, _ = unpack_bytes(RUN, s)
  _, head, num, put = unpack_bytes('>BBI7I7', s, 38)
  if flags % 2 ~= 1 or f ~= wanted or band(head, 28) ~= 0 then
    return false
  end
  ack_simply(q, rest, num, put, failures + 1, crashes, '', result)
  return true
end

-- RETRY or RELEASE: the job is pending again, unless it was cancelled or has a successor.
local function go_back(j, when)
  if j.cancelled then
    end_job(j, CANCELLED, '')
    return 2
  end
  if j.successor ~= '' then
    end_job(j, REPLACED, '')
  else
    make_pending(j, due_of(when))
  end
  return 0
end

local function settle(j, op, when, text)
  if op == EXTEND then
    call('ZADD', j.q.lease, lease_end(tonumber(when)), j.member)
    if text ~= '' then
      j.progress = text
      save_run(j)
    end
    return j.cancelled and 2 or 0
  end
  if op == RELEASE then
    return go_back(j, when)
  end
  j.failures = j.failures + 1
  if op == ACK then
    j.progress, j.err = '', ''
    end_job(j, DONE, text)
    return 0
  end
  if op == RETRY or j.cancelled then
    j.err = text
    return go_back(j, when)
  end
  bury(j, text)
  return 0
end

-- The puts of a tick are carried out only if its cron has a new occurrence.
local function may_put(q, rest, op, last)
  local s
  if op ~= RELEASE then
    return op == ACK
  end
  s = q.name == 'uvs.cron' and last ~= 0 and call('HGET', CRONS, rest)
  if not s or last <= unpack_bytes('>i8', s, 10) then
    return false
  end
  call('HSET', CRONS, rest, sub(s, 1, 9) .. pack('>i8', last) .. sub(s, 18))
  return true
end

local function get_run(q, rest)
  local s = runs[q] and runs[q][rest]
  if s == nil then
    s = call('HGET', q.run, rest)
  end
  return s
end

-- Reads the runs of all items at once.
local function read_runs()
  local a, lists = arg, {}
  while a <= #ARGV do
    local q = queues[tonumber(ARGV[a])]
    lists[q] = lists[q] or {}
    table.insert(lists[q], ARGV[a + 1])
    a = a + ITEM_ARGS + 10 * tonumber(ARGV[a + 7])
  end
  for q, list in pairs(lists) do
    runs[q] = {}
    for i, s in ipairs(call('HMGET', q.run, unpack(list))) do
      runs[q][list[i]] = s
    end
  end
end

local reply, digits, a = {0, 0, 0, ''}, {}, arg
local ended = {} -- queues
forget_old()
read_runs()
while a <= #ARGV do
  local q, rest, op = queues[tonumber(ARGV[a])], ARGV[a + 1], tonumber(ARGV[a + 3])
  local text, last, n = ARGV[a + 5], tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7])
  local s, wanted = get_run(q, rest), tonumber(ARGV[a + 2])
  local status = 1
  if s and op == ACK and n == 0 and ack_plain(q, rest, s, wanted, text) then
    status = 0
  elseif s then
    local j = read_run(q, rest, s)
    if not j.claimed or j.fence ~= wanted then
      status = 1
    elseif op == ACK and n == 0 and not j.key and j.keep == 0 and j.successor == '' then
      ack_simply(q, rest, j.num, j.put, j.failures + 1, j.crashes, j.name or '', text)
      status = 0
    else
      if op ~= EXTEND then
        write_simple()
        runs = {}
      end
      status = settle(j, op, ARGV[a + 4], text)
      if op == EXTEND then
        runs[q] = runs[q] or {}
        runs[q][rest] = j.run
      end
    end
  end
  ended[q] = ended[q] or (status ~= 1 and op ~= EXTEND)
  if n > 0 and status == 0 and may_put(q, rest, op, last) then
    digits[#digits + 1] = 3
    put_all(a + ITEM_ARGS, n, reply)
    runs = {}
  else
    if n == 0 and status == 0 and op == RELEASE then
      may_put(q, rest, op, last)
    end
    digits[#digits + 1] = status
  end
  a = a + ITEM_ARGS + 10 * n
end
write_simple()
-- A run that has ended makes room where the concurrency is bounded.
for _, q in ipairs(queues) do
  if ended[q] and tonumber(call('HGET', q.set, 'concurrency') or 0) > 0 then
    nearer(q, now)
  end
end
reply[4] = table.concat(digits)
return answer(reply)
