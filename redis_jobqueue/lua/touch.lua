-- Write a key without changing it, so that those who track it are told.
--
-- KEYS[1] hash    owners:about
-- Returns 1.

redis.call('HDEL', KEYS[1], '') -- a first write that frees: a full server lets the rest pass
redis.call('HSET', KEYS[1], '', '')
redis.call('HDEL', KEYS[1], '')
return 1
