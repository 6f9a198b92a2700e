-- All keys of a database, in one answer.
--
-- ARGV[1]         the prefix of the namespace
-- Returns {{key, type, ms to live or -1, content...}, ...}.  The content of a job
-- is a digest of its hash, followed by the fields below; others are given whole.
-- A hash that is small keeps the order of its fields as long as nothing changes.

local FIELDS = {'queue', '__id_in_queue__', 'expire'}

local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
    local kind = redis.call('TYPE', key).ok
    local one = {key, kind, redis.call('PTTL', key)}
    local function add(values) for _, value in ipairs(values) do one[#one + 1] = value end end
    if kind == 'hash' and not string.find(key, ':', #ARGV[1] + 1, true) then
        one[4] = redis.sha1hex(table.concat(redis.call('HGETALL', key), '\0'))
        for i, value in ipairs(redis.call('HMGET', key, unpack(FIELDS))) do
            one[4 + i] = value or ''
        end
    elseif kind == 'hash' then
        add(redis.call('HGETALL', key))
    elseif kind == 'list' then
        add(redis.call('LRANGE', key, 0, -1))
    elseif kind == 'zset' then
        add(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'))
    elseif kind == 'set' then
        local members = redis.call('SMEMBERS', key)
        table.sort(members)
        add(members)
    else
        add({redis.call('GET', key)})
    end
    found[#found + 1] = one
end
return found
