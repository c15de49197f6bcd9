-- Put behind every script of a running run, which is the function body() by then.
-- Once a finished run expires, what this script made anew expires with the rest. A run that has work
-- again, or a result nobody has acked, expires no more.
local answer = body()
local left = redis.call('PTTL', META)
if left > 0 then
  local idle = nothing_left()
  for i = 1, #KEYS do
    if idle then redis.call('PEXPIRE', KEYS[i], left) else redis.call('PERSIST', KEYS[i]) end
  end
end
return answer
