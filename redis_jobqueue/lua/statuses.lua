-- Give the status of each of these jobs.
--
-- KEYS[...] hash  the jobs, 500 at most
-- Returns {status, ...}: false where there is no such job, or the key is no hash.

local found = {}
for i, key in ipairs(KEYS) do
    found[i] = redis.call('TYPE', key).ok == 'hash' and redis.call('HGET', key, 'status') or false
end
return found
