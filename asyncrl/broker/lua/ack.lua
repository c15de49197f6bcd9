-- Take results that a checkpoint covers, or that were dropped, off the log.
-- KEYS[FIXED + 1..]: their blobs. ARGV[3..]: entry id and reason of each ('' means trained).
-- Guarantee: each result is counted once, however often it is acked; its blob goes with it.
-- Return OK, number taken off.
allow_oom()
local taken = 0
for i = 3, #ARGV, 2 do
  local id, reason = ARGV[i], ARGV[i + 1]
  if redis.call('XDEL', RESULTS, id) == 1 then
    taken = taken + 1
    bump(reason == '' and 'trained' or ('dropped:' .. reason))
    bump('bytes', text(0 - count_in(redis.call('HGET', SIZES, id))))
    redis.call('HDEL', SIZES, id)
  end
end
for i = FIXED + 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
return {'OK', taken}
