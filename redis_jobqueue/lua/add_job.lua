-- Store a job and put its entry into its queue; both or nothing.
--
-- KEYS[1] hash    the job
-- KEYS[2] list    the queue
-- ARGV[1]         the entry: id, or id and the end of its time to live
-- ARGV[2]         expire, seconds; 0 for no time to live
-- ARGV[3]         the command that puts the entry in: RPUSH or LPUSH
-- ARGV[4...]      field, value, ...
-- Returns 1, or 0 if a key of this name is there already (nothing is changed).

-- include: new_job

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'list' and kind ~= 'none' then
    return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end

-- The first write is the one that a full server refuses, so nothing is left half done.
new_job(KEYS[1], ARGV[1], ARGV[2], 4, #ARGV)
if ARGV[2] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
redis.call(ARGV[3], KEYS[2], ARGV[1])
return 1
