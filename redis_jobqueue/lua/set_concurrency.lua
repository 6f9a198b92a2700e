-- Say how many workers a queue should have.
--
-- KEYS[1] hash    concurrency:queues
-- ARGV[1]         the queue
-- ARGV[2]         the count
-- Returns the moment, ms.

-- include: time

redis.call('HDEL', KEYS[1], ARGV[1]) -- a first write that frees: a full server lets the rest pass
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. whole(now_ms))
return whole(now_ms)
