-- Drop a step of the counts of jobs that are gone.
--
-- KEYS[1] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the cursor, 0 to begin
-- Returns {the next cursor, how many}.

local cursor, pairs = unpack(redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', 100))
local gone = 0
for i = 1, #pairs, 2 do
    if redis.call('EXISTS', ARGV[1] .. pairs[i]) == 0 then
        gone = gone + redis.call('HDEL', KEYS[1], pairs[i])
    end
end
return {cursor, gone}
