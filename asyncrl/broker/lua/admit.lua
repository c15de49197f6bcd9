-- Is a large result worth uploading? ARGV[3..]: actor, kind, token, job, bytes.
-- An accepted result's blob must never be written again, so only who may still complete may upload.
-- Changes nothing. Return OK | FULL | REFUSED (complete will say DUP or STALE); ms an upload lives.
local _, live = live_of(ARGV[6])
if live ~= ARGV[5] or holder_of(ARGV[4], ARGV[5]) ~= ARGV[3] then return {'REFUSED', 0} end
return {full(tonumber(ARGV[7])) and 'FULL' or 'OK', limit_ms('blob_ttl')}
