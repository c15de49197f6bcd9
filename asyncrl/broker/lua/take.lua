-- Deliver queued jobs to an actor, evaluation first. ARGV[3..]: actor, count, kinds.
-- Not to be repeated after a lost reply: what it delivered is then found among the actor's own.
-- Return OK, then (kind, entry) pairs.
local actor, wanted, answer = ARGV[3], tonumber(ARGV[4]), {'OK'}
for i = 5, #ARGV do
  if wanted > 0 then
    local got = redis.call('XREADGROUP', 'GROUP', GROUP, actor, 'COUNT', wanted,
      'STREAMS', stream_of(ARGV[i]), '>')
    for _, entry in ipairs(got and got[1] and got[1][2] or {}) do
      answer[#answer + 1] = {ARGV[i], entry[1], entry[2]}
      wanted = wanted - 1
    end
  end
end
return answer
