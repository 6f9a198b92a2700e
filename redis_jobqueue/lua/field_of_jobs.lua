-- Give one field of each of these jobs.
--
-- KEYS[...] hash  the jobs, 500 at most
-- ARGV[1]         the field
-- Returns {value, ...}: false where there is no such job or field, or the key is no hash.

local found = {}
for i, key in ipairs(KEYS) do
    found[i] = redis.call('TYPE', key).ok == 'hash' and redis.call('HGET', key, ARGV[1]) or false
end
return found
