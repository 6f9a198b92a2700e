-- Take the time to live off a step of the jobs in a set, and drop ids without a job.
--
-- KEYS[1] zset    delayed:jobs, retry:jobs or dead:jobs
-- KEYS[2] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the cursor, 0 to begin
-- Returns {the next cursor, how many times to live, dropped ids}.
--
-- A Perl update of a job that waits here starts its time to live again.  An id may name
-- any key, that of the reapers' turn for one: only a job is kept.

local cursor, pairs = unpack(redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', 100))
local kept, dropped = 0, {}
for i = 1, #pairs, 2 do
    local job = ARGV[1] .. pairs[i]
    local left = redis.call('TTL', job)
    if left == -2 then
        redis.call('ZREM', KEYS[1], pairs[i])
        if redis.call('TYPE', KEYS[2]).ok == 'hash' then redis.call('HDEL', KEYS[2], pairs[i]) end
        dropped[#dropped + 1] = pairs[i]
    elseif left ~= -1 and not string.find(pairs[i], ':', 1, true)
        and redis.call('TYPE', job).ok == 'hash' then
        redis.call('PERSIST', job)
        kept = kept + 1
    end
end
return {cursor, kept, dropped}
