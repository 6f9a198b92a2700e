-- Delete a job, and take its entry out of its queue.
--
-- KEYS[1] hash    the job
-- ARGV[1]         the prefix of the keys of queues
-- Returns 1, or 0 if there is no such job.
--
-- The key of the queue is built here: only the job's hash tells its name.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
if queue and entry then
    local list = ARGV[1] .. queue
    if redis.call('TYPE', list).ok == 'list' then redis.call('LREM', list, 0, entry) end
end
redis.call('DEL', KEYS[1])
return 1
