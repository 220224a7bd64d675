-- export: makes a batch: removes items that belong to another server from their keys, and adds them
-- to the outbox. If the outbox already has a batch, nothing is removed, and the answer is that batch.
-- Jobs that are running or held stay.
--
-- Arguments: the run id of this server; the name of the new server; the kind: 'job' (pending jobs of
-- the queue, and crons without a tick), 'dead' or 'end'; then the id of each item, with its queue for
-- 'dead' and 'end'.
-- Answer: how many of the ids were looked at; the number of the batch, its new server, its kind and
-- its source (the `id` of this data and the run id); the last fence; then for each item of the outbox
-- its id with its queue, and its text (docs/jobs-redis.md).
--
-- The run id belongs to the source, because a server that was restarted may have lost the last
-- batches, and then gives their numbers to other batches.
local BYTES = 1048576
local run, to, kind = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
local looked_at, bytes = 0, 0

local function take_definition(name)
  local s = call('HGET', CRONS, name)
  if s then
    call('HDEL', CRONS, name)
  end
  return s or ''
end

-- The unique key of the job stays until the batch is dropped, so that no other job gets the key.
local function take_job(q, rest)
  local j = find(q, rest)
  local due, record, definition = NEVER, '', ''
  if j and (j.claimed or j.held) then
    return nil
  end
  if j then
    due = tonumber(call('ZSCORE', place(j), j.member))
    record = call('HGET', q.job, rest)
    leave(j)
    call('HDEL', q.job, rest)
    if j.run then
      call('HDEL', q.run, rest)
    end
  end
  if q.name == 'uvs.cron' then
    definition = take_definition(rest)
  end
  if not j and definition == '' then
    return nil
  end
  j = j or {failures = 0, crashes = 0, err = '', progress = ''}
  return pack('>i8I4I4Hc0Hc0I4c0', due, j.failures, j.crashes, #j.err, j.err, #j.progress,
    j.progress, #definition, definition) .. record
end

local function take_letter(field)
  local s = call('HGET', DEAD, field)
  if s then
    take_dead(field, s)
  end
  return s
end

local function take_end(field)
  local s = call('HGET', ENDS, field)
  if s then
    forget_end(field, s)
  end
  return s and end_until(s) > now and s or nil
end

if call('HLEN', OUTBOX) == 0 then
  for i = arg + 3, #ARGV do
    local id, text = ARGV[i], nil
    local field = id
    if bytes > BYTES then
      break
    end
    if kind == 'job' then
      field, text = queues[1].name .. '/' .. id, take_job(queues[1], id)
    else
      text = kind == 'dead' and take_letter(id) or kind == 'end' and take_end(id)
    end
    if text then
      call('HSET', OUTBOX, field, text)
      bytes = bytes + #text
    end
    looked_at = looked_at + 1
  end
  if bytes > 0 then
    call('HINCRBY', META, 'batch', 1)
    call('HSET', META, 'batch_to', to, 'batch_kind', kind, 'batch_run', run)
  end
end
local batch = call('HMGET', META, 'batch', 'batch_to', 'batch_kind', 'id', 'batch_run')
local reply = {0, 0, 0, looked_at, tonumber(batch[1] or 0), batch[2] or '', batch[3] or '',
  (batch[4] or '') .. ':' .. (batch[5] or ''), fence}
for _, s in ipairs(call('HGETALL', OUTBOX)) do
  reply[#reply + 1] = s
end
return answer(reply)
