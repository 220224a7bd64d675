-- claim: claims jobs. The steps 1 to 8 are those of CLAIM in store.h. Arguments: how many jobs at
-- most, how many with crashes at most, '1' for pending jobs only, the length of the lease, and how
-- long the caller waits as a deputy after the end of a leader's term ('': it takes no part).
-- Answer: the next time, the fence, and of each job its id, state (crashed now, failures, crashes,
-- due time), record, and in the queue of crons the definition.
local PAGE, LOOKED_AT, BYTES = 100, 1000, 1048576
local q = queues[1]
local max, max_crashed = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1])
local pending_only, lease = ARGV[arg + 2] == '1', lease_end(tonumber(ARGV[arg + 3]))
local set = call('HMGET', q.set, 'paused', 'concurrency', 'rate', 'rate_us', 'catch_up',
  'rate_start', 'rate_used', 'catch_up_start', 'catch_up_used', 'large')
for i = 1, 10 do
  set[i] = tonumber(set[i] or 0)
end
-- Each server has an equal share of a bound, rounded up, so at least 1.
if set[2] + set[3] + set[5] > 0 then
  local servers = tonumber(call('HGET', META, 'servers') or 1)
  for _, i in ipairs({2, 3, 5}) do
    set[i] = math.ceil(set[i] / servers)
  end
end
local concurrency = set[2]
local rate = {max = set[3], us = set[4], start = set[6], used = set[7], name = 'rate'}
local catch_up = {max = set[5], us = 1000000, start = set[8], used = set[9], name = 'catch_up'}
local running = concurrency > 0 and call('ZCOUNT', q.lease, fmt('(%.0f', now), '+inf') or 0
local large = set[10] == 1
local reply = {0, 0, 0, 0, 0}
local handled, crashed, bytes, stopped, token_us = 0, 0, 0, nil, NEVER

local function is_over(w)
  return now - w.start >= w.us or now < w.start
end

local function has_token(w)
  return w.max == 0 or w.used < w.max or is_over(w)
end

local function take_token(w)
  if w.max == 0 then
    return
  end
  if is_over(w) then
    w.start, w.used = now, 0
  end
  w.used, w.changed = w.used + 1, true
end

local unbounded = concurrency == 0 and rate.max == 0 and catch_up.max == 0

-- Steps 4 to 7. Returns true if the job may be claimed; else `stopped` or 'skip'.
local function may_claim(score)
  if unbounded and handled < max and bytes <= BYTES then
    return true
  elseif concurrency > 0 and running >= concurrency then
    stopped = 'concurrency'
  elseif not has_token(rate) then
    stopped = 'rate'
  elseif score < now - OVERDUE and not has_token(catch_up) then
    token_us = catch_up.start + catch_up.us
    return 'skip'
  elseif handled >= max or bytes > BYTES then
    stopped = 'max'
  else
    return true
  end
  return stopped
end

local function count_claim(score, member)
  handled = handled + 1
  if large then -- otherwise a page is less than BYTES
    bytes = bytes + call('HSTRLEN', q.job, sub(member, 5))
  end
  if unbounded then
    return
  end
  take_token(rate)
  if score < now - OVERDUE then
    take_token(catch_up)
  end
  running = running + 1
end

-- ------------------------------------------------------------------ write ---

local PLAIN_REST = pack('HHBB', 0, 0, 0, 0) -- of the run of a job that has not failed

-- Makes a run longer than 64 bytes. Redis keeps a hash of up to 512 shorter values as a list, and
-- each look-up reads half of that list: half of the time of a claim with 500 jobs claimed.
local PADDING = string.rep('\0', 16)

-- The run of a job that is claimed for the first time.
local function first_run(record, due)
  local head = band(string.byte(record, 2), 28) == 0 and sub(record, 1, 16) or
    read_head(record, 1).head
  return pack(RUN, 1, IS_CLAIMED, fence, node, 0, 0, due) .. PLAIN_REST .. head .. PADDING
end

