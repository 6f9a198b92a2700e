-- Store a job that is due later.
--
-- KEYS[1] hash    the job
-- KEYS[2] zset    delayed:jobs
-- ARGV[1]         the id
-- ARGV[2]         expire, seconds
-- ARGV[3]         D and a delay, or A and a moment, in ms
-- ARGV[4...]      field, value, ...
-- Returns 1, or 0 if a key of this name is there already (nothing is changed).
--
-- The job has no time to live while it waits; its entry is written for the
-- moment at which it is due, so that Perl can delete it before.

-- include: time
-- include: new_job

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'zset' and kind ~= 'none' then
    return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
local due = tonumber(string.sub(ARGV[3], 2))
if string.sub(ARGV[3], 1, 1) == 'D' then due = now_ms + due end
local entry = ARGV[1]
if ARGV[2] ~= '0' then entry = entry .. ' ' .. whole(math.floor(due / 1000) + ARGV[2]) end
-- The first write is the one that a full server refuses, so nothing is left half done.
new_job(KEYS[1], entry, ARGV[2], 4, #ARGV)
redis.call('ZADD', KEYS[2], whole(due), ARGV[1])
return 1
