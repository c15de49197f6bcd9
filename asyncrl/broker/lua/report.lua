-- Put a failure report among the events. ARGV[3..]: actor, job, attempt, report, reason, 1 to keep it
-- among the dead as well.
allow_oom()
local actor, job, attempt, report, reason = unpack(ARGV, 3, 7)
event('t', 'failure', 'a', actor, 'j', job, 'n', attempt, 'f', report)
if ARGV[8] == '1' then
  bury('j', job, 'k', '', 'n', attempt, 'a', actor, 'r', reason, 'p', '', 'f', report)
end
return {'OK'}
