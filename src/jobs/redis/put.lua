-- put: puts jobs. Arguments: 10 for each job (puts.lua). Answer: a digit for each job (0: new; 1:
-- exists; 2: the key is in use), and the ids of the jobs that exist or hold the key.
local reply = {0, 0, 0}
forget_old()
put_all(arg, (#ARGV - arg + 1) / PUT_ARGS, reply)
return answer(reply)
