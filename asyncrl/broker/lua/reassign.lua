-- Take an attempt away from an actor that does not finish it. ARGV[3..]: token, kind, reason,
-- 1 where the attempt counts.
-- Guarantee: only a delivered attempt is touched, once; its token is worthless from then on.
local token, kind = ARGV[3], ARGV[4]
if not holder_of(kind, token) then return {'GONE', '', 0} end
local answer = requeue(kind, token, ARGV[6] == '1', ARGV[5], '')
if answer[1] == 'REASSIGNED' then bump('reassigned') end
return answer
