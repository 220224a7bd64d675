-- put: puts jobs. Arguments: 10 for each job (puts.lua). Answer: a digit for each job (0: new; 1:
-- exists; 2: the key is in use; 3 and 4: see put_one in puts.lua), and for each 1 and 2 the id of the
-- job that exists or holds the key. Programs in other languages call this script as node 0. Then the
-- script checks all arguments before it writes. The library has checked its own arguments.
local function is_name(name)
  return #name <= 64 and string.find(name, '^[%w_.:-]+$')
end

-- Returns what is wrong with a job.
local function fault(a)
  if not queues[tonumber(ARGV[a])] then
    return 'the index of the queue'
  elseif #ARGV[a + 1] < 1 or #ARGV[a + 1] > 96 or string.find(ARGV[a + 1], '[%c%z]') then
    return 'the id'
  elseif ARGV[a + 2] ~= '' and not is_name(ARGV[a + 2]) then
    return 'the name'
  elseif #ARGV[a + 3] > 255 then
    return 'the key'
  elseif not string.find(ARGV[a + 4], '^[0-6]$') or ARGV[a + 4] == '3' then
    return 'the key policy'
  elseif not string.find(ARGV[a + 5], '^[012]$') then
    return 'the class'
  elseif not string.find(ARGV[a + 6], '^[+-]?%d+$') then
    return 'the due time'
  elseif not string.find(ARGV[a + 7], '^%d+$') or tonumber(ARGV[a + 7]) > NEVER then
    return 'how long the end is kept'
  elseif #ARGV[a + 8] > 4096 then
    return 'the size of the metadata'
  elseif #ARGV[a + 9] > 1114112 then
    return 'the size of the payload'
  end
end

-- Returns what is wrong with the call.
local function refusal(n)
  if n ~= math.floor(n) or n > 1000 then
    return 'a put takes 10 arguments for each job, and at most 1000 jobs'
  end
  for i, q in ipairs(queues) do
    if not is_name(q.name) then
      return fmt('the name of queue %d is wrong', i)
    end
  end
  for i = 1, n do
    local what = fault(arg + PUT_ARGS * (i - 1))
    if what then
      return fmt('job %d: %s is wrong', i, what)
    end
  end
end

local jobs = (#ARGV - arg + 1) / PUT_ARGS
local refused = node == 0 and refusal(jobs)
if refused then
  return redis.error_reply('ERR ' .. refused)
end

local reply = {0, 0, 0}
forget_old()
put_all(arg, jobs, reply)
return answer(reply)
