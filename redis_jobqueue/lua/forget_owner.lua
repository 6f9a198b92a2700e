-- Drop what a dead owner said of itself, once none of its lists is left.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    owners:about
-- ARGV[1]         the owner
-- Returns 1, or 0 if the owner has a beat.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
return redis.call('HDEL', KEYS[2], ARGV[1])
