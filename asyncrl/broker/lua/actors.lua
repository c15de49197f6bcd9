-- List the actors and when they last beat. Changes nothing. Return OK, server ms, ids and records.
return {'OK', text(now_ms()), redis.call('HGETALL', ACTORS)}
