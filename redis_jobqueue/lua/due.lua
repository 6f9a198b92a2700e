-- Give a slice of the ids that are due, the longest waiting first, and take them off if asked.
--
-- KEYS[1] zset    delayed:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         how many at most
-- ARGV[3]         1 to take them off
-- ARGV[4]         the least score, -inf to begin
-- ARGV[5]         how many of that score to pass over
-- Returns {id, score, ...}.
--
-- What is taken off is nowhere any more: its time to live begins.

-- include: time
-- include: entry

local page = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[4], whole(now_ms), 'WITHSCORES',
    'LIMIT', ARGV[5], ARGV[2])
if ARGV[3] == '1' then
    for i = 1, #page, 2 do
        local id, job = page[i], ARGV[1] .. page[i]
        redis.call('ZREM', KEYS[1], id)
        if good_id(id) and redis.call('TYPE', job).ok == 'hash' then
            start_time_to_live(job, expire_of(job))
        end
    end
end
return page
