-- Set the clock that the scripts under test read, and let times to live pass with it.
--
-- KEYS[1] list    the clock: seconds, microseconds
-- ARGV[1], [2]    what it shows now
-- ARGV[3]         by how many ms it was moved; times to live are a thousand times as long
-- ARGV[4]         the prefix of the namespace
-- Returns 1.

redis.call('DEL', KEYS[1]) -- frees, so that a full server has a clock too
redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])
local moved = tonumber(ARGV[3]) * 1000
if moved == 0 then return 1 end
for _, key in ipairs(redis.call('KEYS', ARGV[4] .. '*')) do
    local left = redis.call('PTTL', key)
    if left > 0 then
        -- Half a step is taken for none: what the test itself lasts must not matter.
        if left - moved < 5000000 then
            redis.call('DEL', key)
        else
            redis.call('PEXPIRE', key, left - moved)
        end
    end
end
return 1
