-- Whether a list of what an owner holds is still there, and no recovery knows of it.
-- Reads only.
--
-- KEYS[1] list    processing:<queue>:<owner>
-- KEYS[2] set     owners:lists
-- ARGV[1]         <queue>:<owner>
-- Returns 1 or 0.

local known = redis.call('TYPE', KEYS[2]).ok == 'set'
    and redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1
return redis.call('EXISTS', KEYS[1]) == 1 and not known and 1 or 0
