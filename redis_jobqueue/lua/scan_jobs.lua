-- One step over the keyspace: the jobs among the next keys, with some of their fields.
--
-- ARGV[1]         the cursor, 0 to begin
-- ARGV[2]         the glob of all keys of the namespace
-- ARGV[3]         the length of the prefix of the keys of jobs
-- ARGV[4]         how many keys to look at
-- ARGV[5...]      fields to give
-- Returns {the next cursor, 0 at the end, {{id, value, ...}, ...}}.
--
-- A key whose name has a further colon is no job, nor is one that is no hash.

local cursor, keys = unpack(redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[4]))
local fields, jobs = {}, {}
for i = 5, #ARGV do fields[#fields + 1] = ARGV[i] end
for _, key in ipairs(keys) do
    local id = string.sub(key, tonumber(ARGV[3]) + 1)
    local job = nil
    if string.find(id, ':', 1, true) then -- no job
    elseif #fields == 0 then
        job = redis.call('TYPE', key).ok == 'hash' and {}
    else
        job = redis.pcall('HMGET', key, unpack(fields)) -- an error where the key is no hash
    end
    if job and not job.err then
        table.insert(job, 1, id)
        jobs[#jobs + 1] = job
    end
end
return {cursor, jobs}
