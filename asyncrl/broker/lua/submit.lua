-- Hand out a job. ARGV[3..]: job, kind, payload.
-- Guarantee: a job id is queued at most once, however often it is submitted. Out of memory changes nothing.
-- Return OK | LIVE (queued or running) | DONE (closed before) | FULL.
local job, kind, payload = ARGV[3], ARGV[4], ARGV[5]
if redis.call('HEXISTS', LIVE, job) == 1 then return {'LIVE'} end
if redis.call('HEXISTS', DONE, job) == 1 then return {'DONE'} end
if redis.call('HLEN', LIVE) >= limit('max_jobs') then return {'FULL'} end
enqueue(kind, {j = job, n = '1', g = ARGV[2], p = payload, r = ''})
bump('issued')
return {'OK'}
