-- Cancel jobs, queued or running. ARGV[3..]: job ids.
-- Guarantee: a later complete of a cancelled job is STALE; one that was accepted stays accepted.
-- Return OK, then the job ids of these that are cancelled, now or before.
allow_oom()
local answer = {'OK'}
for i = 3, #ARGV do
  local job = ARGV[i]
  local kind, token = live_of(job)
  if kind then cancel(job, kind, token) end
  local record = redis.call('HGET', DONE, job)
  if record and string.sub(record, 1, 1) == 'C' then answer[#answer + 1] = job end
end
return answer
