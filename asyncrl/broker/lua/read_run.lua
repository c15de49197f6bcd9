-- Read the run's description and the pointer to its newest weights. Changes nothing.
-- Return meta's fields and values, then the weights' generation and version ('' when there are none).
local weights = redis.call('HMGET', WEIGHTS, 'generation', 'version')
return {redis.call('HGETALL', META), weights[1] or '', weights[2] or ''}
