-- List what is pending to an actor, delivered by whichever connection. ARGV[3..]: actor, kinds.
-- Changes nothing. Return OK, then (kind, entry) pairs.
local actor, answer = ARGV[3], {'OK'}
for i = 4, #ARGV do
  local stream = stream_of(ARGV[i])
  local total = redis.call('XPENDING', stream, GROUP)[1]
  if total > 0 then
    for _, p in ipairs(redis.call('XPENDING', stream, GROUP, '-', '+', total, actor)) do
      local entry = redis.call('XRANGE', stream, p[1], p[1])[1]
      if entry then answer[#answer + 1] = {ARGV[i], entry[1], entry[2]} end
    end
  end
end
return answer
