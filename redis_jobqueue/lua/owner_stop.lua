-- An owner leaves: put back what its process does not hold, and end its beat.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    claims:<owner>
-- KEYS[3] set     owners:lists
-- KEYS[4] hash    owners:about
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the owner
-- ARGV[3]         the highest token that it gave out
-- ARGV[4]         how many living tokens and fields, followed by them
-- then            the names of the queues that it claimed from
-- Returns {how many were put back, 1 if there are more of them: call again}.
--
-- Lists that still hold something stay registered, and recovery brings their
-- jobs back at once, because their owner has no beat.

-- include: time
-- include: entry
-- include: claim_field
-- include: drop_dead

if not (is(KEYS[2], 'hash') and is(KEYS[3], 'set') and is(KEYS[4], 'hash')) then
    return redis.error_reply(WRONG)
end
redis.call('HDEL', KEYS[2], '-') -- a first write that frees: a full server lets the rest pass
local count = tonumber(ARGV[4])
local living = {}
for i = 5, 4 + count do living[ARGV[i]] = true end
local back, _, more = drop_dead(KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), living)
if more then return {back, 1} end
local left = false
for i = 5 + count, #ARGV do
    if redis.call('EXISTS', ARGV[1] .. 'processing:' .. ARGV[i] .. ':' .. ARGV[2]) == 0 then
        redis.call('SREM', KEYS[3], ARGV[i] .. ':' .. ARGV[2])
    else
        left = true
    end
end
redis.call('ZREM', KEYS[1], ARGV[2])
if not left then
    redis.call('DEL', KEYS[2])
    redis.call('HDEL', KEYS[4], ARGV[2])
end
return {back, 0}
