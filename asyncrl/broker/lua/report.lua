-- Put a failure report among the events. ARGV[3..]: events kept, dead kept, actor, job, attempt,
-- report, reason, 1 to keep it among the dead as well.
allow_oom()
event(ARGV[3], 't', 'failure', 'a', ARGV[5], 'j', ARGV[6], 'n', ARGV[7], 'f', ARGV[8])
if ARGV[10] == '1' then
  redis.call('XADD', DEAD, 'MAXLEN', '~', ARGV[4], '*', 'j', ARGV[6], 'k', '', 'n', ARGV[7],
    'a', ARGV[5], 'r', ARGV[9], 'p', '', 'f', ARGV[8])
end
return {'OK'}
