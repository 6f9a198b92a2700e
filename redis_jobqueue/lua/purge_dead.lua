-- Delete a slice of the dead jobs that died long ago, or that are too many.
--
-- KEYS[1] zset    dead:jobs
-- KEYS[2] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         least age of what is deleted, ms
-- ARGV[3]         how many of the latest are kept in any case
-- Returns {deleted, 1 if there may be more}.

-- include: time

local SLICE = 100

local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms - ARGV[2]), 'LIMIT', 0, SLICE)
local spare = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3])
local deleted = 0
for _, id in ipairs(ids) do
    if deleted >= spare then break end
    local job = ARGV[1] .. id
    if not string.find(id, ':', 1, true) and redis.call('TYPE', job).ok == 'hash' then
        redis.call('DEL', job)
    end
    redis.call('ZREM', KEYS[1], id)
    if redis.call('TYPE', KEYS[2]).ok == 'hash' then redis.call('HDEL', KEYS[2], id) end
    deleted = deleted + 1
end
return {deleted, deleted == SLICE and 1 or 0}
