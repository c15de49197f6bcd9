-- Point at a new weight set. ARGV[3..]: version, sha256, bytes, history before, history after, number
-- of its own parts. KEYS[FIXED + 1..]: its parts, then those it retires.
-- Guarantee: versions only grow, over all generations; the pointer always resolves to whole parts.
-- Return OK | DUP | NOPART | RETRY (another history) | OLD, newest generation, newest version.
local version, parts = tonumber(ARGV[3]), tonumber(ARGV[8])
local now = redis.call('HMGET', WEIGHTS, 'generation', 'version', 'sha', 'history')
if now[1] == ARGV[2] and now[2] == ARGV[3] and now[3] == ARGV[4] then return {'DUP'} end
if now[2] and version <= count_in(now[2]) then return {'OLD', now[1], now[2]} end
if (now[4] or '') ~= ARGV[6] then return {'RETRY'} end
for i = FIXED + 1, FIXED + parts do
  if redis.call('EXISTS', KEYS[i]) == 0 then return {'NOPART'} end
end
redis.call('HSET', WEIGHTS, 'generation', ARGV[2], 'version', ARGV[3], 'sha', ARGV[4],
  'bytes', ARGV[5], 'parts', ARGV[8], 'history', ARGV[7], 'at', text(now_ms()))
for i = FIXED + 1, #KEYS do
  if i <= FIXED + parts then
    redis.call('PERSIST', KEYS[i])
  else
    redis.call('PEXPIRE', KEYS[i], limit_ms('weights_ttl'))
  end
end
return {'OK'}
