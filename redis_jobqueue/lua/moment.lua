-- Count what belongs to no queue.  Reads only.
--
-- KEYS[1...3] zset  delayed:jobs, retry:jobs, dead:jobs
-- KEYS[4] zset    owners:heartbeat
-- Returns {the server's time in ms, delayed, retrying, dead, live owners}.

-- include: time

return {whole(now_ms), redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]),
    redis.call('ZCARD', KEYS[3]), redis.call('ZCOUNT', KEYS[4], '(' .. whole(now_ms), '+inf')}
