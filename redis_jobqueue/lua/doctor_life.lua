-- Give a job the time to live that its place asks for: none where it is held, delayed,
-- retrying or dead, else what its expire says.
--
-- KEYS[1] hash    the job
-- KEYS[2...4]     delayed:jobs, retry:jobs, dead:jobs
-- KEYS[5] set     owners:lists
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- Returns 1 if it was changed, else 0.

-- include: time
-- include: entry
-- include: holder

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
local queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
local parked = holder(KEYS[5], ARGV[1], queue, entry)
for i = 2, 4 do
    parked = parked or redis.call('TYPE', KEYS[i]).ok == 'zset'
        and redis.call('ZSCORE', KEYS[i], ARGV[2])
end
if parked then return redis.call('PERSIST', KEYS[1]) end
local expire = expire_of(KEYS[1])
if not expire or redis.call('TTL', KEYS[1]) ~= -1 then return 0 end
return redis.call('EXPIRE', KEYS[1], expire)
