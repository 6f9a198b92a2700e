-- Entries of a queue, and the time to live that goes with them.

local WRONG = 'WRONGTYPE Operation against a key holding the wrong kind of value'

-- As Perl reads it: the first word is the id, the second the time, and no number is 0.
local function id_of(entry) return string.match(entry, '^%s*(%S*)') end

-- Whether an entry can belong to a job at all.
local function good_id(id) return id ~= '' and id ~= '0' and not string.find(id, ':', 1, true) end

-- Whether the entry says that its job's time to live is over.
local function run_out(entry)
    local epoch = string.match(entry, '^%s*%S+%s+(%S+)')
    return epoch and (tonumber(epoch) or 0) <= math.floor(now_ms / 1000)
end

local function is(key, kind)
    local found = redis.call('TYPE', key).ok
    return found == kind or found == 'none'
end

-- A job's expire if EXPIRE will take it, in seconds; nil for none.
local function expire_of(job)
    local expire = redis.call('HGET', job, 'expire')
    return expire and #expire < 13 and string.match(expire, '^[1-9]%d*$')
end

-- How often a job's delivery failed; what is no number counts as none.
local function attempts_of(attempts, id)
    local count = string.match(redis.call('HGET', attempts, id) or '', '^%d+$')
    return count and #count < 13 and tonumber(count) or 0
end

-- Count for those who look; a damaged counter must not end a script half-way.
local function tally(counters, name) redis.pcall('HINCRBY', counters, name, 1) end

local function start_time_to_live(job, expire)
    if expire then redis.call('EXPIRE', job, expire) else redis.call('PERSIST', job) end
end

-- Make a job wait.
local function enqueue(job, queue, list, entry, command)
    redis.call('HSET', job, 'queue', queue, '__id_in_queue__', entry,
        'status', '__created__', 'updated', stamp)
    start_time_to_live(job, expire_of(job))
    redis.call(command, list, entry)
end

-- Make a job that was held wait again, under the very entry that it had.
local function put_back(job, queue, list, entry, command)
    redis.call('HSET', job, 'started', '0')
    enqueue(job, queue, list, entry, command)
end

-- Make a job wait that stands in a set: behind the others, under an entry of now.
local function line_up(job, id, queue, list)
    local expire, entry = expire_of(job), id
    if expire then entry = id .. ' ' .. whole(math.floor(now_ms / 1000) + expire) end
    enqueue(job, queue, list, entry, 'RPUSH')
end
