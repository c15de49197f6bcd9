-- Hand in the result of an attempt. KEYS[FIXED + 1]: its blob, where the payload is in one.
-- ARGV[3..]: actor, kind, token, job, env steps, bytes, payload.
-- Guarantee: at most one result a job, that of its newest attempt. XADD is the first write, so that
-- running out of memory changes nothing. Repeated after a lost reply it answers DUP.
-- Return OK | DUP | STALE | FULL | NOBLOB.
local actor, kind, token, job = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local steps, size, blob = ARGV[7], tonumber(ARGV[8]), KEYS[FIXED + 1]
local _, live, generation = live_of(job)
local e = entry_of(stream_of(kind), token)
if not e or live ~= token or holder_of(kind, token) ~= actor then
  allow_oom()
  local record = redis.call('HGET', DONE, job) or ''
  local accepted = string.sub(record, 1, #token + 3) == 'A|' .. token .. '|'
  bump(accepted and 'duplicate' or 'stale')
  return {accepted and 'DUP' or 'STALE'}
end
if full(size) then return {'FULL'} end
if blob and redis.call('EXISTS', blob) == 0 then return {'NOBLOB'} end
local result = redis.call('XADD', RESULTS, '*', 'j', job, 'k', kind, 'n', e.n, 'g', generation,
  'a', actor, 'e', steps, 's', ARGV[8], blob and 'b' or 'p', blob or ARGV[9])
if blob then redis.call('PERSIST', blob) end
redis.call('HSET', SIZES, result, ARGV[8] .. '|' .. (blob or ''))
remove(kind, token)
close(job, 'A', token, result)
bump('accepted')
bump('bytes', size)
bump(kind .. '_steps', steps)
return {'OK'}
