-- Store several jobs and put their entries into their queues; all or nothing.
--
-- KEYS[...]       for each job: its hash, its queue's list
-- ARGV[1]         the command that puts the entries in: RPUSH or LPUSH
-- ARGV[2...]      for each job: entry, expire, count, then as many arguments:
--                 field, value, ...
-- Returns 0, or the place, from 1, of the first job whose key is there already.

-- include: new_job

for i = 1, #KEYS, 2 do
    if redis.call('EXISTS', KEYS[i]) == 1 then return (i + 1) / 2 end
    local kind = redis.call('TYPE', KEYS[i + 1]).ok
    if kind ~= 'list' and kind ~= 'none' then
        return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
    end
end
-- The first write is the one that a full server refuses, so nothing is left half done.
local place = 2
for i = 1, #KEYS, 2 do
    local entry, expire, count = ARGV[place], ARGV[place + 1], tonumber(ARGV[place + 2])
    new_job(KEYS[i], entry, expire, place + 3, place + 2 + count)
    if expire ~= '0' then redis.call('EXPIRE', KEYS[i], expire) end
    redis.call(ARGV[1], KEYS[i + 1], entry)
    place = place + 3 + count
end
return 0
