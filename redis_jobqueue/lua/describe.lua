-- Replace what an owner says of itself.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    owners:about
-- ARGV[1]         the owner
-- ARGV[2]         what it says, JSON
-- Returns 1, or 0 if the owner has no beat.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('HDEL', KEYS[2], '') -- a first write that frees: a full server lets the rest pass
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
