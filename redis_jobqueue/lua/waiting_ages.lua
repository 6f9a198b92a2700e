-- Look at a page of a queue: when the oldest and the youngest job in it were created.
--
-- KEYS[1] list    the queue
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         first place, as LRANGE counts
-- ARGV[3]         last place
-- Returns {length of the queue, entries of the page, oldest, youngest}, the times as
-- text, absent if no job of the page is there.

local entries = redis.call('LRANGE', KEYS[1], ARGV[2], ARGV[3])
local oldest, youngest, first, last
for _, entry in ipairs(entries) do
    local key = ARGV[1] .. string.match(entry, '^%s*(%S*)')
    local text = redis.pcall('HGET', key, 'created') -- an error where the key is no hash
    local time = type(text) == 'string' and tonumber(text)
    if time then
        if not first or time < first then first, oldest = time, text end
        if not last or time > last then last, youngest = time, text end
    end
end
return {redis.call('LLEN', KEYS[1]), #entries, oldest, youngest}
