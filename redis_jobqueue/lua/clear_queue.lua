-- Delete a slice of the jobs that wait in a queue.
--
-- KEYS[1] list    the queue
-- KEYS[2] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- Returns {jobs deleted, 1 if there may be more}.

local SLICE = 100

local deleted = 0
for _ = 1, SLICE do
    local entry = redis.call('LPOP', KEYS[1])
    if not entry then return {deleted, 0} end
    local id = string.match(entry, '^%s*(%S*)')
    local job = ARGV[1] .. id
    if not string.find(id, ':', 1, true) and redis.call('TYPE', job).ok == 'hash' then
        deleted = deleted + redis.call('DEL', job)
        if redis.call('TYPE', KEYS[2]).ok == 'hash' then redis.call('HDEL', KEYS[2], id) end
    end
end
return {deleted, redis.call('EXISTS', KEYS[1])}
