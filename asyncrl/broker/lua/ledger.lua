-- Read all counters in one step, so that they balance. Changes nothing.
-- Return OK, counters and values, jobs in flight, results waiting.
return {'OK', redis.call('HGETALL', LEDGER), redis.call('HLEN', LIVE), redis.call('XLEN', RESULTS)}
