-- Write the changed fields of a job and start its time to live anew.
--
-- KEYS[1] hash    the job
-- ARGV[1]         expire, seconds; 0 takes the time to live off
-- ARGV[2]         how many of the next arguments are names of fields to delete
-- ARGV[3...]      those names, then field, value, ...
-- Returns 1, or 0 if there is no such job (nothing is changed).
--
-- A job that ought to have a time to live and has none is held, delayed,
-- retrying or dead: it gets none here either.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local parked = redis.call('TTL', KEYS[1]) == -1 and redis.call('HGET', KEYS[1], 'expire') ~= '0'
local from = 3 + tonumber(ARGV[2])
for first = from, #ARGV, 1000 do
    redis.call('HMSET', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
for i = 3, from - 1 do redis.call('HDEL', KEYS[1], ARGV[i]) end
if ARGV[1] == '0' then
    redis.call('PERSIST', KEYS[1])
elseif not parked then
    redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return 1
