-- Register an owner.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    owners:about
-- KEYS[3] list    a key that never exists
-- ARGV[1]         the owner
-- ARGV[2]         its lifetime, ms
-- ARGV[3]         what it says of itself, JSON
-- Returns 1, 0 if there is an owner of this id already, or the error of a
-- server that cannot move between lists (older than Redis 6.2).

-- include: time

if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
    return 0
end
redis.call('HDEL', KEYS[2], '') -- a first write that frees: a full server lets the rest pass
local moved = redis.pcall('LMOVE', KEYS[3], KEYS[3], 'LEFT', 'LEFT')
if type(moved) == 'table' and moved.err then return moved end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[1], whole(now_ms + ARGV[2]), ARGV[1])
return 1
