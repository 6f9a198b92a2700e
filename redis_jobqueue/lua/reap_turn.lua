-- Let one reaper at a time look, and no more often than its interval.
--
-- KEYS[1] string  owners:reaper
-- KEYS[2] hash    owners:about
-- ARGV[1]         who asks
-- ARGV[2]         the interval, ms
-- Returns 1 if it is this one's turn, else 0.

redis.call('HDEL', KEYS[2], '') -- a first write that frees: a full server lets the rest pass
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
