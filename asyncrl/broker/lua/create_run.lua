-- Create the run, or take it over as its next generation.
-- KEYS[FIXED + 1..]: the parts of the weights that are kept.
-- ARGV: incarnation for a new run, fingerprint, protocol, library, spec, owner, call id, limits
-- (names and values of their fields).
-- Guarantee: one step bumps the generation and cancels every unfinished job of older ones, so the
-- ledger balances at every instant, and puts this learner's limits in force. Asked again with the same
-- call id (a lost reply) nothing changes. A finished run that was about to expire does so no more.
-- Return OK, incarnation, generation, id of the last result accepted before; or MISMATCH.
allow_oom()
local meta = redis.call('HMGET', META, 'incarnation', 'fingerprint', 'protocol', 'call', 'generation')
local incarnation = meta[1]
local function answer(generation)
  local last = redis.call('XREVRANGE', RESULTS, '+', '-', 'COUNT', 1)[1]
  return {'OK', incarnation, generation, last and last[1] or '0-0'}
end
if incarnation then
  if meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then return {'MISMATCH'} end
  if meta[4] == ARGV[7] then return answer(meta[5]) end
else
  -- What is left of a run whose meta is gone belongs to nothing.
  for i = 1, FIXED do redis.call('UNLINK', KEYS[i]) end
  incarnation = ARGV[1]
  redis.call('HSET', META, 'incarnation', incarnation, 'created', text(now_ms()))
end
for i = 1, #KEYS do redis.call('PERSIST', KEYS[i]) end
local generation = redis.call('HINCRBY', META, 'generation', 1)
redis.call('HSET', META, 'fingerprint', ARGV[2], 'protocol', ARGV[3], 'library', ARGV[4],
  'spec', ARGV[5], 'owner', ARGV[6], 'call', ARGV[7], 'state', 'running', unpack(ARGV, 8))
for _, stream in ipairs({TRAIN, EVAL}) do
  -- BUSYGROUP: it is there already. 0, not $: nothing may be skipped.
  redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
end
local live = redis.call('HGETALL', LIVE)
for i = 1, #live, 2 do
  local kind, token = string.match(live[i + 1], '^(%a+)|(%d+-%d+)|')
  if kind then cancel(live[i], kind, token) else redis.call('HDEL', LIVE, live[i]) end
end
return answer(text(generation))
