-- An actor says goodbye. ARGV[3]: actor.
-- Guarantee: what it still held is released, no attempt spent. Return OK, number released.
allow_oom()
local actor, released = ARGV[3], 0
for _, kind in ipairs({'train', 'eval'}) do
  local total = redis.call('XPENDING', stream_of(kind), GROUP)[1]
  local held = total > 0 and redis.call('XPENDING', stream_of(kind), GROUP, '-', '+', total, actor) or {}
  for _, p in ipairs(held) do
    if requeue(kind, p[1], false)[1] == 'REASSIGNED' then released = released + 1 end
  end
  redis.call('XGROUP', 'DELCONSUMER', stream_of(kind), GROUP, actor)
end
if redis.call('HDEL', ACTORS, actor) == 1 then event('t', 'left', 'a', actor) end
return {'OK', released}
