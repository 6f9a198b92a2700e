-- One step over the keyspace: what kind each key is, and of jobs what must fit together.
-- Reads only.
--
-- ARGV[1]         the cursor, 0 to begin
-- ARGV[2]         the glob of all keys of the namespace
-- ARGV[3]         the length of the prefix of the keys of jobs
-- ARGV[4]         how many keys to look at
-- ARGV[5...]      fields of jobs
-- Returns {the next cursor, 0 at the end, {{name, type, time to live, octets of workload
-- and result, value, ...}, ...}}; of keys that are no jobs the name and the type alone.

local cursor, keys = unpack(redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[4]))
local found = {}
for _, key in ipairs(keys) do
    local name, kind = string.sub(key, tonumber(ARGV[3]) + 1), redis.call('TYPE', key).ok
    local row = {name, kind}
    if kind == 'hash' and not string.find(name, ':', 1, true) then
        row[3] = redis.call('TTL', key)
        row[4] = redis.call('HSTRLEN', key, 'workload') + redis.call('HSTRLEN', key, 'result')
        for n, value in ipairs(redis.call('HMGET', key, unpack(ARGV, 5))) do row[n + 4] = value end
    end
    if kind ~= 'none' then found[#found + 1] = row end
end
return {cursor, found}
