-- The first step of a recovery: after it nothing that the owner sends counts.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    claims:<owner>
-- KEYS[3] hash    attempts:jobs
-- KEYS[4] hash    owners:about
-- ARGV[1]         the owner
-- Returns {0} if the owner lives, else {1, what it said of itself or ''}.
--
-- Claims that were begun cost their jobs an attempt, here and once: the claims
-- are gone when the fence is repeated.

-- include: time
-- include: entry
-- include: claim_field

local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) > now_ms then return {0} end
if not (is(KEYS[3], 'hash') and is(KEYS[4], 'hash')) then return redis.error_reply(WRONG) end
local fields = redis.call('TYPE', KEYS[2]).ok == 'hash' and redis.call('HGETALL', KEYS[2]) or {}
redis.call('ZREM', KEYS[1], ARGV[1]) -- frees, so a full server lets what follows pass
for i = 1, #fields, 2 do
    local claim = read_claim(fields[i + 1])
    if claim and claim.begun == '1' then
        redis.call('HSET', KEYS[3], claim.id, whole(attempts_of(KEYS[3], claim.id) + 1))
    end
end
redis.call('DEL', KEYS[2])
return {1, redis.call('HGET', KEYS[4], ARGV[1]) or ''}
