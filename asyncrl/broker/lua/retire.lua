-- Forget an actor that is gone. ARGV[3]: actor.
-- Guarantee: refuses while anything is pending to it (deleting its consumer would drop those jobs).
-- Return OK, 1 when it is forgotten.
local actor = ARGV[3]
for _, stream in ipairs({TRAIN, EVAL}) do
  if #redis.call('XPENDING', stream, GROUP, '-', '+', 1, actor) > 0 then return {'OK', 0} end
end
for _, stream in ipairs({TRAIN, EVAL}) do redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, actor) end
redis.call('HDEL', ACTORS, actor)
return {'OK', 1}
