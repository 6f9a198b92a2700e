-- Drop a step of what is kept of jobs that are gone.
--
-- KEYS[1] hash or zset  attempts:jobs or cancelled:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the cursor, 0 to begin
-- Returns {the next cursor, how many}.

local scan, drop = 'HSCAN', 'HDEL'
if redis.call('TYPE', KEYS[1]).ok == 'zset' then scan, drop = 'ZSCAN', 'ZREM' end
local cursor, pairs = unpack(redis.call(scan, KEYS[1], ARGV[2], 'COUNT', 100))
local gone = 0
for i = 1, #pairs, 2 do
    if redis.call('EXISTS', ARGV[1] .. pairs[i]) == 0 then
        gone = gone + redis.call(drop, KEYS[1], pairs[i])
    end
end
return {cursor, gone}
