-- common: the text that all scripts but init begin with. docs/jobs-redis.md describes the format
-- of the data.
--
-- KEYS: 13 of the namespace, then 10 of each queue that the call names, then the outbox. Programs
-- that cannot use a map of servers leave the outbox out.
-- ARGV: the epoch that the caller expects ('': any, but refused if there is a map of servers), the
-- caller's time ('0': the server's clock), the same time rounded up, the number of the caller's node
-- ('0': none), how many old records to remove, the number of queues, the names of these queues.
-- The answer begins with 0, the time, the number of the newest event. If nothing was done, it is 1,
-- the epoch of the data ('': no data).
local call, pack, unpack_bytes, sub, fmt = redis.call, struct.pack, struct.unpack, string.sub,
  string.format
local band = bit.band
local META, QUEUES, EVENTS, CRONS, DEAD, DEAD_NO, DEAD_AT, DEAD_N, ENDS, UNTIL, KEPT, KEPT_AT, LEAD =
  unpack(KEYS, 1, 13)
local PREFIX = sub(META, 1, -5)
local NEVER, REPEAT, OVERDUE = 9007199254740992, 30000000, 60000000
local TERM = 20000 -- for how long a leader leads after its head
local LATE = 200000 -- a deputy that is later than this is gone
local DONE, DEAD_STATE, CANCELLED, REPLACED = 4, 5, 6, 7 -- UVS_JOB_...
local EV_DEAD, EV_CANCELLED, EV_REPLACED, EV_DROPPED, EV_QUEUE = 1, 4, 5, 8, 13 -- UVS_EVENT_...
local IS_CLAIMED, IS_HELD, IS_CANCELLED = 1, 2, 4 -- flags of a run
local RUN = '>BBI7I6I4I4i8'

local meta = call('HMGET', META, 'epoch', 'number', 'fence', 'event', 'moving')
if not meta[1] or (ARGV[1] ~= meta[1] and (ARGV[1] ~= '' or string.find(meta[1], '.', 1, true))) then
  return {1, meta[1] or ''}
end
local number, fence, last_event = tonumber(meta[2]), tonumber(meta[3]), tonumber(meta[4])
local old_number, old_fence, old_event = number, fence, last_event
local now, up = tonumber(ARGV[2]), tonumber(ARGV[3])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
  up = now
end
local node, house = tonumber(ARGV[4]), tonumber(ARGV[5])
local queues = {}
for i = 1, tonumber(ARGV[6]) do
  local k = 13 + 10 * (i - 1)
  queues[i] = {name = ARGV[6 + i], due = {KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]},
    lease = KEYS[k + 4], again = KEYS[k + 5], job = KEYS[k + 6], run = KEYS[k + 7],
    key = KEYS[k + 8], set = KEYS[k + 9], idle = KEYS[k + 10]}
