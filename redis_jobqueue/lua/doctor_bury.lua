-- Bury a job that waits and that nobody can read.
--
-- KEYS[1] hash    the job
-- KEYS[2] list    queue:<queue>
-- KEYS[3] zset    dead:jobs
-- KEYS[4] hash    attempts:jobs
-- KEYS[5] hash    stats:<queue>
-- ARGV[1]         the id
-- ARGV[2]         the entry
-- ARGV[3]         what its message says
-- Returns 1, or 0 if it does not wait there any more (nothing is changed).

-- include: time
-- include: entry

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' or not (is(KEYS[2], 'list') and is(KEYS[3], 'zset')
    and is(KEYS[4], 'hash') and is(KEYS[5], 'hash')) then
    return 0
end
if redis.call('LREM', KEYS[2], 0, ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'status', '__failed__', 'message', ARGV[3], 'failed', stamp,
    'updated', stamp)
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[3], whole(now_ms), ARGV[1])
tally(KEYS[5], 'dead')
return 1
