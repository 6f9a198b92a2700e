-- Delete a job, and take its entry off wherever it is.
--
-- KEYS[1] hash    the job
-- KEYS[2] set     owners:lists
-- KEYS[3] hash    attempts:jobs
-- KEYS[4...6]     delayed:jobs, retry:jobs, dead:jobs, each a zset
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- Returns 1, or 0 if there is no such job; an error, and nothing is changed, if
-- the job or its queue is of another type, as in Perl.
--
-- The claim of a job that is held stays: its finishing call takes it off and
-- learns that the job is gone.

local there = redis.call('EXISTS', KEYS[1])
local function is(key, kind) return redis.call('TYPE', key).ok == kind end
local queue, entry, list
if there == 1 then
    queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
    list = queue and ARGV[1] .. 'queue:' .. queue
    if list and entry and not is(list, 'list') and not is(list, 'none') then
        return redis.error_reply(
            'WRONGTYPE Operation against a key holding the wrong kind of value')
    end
end

for i = 4, 6 do
    if is(KEYS[i], 'zset') then redis.call('ZREM', KEYS[i], ARGV[2]) end
end
if is(KEYS[3], 'hash') then redis.call('HDEL', KEYS[3], ARGV[2]) end
if there == 0 then return 0 end
if queue and entry then
    redis.call('LREM', list, 0, entry)
    if is(KEYS[2], 'set') or is(KEYS[2], 'none') then
        for _, member in ipairs(redis.call('SMEMBERS', KEYS[2])) do
            if string.match(member, '^(.*):[^:]*$') == queue then
                local mine = ARGV[1] .. 'processing:' .. member
                if is(mine, 'list') then redis.call('LREM', mine, 0, entry) end
            end
        end
        -- The list without an owner, unless a queue of that name has an owner's list there.
        local shared = ARGV[1] .. 'processing:' .. queue
        if is(shared, 'list') and redis.call('SISMEMBER', KEYS[2], queue) == 0 then
            redis.call('LREM', shared, 0, entry)
        end
    end
end
redis.call('DEL', KEYS[1])
return 1
