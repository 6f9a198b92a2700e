-- Count what belongs to no queue.  Reads only.
--
-- KEYS[1...3] zset  delayed:jobs, retry:jobs, dead:jobs
-- KEYS[4] zset    owners:heartbeat
-- Returns {the server's time in ms, delayed, retrying, dead, live owners}; a key
-- that holds something else counts as none.

-- include: time

local function count(key, least)
    return redis.call('TYPE', key).ok == 'zset' and redis.call('ZCOUNT', key, least, '+inf') or 0
end

return {whole(now_ms), count(KEYS[1], '-inf'), count(KEYS[2], '-inf'), count(KEYS[3], '-inf'),
    count(KEYS[4], '(' .. whole(now_ms))}
