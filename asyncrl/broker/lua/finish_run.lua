-- Mark the run finished: from now on beats are answered with drain.
allow_oom()
redis.call('HSET', META, 'state', 'finished')
return {'OK'}
