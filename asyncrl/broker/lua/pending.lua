-- List the attempts that were delivered and are not finished. Changes nothing.
-- Return OK, then for each: kind, token, actor, idle ms, job, attempt.
local answer = {'OK'}
for _, kind in ipairs({'eval', 'train'}) do
  local stream = stream_of(kind)
  local total = redis.call('XPENDING', stream, GROUP)[1]
  if total > 0 then
    for _, p in ipairs(redis.call('XPENDING', stream, GROUP, '-', '+', total)) do
      local e = entry_of(stream, p[1]) or {}
      answer[#answer + 1] = {kind, p[1], p[2], p[3], e.j or '', e.n or ''}
    end
  end
end
return answer
