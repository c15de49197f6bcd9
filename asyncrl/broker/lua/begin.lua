-- Is this attempt still the actor's to do? ARGV[3..]: actor, kind, token, job. Changes nothing.
-- Return OK, 1 or 0, generation and version of the newest weights ('' when there are none).
local _, live = live_of(ARGV[6])
local mine = live == ARGV[5] and holder_of(ARGV[4], ARGV[5]) == ARGV[3]
local weights = redis.call('HMGET', WEIGHTS, 'generation', 'version')
return {'OK', mine and 1 or 0, weights[1] or '', weights[2] or ''}
