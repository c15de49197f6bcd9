-- An actor gives attempts back unfinished. ARGV[3]: actor. ARGV[4..]: kind and token of each.
-- Guarantee: the jobs run again with the same attempt number; attempts that are no longer the
-- actor's are left alone. Return OK, number released.
local actor, released = ARGV[3], 0
for i = 4, #ARGV, 2 do
  local kind, token = ARGV[i], ARGV[i + 1]
  if holder_of(kind, token) == actor and requeue(kind, token, false)[1] == 'REASSIGNED' then
    released = released + 1
  end
end
return {'OK', released}
