-- Pause a queue or let it run.
--
-- KEYS[1] set     paused:queues
-- ARGV[1]         the queue
-- ARGV[2]         1 to pause, 0 to resume
-- ARGV[3]         1 or 0: the state that the caller saw; absent: whatever it is
-- Returns 1 if it is as asked now, 0 if the state was another than the caller saw.

local paused = redis.call('SISMEMBER', KEYS[1], ARGV[1])
if ARGV[3] and tonumber(ARGV[3]) ~= paused then return 0 end
if ARGV[2] == '0' then
    redis.call('SREM', KEYS[1], ARGV[1])
elseif paused == 0 then
    redis.call('SREM', KEYS[1], ARGV[1]) -- a first write that frees: a full server can be paused
    redis.call('SADD', KEYS[1], ARGV[1])
end
return 1
