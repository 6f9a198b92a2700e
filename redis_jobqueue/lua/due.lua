-- Give ids that are due, the longest waiting first, and take them off if asked.
--
-- KEYS[1] zset    delayed:jobs
-- ARGV[1]         how many at most
-- ARGV[2]         1 to take them off
-- Returns {id, ...}.

-- include: time

local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms), 'LIMIT', 0, ARGV[1])
if ARGV[2] == '1' then
    for _, id in ipairs(ids) do redis.call('ZREM', KEYS[1], id) end
end
return ids
