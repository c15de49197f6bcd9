-- Mark the run finished: from now on beats are answered with drain. KEYS[FIXED + 1..]: its weights' parts.
-- Guarantee: once no job is out and every result is acked, asked again, all keys of the run expire
-- together (after.lua passes the time on); not one goes before.
-- Return OK, 1 when the run expires (or is to be kept for ever), 0 while there is something left.
allow_oom()
redis.call('HSET', META, 'state', 'finished')
if not nothing_left() then return {'OK', 0} end
if limit('finished_ttl') > 0 then redis.call('PEXPIRE', META, limit_ms('finished_ttl')) end
return {'OK', 1}
