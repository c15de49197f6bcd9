-- Put in front of every script: the run's keys by name, and what several scripts share.
-- KEYS: the fixed keys of keys.py in order, then the script's own (blobs, weight parts) from FIXED + 1.
local META, TRAIN, EVAL, LIVE, DONE, DONE_ORDER, CANCELLED, RESULTS, SIZES, DEAD, ACTORS, WEIGHTS,
  LEDGER, EVENTS = unpack(KEYS, 1, 14)
local FIXED, GROUP = 14, 'actors'

-- Redis refuses a script's writes under memory pressure only until the script has written once
-- (6.2 to 8, Valkey too). Scripts that free memory, or keep the run alive, write this nothing first.
local function allow_oom() redis.call('HDEL', META, '') end

local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local function text(number) return string.format('%.0f', number) end

-- What all processes of the run agreed on, from limits.py, as its learner stored it. An older library
-- stored less; what is missing, or no number, is DEFAULT_LIMITS', which scripts.py puts in front.
local known_limits = {}
local function limit(name)
  if not known_limits[name] then
    local stored = redis.call('HGET', META, 'limit:' .. name)
    known_limits[name] = tonumber(stored or '') or DEFAULT_LIMITS[name]
  end
  return known_limits[name]
end

-- The same for a limit in seconds, as the milliseconds of a TTL, which is never 0.
local function limit_ms(name) return text(math.max(1, math.ceil(limit(name) * 1000))) end

-- The whole number at the start of what is stored somewhere; 0 where a stranger wrote something else.
local function count_in(stored)
  local number = tonumber(string.match(stored or '', '^%d+') or '') or 0
  return number < 2 ^ 53 and number or 0
end

local function stream_of(kind) return kind == 'eval' and EVAL or TRAIN end

local function bump(counter, by) redis.call('HINCRBY', LEDGER, counter, by or 1) end

-- Return the live record of a job as kind, token, generation; nil when it is not live.
local function live_of(job)
  local record = redis.call('HGET', LIVE, job)
  if record then return string.match(record, '^(%a+)|(%d+-%d+)|(%d+)$') end
end

-- Return the actor a token is pending to; nil when it is not pending.
local function holder_of(kind, token)
  local pending = redis.call('XPENDING', stream_of(kind), GROUP, token, token, 1)
  return pending[1] and pending[1][2]
end

-- Return the fields of a stream entry as a table; nil when there is no such entry.
local function entry_of(stream, id)
  local found = redis.call('XRANGE', stream, id, id)[1]
  if not found then return nil end
  local fields = {}
  for i = 1, #found[2], 2 do fields[found[2][i]] = found[2][i + 1] end
  return fields
end

-- Take an attempt off its stream. Ack first: deleting a pending entry leaves a ghost behind (6.2).
-- Return 1 when an actor was working on it.
local function remove(kind, token)
  local acked = redis.call('XACK', stream_of(kind), GROUP, token)
  redis.call('XDEL', stream_of(kind), token)
  return acked
end

-- A token is unique over both job streams and larger than all before, also when the clock steps back.
local function next_token()
  local ms = now_ms()
  local last_ms, last_seq = string.match(redis.call('HGET', META, 'token') or '', '^(%d+)-(%d+)$')
  if not last_ms then last_ms, last_seq = '0', '0' end
  if ms > tonumber(last_ms) then return text(ms) .. '-0' end
  return last_ms .. '-' .. text(last_seq + 1)
end

-- Append an attempt of a job and make its token the job's only valid one. XADD is the first write,
-- so that running out of memory changes nothing.
local function enqueue(kind, e)
  local token = next_token()
  redis.call('XADD', stream_of(kind), token, 'j', e.j, 'n', e.n, 'g', e.g, 'p', e.p, 'r', e.r)
  redis.call('HSET', META, 'token', token)
  redis.call('HSET', LIVE, e.j, kind .. '|' .. token .. '|' .. e.g)
  return token
end

-- Take a job out of the live ones and remember how it ended ('A'ccepted, 'C'ancelled, 'D'ead), for
-- the last `done_keep` jobs.
local function close(job, how, token, result)
  redis.call('HDEL', LIVE, job)
  redis.call('HSET', DONE, job, how .. '|' .. token .. '|' .. result)
  redis.call('ZADD', DONE_ORDER, text(now_ms()), job)
  local excess = redis.call('ZCARD', DONE_ORDER) - limit('done_keep')
  if excess <= 0 then return end
  local oldest = redis.call('ZPOPMIN', DONE_ORDER, math.min(excess, 100))
  for i = 1, #oldest, 2 do
    local record = redis.call('HGET', DONE, oldest[i])
    if record then redis.call('HDEL', CANCELLED, string.match(record, '|([%d-]+)|')) end
    redis.call('HDEL', DONE, oldest[i])
  end
end

-- Is there no room for a result of `size` bytes? The only one waiting may be larger than the limit.
local function full(size)
  local held = count_in(redis.call('HGET', LEDGER, 'bytes'))
  return redis.call('XLEN', RESULTS) >= limit('max_results')
    or (held > 0 and held + size > limit('max_result_bytes'))
end

-- Is no job out and every result acked?
local function nothing_left()
  return redis.call('XLEN', RESULTS) == 0 and redis.call('HLEN', LIVE) == 0
end

-- Cancel one unfinished job.
local function cancel(job, kind, token)
  if remove(kind, token) == 1 then redis.call('HSET', CANCELLED, token, job) end
  close(job, 'C', token, '')
  bump('cancelled')
end

local function event(...) redis.call('XADD', EVENTS, 'MAXLEN', '~', limit('events_keep'), '*', ...) end

local function bury(...) redis.call('XADD', DEAD, 'MAXLEN', '~', limit('dead_keep'), '*', ...) end

-- End an attempt that its actor will not finish. One that does not count (a release) leaves the job as
-- it was; else it runs again as attempt n + 1, or is dead when n has reached `max_attempts`.
-- Return REASSIGNED | DEAD | GONE, job, attempt.
local function requeue(kind, token, counts, reason, report)
  allow_oom()
  local e = entry_of(stream_of(kind), token)
  local holder = holder_of(kind, token)
  remove(kind, token)
  if not e or not e.j then return {'GONE', '', 0} end
  local _, live = live_of(e.j)
  if live ~= token then return {'GONE', e.j, 0} end
  for _, name in ipairs({'n', 'g', 'p', 'r'}) do e[name] = e[name] or '' end
  local attempt = count_in(e.n)
  if counts then e.r = e.r == '' and reason or (e.r .. '\30' .. reason) end
  if counts and attempt >= limit('max_attempts') then
    bury('j', e.j, 'k', kind, 'n', e.n, 'a', holder, 'r', e.r, 'p', e.p, 'f', report)
    event('t', 'dead', 'a', holder, 'j', e.j, 'n', e.n, 'r', e.r, 'f', report)
    close(e.j, 'D', token, '')
    bump('dead')
    return {'DEAD', e.j, attempt}
  end
  if counts then e.n = text(attempt + 1) end
  enqueue(kind, e)
  return {'REASSIGNED', e.j, count_in(e.n)}
end
