-- An actor gives an attempt back because it raised. ARGV[3..]: token, kind, reason, max attempts,
-- dead kept, events kept, done kept, actor, report.
-- Guarantee: changes nothing unless the attempt is still this actor's.
local token, kind, actor = ARGV[3], ARGV[4], ARGV[10]
if holder_of(kind, token) ~= actor then return {'GONE', '', 0} end
local keep = {dead = ARGV[7], events = ARGV[8], done = tonumber(ARGV[9])}
local answer = requeue(kind, token, ARGV[5], tonumber(ARGV[6]), ARGV[11], keep)
if answer[1] ~= 'GONE' then bump('failed') end
if answer[1] == 'REASSIGNED' then
  event(keep.events, 't', 'failure', 'a', actor, 'j', answer[2], 'n', text(answer[3] - 1), 'f', ARGV[11])
end
return answer
