-- Count a queue.  Reads only.
--
-- KEYS[1] list    the queue
-- KEYS[2] hash    stats:<queue>
-- KEYS[3...] list processing:<queue>:<owner>
-- ARGV[1]         the prefix of the keys of jobs
-- Returns {waiting, held, when the older of the first and the last job was created
-- or '', counters as HGETALL}.

local function length(key)
    return redis.call('TYPE', key).ok == 'list' and redis.call('LLEN', key) or 0
end

local held = 0
for i = 3, #KEYS do held = held + length(KEYS[i]) end
local created
for place = -1, 0 do
    if length(KEYS[1]) > 0 then
        local job = ARGV[1] .. string.match(redis.call('LINDEX', KEYS[1], place), '^%s*(%S*)')
        local time = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'created')
        if time and tonumber(time) and not (created and tonumber(created) <= tonumber(time)) then
            created = time
        end
    end
end
return {length(KEYS[1]), held, created or '',
    redis.call('TYPE', KEYS[2]).ok == 'hash' and redis.call('HGETALL', KEYS[2]) or {}}
