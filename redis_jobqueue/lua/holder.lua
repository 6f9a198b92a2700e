-- Tell who holds a job.  Reads only.
--
-- KEYS[1] hash    the job
-- KEYS[2] set     owners:lists
-- ARGV[1]         the prefix of the keys of jobs
-- Returns the owner, '' for a list without one, or nil.

-- include: holder

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return false end
local queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
return holder(KEYS[2], ARGV[1], queue, entry) or false
