-- Take an attempt away from an actor that does not finish it. ARGV[3..]: token, kind, reason,
-- max attempts (0: the attempt does not count), dead kept, events kept, done kept.
-- Guarantee: only a delivered attempt is touched, once; its token is worthless from then on.
local token, kind = ARGV[3], ARGV[4]
if not holder_of(kind, token) then return {'GONE', '', 0} end
local keep = {dead = ARGV[7], events = ARGV[8], done = tonumber(ARGV[9])}
local answer = requeue(kind, token, ARGV[5], tonumber(ARGV[6]), '', keep)
if answer[1] == 'REASSIGNED' then bump('reassigned') end
return answer
