-- Write changed fields of a job that is held.
--
-- KEYS[1] hash    claims:<owner>
-- KEYS[2] hash    the job
-- ARGV[1...3]     token, number, id
-- ARGV[4]         the number of this save, rising: an older one is refused
-- ARGV[5]         how many of the next arguments are names of fields to delete
-- ARGV[6...]      those names, then field, value, ...
-- Returns 1 done, 0 no such claim, -1 the job is gone, -2 a later save came first.

-- include: claim_field

local claim = held(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if not claim then return 0 end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return -1 end
local number = tonumber(ARGV[4])
if number <= claim.saves then return number == claim.saves and 1 or -2 end
local from = 6 + tonumber(ARGV[5])
-- The first write is the one that a full server refuses.
for first = from, #ARGV, 1000 do
    redis.call('HSET', KEYS[2], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
for i = 6, from - 1 do redis.call('HDEL', KEYS[2], ARGV[i]) end
claim.saves = number
redis.call('HSET', KEYS[1], ARGV[1], write_claim(claim))
return 1
