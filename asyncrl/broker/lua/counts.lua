-- Return OK, number of jobs queued and not delivered, number of results waiting, their bytes.
local function undelivered(stream)
  return redis.call('XLEN', stream) - redis.call('XPENDING', stream, GROUP)[1]
end
return {'OK', undelivered(TRAIN) + undelivered(EVAL), redis.call('XLEN', RESULTS),
  count_in(redis.call('HGET', LEDGER, 'bytes'))}
