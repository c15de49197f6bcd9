-- The learner refuses a result that it cannot use. KEYS[FIXED + 1]: its blob, where it has one.
-- ARGV[3..]: entry id, reason, report, the job's payload ('' when nobody waits for the job any more).
-- Guarantee: the result is off the log and kept among the dead, once. Its job, where wanted, counts as
-- accepted no more: it runs again as the next attempt, or is dead at `max_attempts`.
-- Return REASSIGNED | DEAD | DROPPED | GONE, job, attempt.
local id, reason, report, payload = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
allow_oom()
local e = entry_of(RESULTS, id)
if not e then return {'GONE', '', 0} end
for _, name in ipairs({'j', 'k', 'n', 'g', 'a'}) do e[name] = e[name] or '' end
redis.call('XDEL', RESULTS, id)
bump('bytes', text(0 - count_in(redis.call('HGET', SIZES, id))))
redis.call('HDEL', SIZES, id)
for i = FIXED + 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
bury('j', e.j, 'k', '', 'n', e.n, 'a', e.a, 'r', reason, 'p', '', 'f', report)
local attempt = count_in(e.n)
local done = redis.call('HGET', DONE, e.j) or ''
local token = string.match(done, '^A|(%d+-%d+)|')
if payload == '' or not token or (e.k ~= 'train' and e.k ~= 'eval') then
  bump('dropped:invalid')
  event('t', 'failure', 'a', e.a, 'j', e.j, 'n', e.n, 'f', report)
  return {'DROPPED', e.j, attempt}
end
bump('accepted', -1)
bump(e.k .. '_steps', text(0 - count_in(e.e)))
if attempt >= limit('max_attempts') then
  close(e.j, 'D', token, '')
  bump('dead')
  event('t', 'dead', 'a', e.a, 'j', e.j, 'n', e.n, 'r', reason, 'f', report)
  return {'DEAD', e.j, attempt}
end
redis.call('HDEL', DONE, e.j)
redis.call('ZREM', DONE_ORDER, e.j)
enqueue(e.k, {j = e.j, n = text(attempt + 1), g = e.g, p = payload, r = reason})
event('t', 'failure', 'a', e.a, 'j', e.j, 'n', e.n, 'f', report)
return {'REASSIGNED', e.j, attempt + 1}
