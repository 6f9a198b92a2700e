-- Cancel a job: one that waits is deleted, one that is held is marked for its owner.
--
-- KEYS[1] hash    the job
-- KEYS[2] zset    delayed:jobs
-- KEYS[3] zset    retry:jobs
-- KEYS[4] zset    cancelled:jobs
-- KEYS[5] hash    attempts:jobs
-- KEYS[6] set     owners:lists
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- Returns 2 deleted, 1 marked, 0 it neither waits nor is held.

-- include: time
-- include: entry

local function delete()
    redis.call('DEL', KEYS[1])
    redis.call('HDEL', KEYS[5], ARGV[2])
    return 2
end

if not good_id(ARGV[2]) or redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
if not (is(KEYS[2], 'zset') and is(KEYS[3], 'zset') and is(KEYS[4], 'zset') and is(KEYS[5], 'hash')
    and is(KEYS[6], 'set')) then
    return redis.error_reply(WRONG)
end
if redis.call('ZREM', KEYS[2], ARGV[2]) + redis.call('ZREM', KEYS[3], ARGV[2]) > 0 then
    return delete()
end
local queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
if not queue or not entry then return 0 end
local list = ARGV[1] .. 'queue:' .. queue
if is(list, 'list') and redis.call('LREM', list, 0, entry) > 0 then return delete() end
for _, member in ipairs(redis.call('SMEMBERS', KEYS[6])) do
    if string.match(member, '^(.*):[^:]*$') == queue then
        local mine = ARGV[1] .. 'processing:' .. member
        if is(mine, 'list') and redis.call('LPOS', mine, entry) then
            redis.call('ZREM', KEYS[4], '')
            redis.call('ZADD', KEYS[4], whole(now_ms), ARGV[2])
            return 1
        end
    end
end
return 0