end
local arg = 7 + #queues -- the first argument of the script itself
local OUTBOX = KEYS[14 + 10 * #queues] -- jobs on their way to another server: see export.lua
local moving = meta[5] == '1' -- jobs move between servers

-- Reads a time: '+DELAY' or an instant.
local function due_of(when)
  local us = tonumber(when)
  if string.byte(when) == 43 then
    us = us < NEVER - up and up + us or NEVER
  end
  return us < NEVER and us or NEVER - 1
end

local function lease_end(us)
  return us < NEVER - now and now + us or NEVER - 1
end

local function event(what, id, text)
  last_event = last_event + 1
  call('HSET', EVENTS, fmt('%.0f', last_event % 1000),
    pack('>I7BHc0', last_event, what, #id, id) .. text)
end

-- Notes that a job of the queue is due, or a lease ends, at this time.
local function nearer(q, due)
  if not q.nearest or due < q.nearest then
    q.nearest = due
  end
end

-- ----------------------------------------------------------------- leaders ---

-- One node leads a queue: it sleeps until the head, when the first job is due. `till` is the end of
-- its term, a little later. One other node is the deputy, which looks when the term is over. All
-- other nodes sleep until they are woken.
local LEADER = '>I6I7I7I6I7'

local function read_lead(q)
  local s = call('HGET', LEAD, q.name)
  local l = s and {} or nil
  if s then
    l.node, l.till, l.head, l.deputy, l.deputy_till = unpack_bytes(LEADER, s)
  end
  return l
end

local function save_lead(q, l)
  call('HSET', LEAD, q.name, pack(LEADER, l.node, l.till, l.head, l.deputy, l.deputy_till))
end

local function wake(q, id, due)
  return call('PUBLISH', fmt('%swake:%s', PREFIX, id), fmt('%s %.0f', q.name, due)) > 0
end

-- Wakes the node that has been idle for longest. Nodes that do not listen any more are dropped.
-- Returns true if one was woken.
local function wake_idle(q)
  for _ = 1, 10 do
    local first = call('ZPOPMIN', q.idle)[1]
    if not first or wake(q, first, 0) then
      return first ~= nil
    end
  end
end

-- Tells the leader if a job of the queue is due before the leader looks. If the caller is the
-- leader, no message is needed.
local function tell_leader(q)
  local l = read_lead(q)
  if l and l.head <= q.nearest and now <= l.till + LATE then -- otherwise the deputy is gone, too
    return
  end
  if l and l.till >= now then
    l.head = math.max(q.nearest, 0)
    l.till = math.min(l.till, math.max(q.nearest, now) + TERM)
    if l.node == node or wake(q, fmt('%.0f', l.node), l.head) then
      -- The leader may have died. The deputy would sleep until the old term ends.
      if l.deputy ~= 0 and l.deputy_till > l.till + LATE then
        l.deputy_till = l.till + TERM
        if not wake(q, fmt('%.0f', l.deputy), l.deputy_till) then
          l.deputy = 0
        end
      end
      save_lead(q, l)
      return
    end
  end
  if l then
    call('HDEL', LEAD, q.name)
  end
  wake_idle(q)
end

-- Every script that changes something ends with this.
local function answer(list)
  if number ~= old_number or fence ~= old_fence or last_event ~= old_event then
    call('HSET', META, 'number', fmt('%.0f', number), 'fence', fmt('%.0f', fence), 'event',
      fmt('%.0f', last_event))
  end
  for _, q in ipairs(queues) do
    if q.nearest then
      tell_leader(q)
    end
  end
  if last_event ~= old_event then
    call('PUBLISH', PREFIX .. 'events', fmt('%.0f', last_event))
  end
  list[1], list[2], list[3] = 0, now, last_event
  return list
end

-- Notes the size of a payload or a record. Claims of a queue with large ones look at sizes first.
local function note_size(q, size)
  if size > 4096 and not q.large then
    call('HSET', q.set, 'large', '1')
    q.large = true
  end
end

-- Is this job, dead letter or end on its way to another server?
local function in_outbox(field)
  return OUTBOX and call('HEXISTS', OUTBOX, field) == 1
end

-- Counts a put of something that belongs to another server. The mover's current pass over this server
-- may miss it, so the mover makes another pass.
local function note_stray()
  call('HINCRBY', META, 'strays', 1)
end

-- The member of a job in a sorted set. Jobs with the same time are sorted by number; the lower 32
-- bits of the number are enough.
local function member_of(num, rest)
  return pack('>I4', num % 4294967296) .. rest
end

-- ---------------------------------------------------------------- records ---

-- The part of a record in front of the metadata and the payload. `at`: where it begins.
local function read_head(s, at)
  local _, flags, num, put, p = unpack_bytes('>BBI7I7', s, at)
  local j = {flags = flags, class = flags % 4, num = num, put = put, keep = 0}
  if band(flags, 16) ~= 0 then
    j.keep, p = unpack_bytes('>I7', s, p)
  end
  if band(flags, 4) ~= 0 then
    j.name, p = unpack_bytes('>Bc0', s, p)
  end
  if band(flags, 8) ~= 0 then
    j.key, p = unpack_bytes('>Bc0', s, p)
  end
  j.head = sub(s, at, p - 1)
  return j
end

-- Makes the head of a record. After it come the metadata with its size, if there is any, and the
-- payload.
local function make_head(class, num, keep, name, key, has_meta)
  local flags, rest = class, ''
  if keep > 0 then
    flags, rest = flags + 16, pack('>I7', keep)
  end
  if name then
    flags, rest = flags + 4, rest .. pack('>Bc0', #name, name)
  end
  if key then
    flags, rest = flags + 8, rest .. pack('>Bc0', #key, key)
  end
  if has_meta then
    flags = flags + 32
  end
  return pack('>BBI7I7', 1, flags, num, now) .. rest
end

local function read_run(q, rest, s)
  local _, flags, f, owner, failures, crashes, due, err, progress, successor, holder, p =
    unpack_bytes(RUN .. 'Hc0Hc0Bc0Bc0', s)
  local j = read_head(s, p)
  j.q, j.rest, j.run, j.member = q, rest, s, member_of(j.num, rest)
  j.fence, j.owner, j.failures, j.crashes, j.due = f, owner, failures, crashes, due
  j.err, j.progress, j.successor, j.holder = err, progress, successor, holder
  j.claimed, j.held, j.cancelled = flags % 2 == 1, band(flags, IS_HELD) ~= 0,
    band(flags, IS_CANCELLED) ~= 0
  return j
end

local function save_run(j)
  local flags = (j.claimed and IS_CLAIMED or 0) + (j.held and IS_HELD or 0) +
    (j.cancelled and IS_CANCELLED or 0)
  j.run = pack(RUN .. 'Hc0Hc0Bc0Bc0', 1, flags, j.fence, j.owner, j.failures, j.crashes, j.due,
    #j.err, j.err, #j.progress, j.progress, #j.successor, j.successor, #j.holder, j.holder) ..
    j.head
  call('HSET', j.q.run, j.rest, j.run)
end

-- A job that has never been claimed, held or failed has no run; its due time is its score.
local function plain(q, rest, j)
  j.q, j.rest, j.member = q, rest, member_of(j.num, rest)
  j.fence, j.owner, j.failures, j.crashes, j.due = 0, 0, 0, 0, 0
  j.err, j.progress, j.successor, j.holder = '', '', '', ''
  return j
end

-- Finds a job that has not ended. nil: there is none.
local function find(q, rest)
  local s = call('HGET', q.run, rest)
  if s then
    return read_run(q, rest, s)
  end
  s = call('HGET', q.job, rest)
  return s and plain(q, rest, read_head(s, 1)) or nil
end

-- The one sorted set that the job is in. nil: it is held.
local function place(j)
  if j.claimed then
    return j.q.lease
  end
  if j.held then
    return nil
  end
  return j.crashes > 0 and j.q.again or j.q.due[j.class + 1]
end

-- ------------------------------------------------------- changes of a job ---

-- The numbers of an end's record. Then come the name, the key if the state has HAS_KEY, the result.
local END = '>BBI7I7I7I7I4I4'
local HAS_KEY = 128

local function forget_end(field, s)
  local _, _, num, put, _, till = unpack_bytes(END, s)
  call('HDEL', ENDS, field)
  if till > put + REPEAT then
    call('ZREM', KEPT, field)
    call('ZREM', KEPT_AT, pack('>I7', num) .. field)
  else
    call('ZREM', UNTIL, field)
  end
end

local function end_until(s)
  return (unpack_bytes('>I7', s, 24))
end

local function index_end(field, num, put, ended, till)
  if till > put + REPEAT then
    call('ZADD', KEPT, till, field)
    call('ZADD', KEPT_AT, ended, pack('>I7', num) .. field)
  else
    call('ZADD', UNTIL, till, field)
  end
end

local function write_end(field, j, state, ended, till, result)
  local name = j.name or ''
  if j.key then
    state, result = state + HAS_KEY, pack('>Bc0', #j.key, j.key) .. result
  end
  call('HSET', ENDS, field, pack(END .. 'Bc0', 1, state, j.num, j.put, ended, till, j.failures,
    j.crashes, #name, name) .. result)
  index_end(field, j.num, j.put, ended, till)
end

-- Removes records whose time is over: a few with each call, so that there are never many.
local function forget_old()
  if house == 0 then
    return
  end
  local old = call('ZRANGEBYSCORE', UNTIL, '-inf', now, 'LIMIT', 0, house)
  if #old > 0 then
    call('ZREM', UNTIL, unpack(old))
    call('HDEL', ENDS, unpack(old))
  end
  for _, field in ipairs(call('ZRANGEBYSCORE', KEPT, '-inf', now, 'LIMIT', 0, 10)) do
    forget_end(field, call('HGET', ENDS, field))
  end
end

local function leave(j)
  local from = place(j)
  if from then
    call('ZREM', from, j.member)
  end
end

local function make_pending(j, due)
  local from = place(j)
  j.claimed, j.held, j.holder, j.fence, j.due = false, false, '', 0, due
  local to = place(j)
  if from and from ~= to then
    call('ZREM', from, j.member)
  end
  call('ZADD', to, due, j.member)
  nearer(j.q, due)
  if j.failures > 0 or j.crashes > 0 or j.err ~= '' or j.progress ~= '' then
    save_run(j)
  elseif j.run then
    call('HDEL', j.q.run, j.rest)
  end
end

-- The job has ended. If the job was held, its holder has no successor any more. Otherwise the
-- successor of the job, if there is one, becomes pending and gets the key.
local function hand_on(j)
  if j.held then
    local holder = find(j.q, j.holder)
    holder.successor = ''
    save_run(holder)
  elseif j.successor ~= '' then
    local successor = find(j.q, j.successor)
    make_pending(successor, successor.due)
    call('HSET', j.q.key, successor.key, successor.rest)
  elseif j.key then
    call('HDEL', j.q.key, j.key)
  end
end

local function end_job(j, state, result)
  local field, till = j.q.name .. '/' .. j.rest, j.put + REPEAT
  leave(j)
  call('HDEL', j.q.job, j.rest)
  if j.run then
    call('HDEL', j.q.run, j.rest)
  end
  if j.keep > 0 and till < now + j.keep then
    till = now + j.keep
  end
  if state == CANCELLED then
    event(EV_CANCELLED, field, '')
  elseif state == REPLACED then
    event(EV_REPLACED, field, '')
  end
  hand_on(j)
  if till > now then
    write_end(field, j, state, now, till, result)
  end
end

local DEAD_HEAD = '>BI7I4I4i8Hc0'

local function index_dead(field, num, ended)
  call('ZADD', DEAD_NO, num, field)
  call('ZADD', DEAD_AT, ended, pack('>I7', num) .. field)
  call('HINCRBY', DEAD_N, string.match(field, '^[^/]*'), 1)
end

local function bury(j, reason)
  local q, field = j.q, j.q.name .. '/' .. j.rest
  call('HSET', DEAD, field, pack(DEAD_HEAD, 1, now, j.failures, j.crashes, j.due, #reason, reason) ..
    call('HGET', q.job, j.rest))
  index_dead(field, j.num, now)
  leave(j)
  call('HDEL', q.job, j.rest)
  call('HDEL', q.run, j.rest)
  event(EV_DEAD, field, reason)
  hand_on(j)
end

-- Removes a dead letter. Returns its head and its record.
local function take_dead(field, s)
  local _, ended, failures, crashes, _, _, p = unpack_bytes(DEAD_HEAD, s)
  local j, name = read_head(s, p), string.match(field, '^[^/]*')
  j.failures, j.crashes, j.ended = failures, crashes, ended
  call('HDEL', DEAD, field)
  call('ZREM', DEAD_NO, field)
  call('ZREM', DEAD_AT, pack('>I7', j.num) .. field)
  if call('HINCRBY', DEAD_N, name, -1) == 0 then
    call('HDEL', DEAD_N, name)
  end
  return j, sub(s, p)
end

-- Removes a dead letter, and leaves a record of an end for repeated puts.
local function remove_dead(field, s)
  local j = take_dead(field, s)
  if j.put + REPEAT > now then
    write_end(field, j, CANCELLED, j.ended, j.put + REPEAT, '')
  end
end
