-- Put between names.lua and every script of a running run.
-- ARGV[1]: the incarnation the caller works for. ARGV[2]: the caller's generation, 0 for an actor.
-- A run that vanished or was created anew is LOST; a learner that was replaced is FENCED. Neither
-- changes anything.
do
  local meta = redis.call('HMGET', META, 'incarnation', 'generation', 'owner')
  if meta[1] ~= ARGV[1] then return {'LOST'} end
  if ARGV[2] ~= '0' and ARGV[2] ~= meta[2] then return {'FENCED', meta[2], meta[3]} end
end
