-- An actor says it is alive. ARGV[3..]: actor, record, tokens it works on.
-- Guarantee: renews the lease of an attempt only while it is the actor's, so a frozen actor that wakes
-- up takes nothing back. Works when the server is out of memory.
-- Return OK, generation, state, weights' generation and version, lost tokens, cancelled job ids.
allow_oom()
local actor, lost, cancelled = ARGV[3], {}, {}
for i = 5, #ARGV do
  local token, mine = ARGV[i], false
  for _, kind in ipairs({'train', 'eval'}) do
    if holder_of(kind, token) == actor then
      mine = true
      redis.call('XCLAIM', stream_of(kind), GROUP, actor, 0, token, 'JUSTID')
    end
  end
  if not mine then
    lost[#lost + 1] = token
    local job = redis.call('HGET', CANCELLED, token)
    if job then cancelled[#cancelled + 1] = job end
  end
end
if redis.call('HSET', ACTORS, actor, text(now_ms()) .. ' ' .. ARGV[4]) == 1 then
  event('t', 'joined', 'a', actor)
end
local meta = redis.call('HMGET', META, 'generation', 'state')
local weights = redis.call('HMGET', WEIGHTS, 'generation', 'version')
return {'OK', meta[1], meta[2], weights[1] or '', weights[2] or '', lost, cancelled}
