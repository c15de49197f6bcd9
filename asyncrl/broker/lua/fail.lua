-- An actor gives an attempt back because it raised. ARGV[3..]: token, kind, reason, actor,
-- report.
-- Guarantee: changes nothing unless the attempt is still this actor's.
local token, kind, actor = ARGV[3], ARGV[4], ARGV[6]
if holder_of(kind, token) ~= actor then return {'GONE', '', 0} end
local answer = requeue(kind, token, true, ARGV[5], ARGV[7])
if answer[1] ~= 'GONE' then bump('failed') end
if answer[1] == 'REASSIGNED' then
  event('t', 'failure', 'a', actor, 'j', answer[2], 'n', text(answer[3] - 1), 'f', ARGV[7])
end
return answer