-- Returns the new run of a job that has one, how often it has failed and crashed, and when it was
-- due.
local function next_run(run, expired)
  local failures, crashes, due = select(5, unpack_bytes(RUN, run))
  crashes = crashes + (expired and 1 or 0)
  return pack('>BBI7I6I4I4', 1, IS_CLAIMED, fence, node, failures, crashes) .. sub(run, 24),
    failures, crashes, due
end

-- Writes claimed jobs, and adds them to the answer. froms: the sorted sets that they are in.
local function write_claims(members, scores, froms)
  local n = #members
  local rests, runs, leases, gone, records, old = {}, {}, {}, {}, nil, nil
  local digits = fmt('%.0f', lease) -- once, because it takes long
  local r = #reply
  if n == 0 then
    return
  end
  if fence == old_fence then
    fence = fence + 1
  end
  for i = 1, n do
    local m, from = members[i], froms[i]
    rests[i] = sub(m, 5)
    leases[2 * i - 1], leases[2 * i] = digits, m
    if from ~= q.lease then
      gone[from] = gone[from] or {}
      gone[from][#gone[from] + 1] = m
    end
  end
  records, old = call('HMGET', q.job, unpack(rests)), call('HMGET', q.run, unpack(rests))
  for i = 1, n do
    local run, expired, record = old[i], froms[i] == q.lease, records[i]
    local failures, crashes, due = 0, 0, scores[i]
    if run then
      run, failures, crashes, due = next_run(run, expired)
    else
      run = first_run(record, due)
    end
    runs[2 * i - 1], runs[2 * i] = rests[i], run
    reply[r + 1], reply[r + 3] = rests[i], record
    reply[r + 2] = pack('>BI4I4i8', expired and 1 or 0, failures, crashes, due)
    r = r + 3
    bytes = bytes + (large and 0 or #record)
    if q.name == 'uvs.cron' then
      r = r + 1
      reply[r] = call('HGET', CRONS, rests[i]) or ''
    end
  end
  call('HSET', q.run, unpack(runs))
  for from, each in pairs(gone) do
    call('ZREM', from, unpack(each))
  end
  call('ZADD', q.lease, unpack(leases))
  nearer(q, lease)
end

-- ------------------------------------------------------------------- walk ---

-- The members of a set up to now, page by page.
local function reader(key)
  return {key = key, at = 0, i = 1, list = {}, more = true}
end

local function peek(r)
  if r.i > #r.list and r.more then
    r.list = call('ZRANGEBYSCORE', r.key, '-inf', now, 'WITHSCORES', 'LIMIT', r.at, PAGE)
    r.at, r.more, r.i = r.at + #r.list / 2, #r.list == 2 * PAGE, 1
  end
  return r.list[r.i], tonumber(r.list[r.i + 1])
end

-- Step 3: ends a job that was cancelled or replaced. Returns true if the job is not to be claimed.
local function end_expired(r, rest)
  local j = find(q, rest)
  if not j.cancelled and j.successor == '' then
    return false
  end
  if handled >= max then
    stopped = 'max'
    return true
  end
  end_job(j, j.cancelled and CANCELLED or REPLACED, '')
  r.at, handled = r.at - 1, handled + 1
  return true
end

-- Claims jobs whose lease has ended and jobs with crashes, both in one order.
local function walk_crashed()
  local expired, again = reader(q.lease), reader(q.again)
  local members, scores, froms = {}, {}, {}
  local looked_at = 0
  if pending_only then
    expired.more = false
  end
  while not stopped and crashed < max_crashed do
    local r, m, score = expired, peek(expired)
    local m2, score2 = peek(again)
    if m2 and (not m or score2 < score or
      (score2 == score and unpack_bytes('>I4', m2) < unpack_bytes('>I4', m))) then
      r, m, score = again, m2, score2
    end
    if not m then
      break
    end
    looked_at = looked_at + 1
    if looked_at > LOOKED_AT then
      stopped = 'looked_at'
      break
    end
    r.i = r.i + 2
    if r == again or not end_expired(r, sub(m, 5)) then
      if may_claim(score) == true then
        count_claim(score, m)
        crashed = crashed + 1
        local i = #members + 1
        members[i], scores[i], froms[i] = m, score, r.key
      end
    end
  end
  write_claims(members, scores, froms)
end

-- Claims pending jobs of one priority. Overdue jobs come first; without a token for these, all of
-- them are skipped.
local function walk_pending(key)
  local from = '-inf'
  while not stopped do
    local page = math.min(PAGE, max - handled + 1)
    local got = call('ZRANGEBYSCORE', key, from, now, 'WITHSCORES', 'LIMIT', 0, page)
    local members, scores, froms, skip = {}, {}, {}, false
    for i = 1, #got, 2 do
      local n = #members + 1
      local score = tonumber(got[i + 1])
      local may = may_claim(score)
      if may ~= true then
        skip = may == 'skip'
        break
      end
      count_claim(score, got[i])
      members[n], scores[n], froms[n] = got[i], score, key
    end
    write_claims(members, scores, froms)
    if skip then
      from = fmt('%.0f', now - OVERDUE)
    elseif #got < 2 * page then
      break
    end
  end
end

local function after_now(key)
  local first = call('ZRANGEBYSCORE', key, fmt('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return tonumber(first[2] or NEVER)
end

local function next_time()
  if stopped == 'max' then
    return now
  elseif stopped == 'concurrency' then
    return after_now(q.lease)
  elseif stopped == 'rate' then
    return rate.start + rate.us
  elseif stopped == 'looked_at' then
    return token_us < NEVER and token_us or now
  end
  return math.min(token_us, after_now(q.due[1]), after_now(q.due[2]), after_now(q.due[3]),
    after_now(q.lease), after_now(q.again))
end

-- ------------------------------------------------------------------- lead ---

local SLEEP = 30000000 -- the longest sleep, because a wake-up may be lost

-- The caller has no place left: another node must look.
local function give_up_lead(l, head)
  if l and (l.node == node or l.till < now) then
    call('HDEL', LEAD, q.name)
    l = nil
  end
  if stopped == 'max' then
    wake_idle(q)
    q.nearest = nil -- the node that was woken sees all jobs
  elseif head < NEVER then
    nearer(q, head)
  end
end

local function become_leader(l, head)
  local new = {node = node, head = head, till = math.min(head, now + SLEEP) + TERM, deputy = 0,
    deputy_till = 0}
  if l and l.deputy ~= node and l.deputy_till + LATE >= now then
    new.deputy, new.deputy_till = l.deputy, l.deputy_till
  end
  save_lead(q, new)
  if new.deputy == 0 then
    wake_idle(q)
  end
end

-- When the caller looks next.
local function follow(l, delay)
  call('ZADD', q.idle, now, ARGV[4])
  if l.deputy == 0 or l.deputy == node or l.deputy_till + LATE < now then
    l.deputy, l.deputy_till = node, l.till + delay
    save_lead(q, l)
    return l.deputy_till
  end
  return now + SLEEP - 50 * delay -- up to 4 s earlier, so that the nodes do not all ask at once
end

local function lead(head)
  local delay = tonumber(ARGV[arg + 4])
  local l = read_lead(q)
  if not delay then
    return head
  end
  call('ZREM', q.idle, ARGV[4])
  if stopped == 'max' or handled >= max then
    give_up_lead(l, head)
    return head
  end
  if not l or l.node == node or l.till < now then
    become_leader(l, head)
    return head
  end
  if head < l.head then
    nearer(q, head)
  end
  return follow(l, delay)
end

forget_old()
if set[1] == 1 then
  reply[4] = NEVER
  return answer(reply)
end
walk_crashed()
for class = 1, 3 do
  walk_pending(q.due[class])
end
for _, w in ipairs({rate, catch_up}) do
  if w.changed then
    call('HSET', q.set, w.name .. '_start', w.start, w.name .. '_used', w.used)
  end
end
reply[4], reply[5] = lead(next_time()), fence
return answer(reply)
