-- Bring a slice of a dead owner's jobs back to the head of their queue.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] set     owners:lists
-- KEYS[3] hash    attempts:jobs
-- KEYS[4] zset    dead:jobs
-- KEYS[5] list    processing:<queue>:<owner>, or processing:<queue> without an owner
-- KEYS[6] list    the queue
-- KEYS[7] hash    stats:<queue>
-- KEYS[8] zset    cancelled:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the queue's name
-- ARGV[3]         the owner; '' for the list without one
-- ARGV[4]         attempts at which a job is buried, 0 for none
-- ARGV[5]         what a buried job's message says
-- Returns {-1} if the owner lives (for the list without one: if anyone does, or
-- a registered list has that very name), else {moved, buried, dropped, 1 if
-- there may be more}.

-- include: time
-- include: entry

local SLICE = 100

if ARGV[3] == '' then
    if redis.call('ZCOUNT', KEYS[1], '(' .. whole(now_ms), '+inf') > 0
        or redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
        return {-1}
    end
else
    local score = redis.call('ZSCORE', KEYS[1], ARGV[3])
    if score then return {-1} end
end
if not (is(KEYS[2], 'set') and is(KEYS[3], 'hash') and is(KEYS[4], 'zset') and is(KEYS[5], 'list')
    and is(KEYS[6], 'list') and is(KEYS[7], 'hash') and is(KEYS[8], 'zset')) then
    return redis.error_reply(WRONG)
end
local limit = tonumber(ARGV[4])
local moved, buried, dropped = 0, 0, 0
-- The head is the latest claim: taken first and pushed first, it ends up behind the older ones.
for _ = 1, SLICE do
    local entry = redis.call('LPOP', KEYS[5]) -- frees, so a full server lets what follows pass
    if not entry then break end
    local id = id_of(entry)
    local job = ARGV[1] .. id
    if not good_id(id) or redis.call('TYPE', job).ok ~= 'hash' then
        redis.call('HDEL', KEYS[3], id)
        redis.call('ZREM', KEYS[8], id)
        dropped = dropped + 1
    elseif limit > 0 and attempts_of(KEYS[3], id) >= limit then
        redis.call('HSET', job, 'queue', ARGV[2], '__id_in_queue__', entry, 'status', '__failed__',
            'message', ARGV[5], 'failed', stamp, 'updated', stamp)
        redis.call('HDEL', KEYS[3], id)
        redis.call('ZREM', KEYS[8], id)
        redis.call('PERSIST', job)
        redis.call('ZADD', KEYS[4], whole(now_ms), id)
        tally(KEYS[7], 'dead')
        buried = buried + 1
    else
        put_back(job, ARGV[2], KEYS[6], entry, 'LPUSH')
        tally(KEYS[7], 'recovered')
        moved = moved + 1
    end
end
local more = redis.call('EXISTS', KEYS[5])
if more == 0 and ARGV[3] ~= '' then redis.call('SREM', KEYS[2], ARGV[2] .. ':' .. ARGV[3]) end
return {moved, buried, dropped, more}
