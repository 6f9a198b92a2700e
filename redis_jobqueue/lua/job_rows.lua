-- Describe jobs without their data.  Reads only.
--
-- KEYS[1] hash    attempts:jobs
-- KEYS[2...] hash the jobs, 100 at most
-- ARGV[1]         how many octets of a field to give at most
-- ARGV[2...]      fields
-- Returns for each job {attempts, octets of workload and result, value, ...}, or {}
-- if it is not there.

local rows = {}
local counted = redis.call('TYPE', KEYS[1]).ok == 'hash'
for i = 2, #KEYS do
    local row = {}
    if redis.call('TYPE', KEYS[i]).ok == 'hash' then
        local id = redis.call('HGET', KEYS[i], 'id')
        row[1] = counted and id and redis.call('HGET', KEYS[1], id) or '0'
        row[2] = redis.call('HSTRLEN', KEYS[i], 'workload')
            + redis.call('HSTRLEN', KEYS[i], 'result')
        for n, value in ipairs(redis.call('HMGET', KEYS[i], unpack(ARGV, 2))) do
            row[n + 2] = value and string.sub(value, 1, ARGV[1])
        end
    end
    rows[#rows + 1] = row
end
return rows
