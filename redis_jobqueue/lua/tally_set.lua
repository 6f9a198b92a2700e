-- Count a page of a sorted set by the queues of its jobs.  Reads only.
--
-- KEYS[1] zset    delayed:jobs, retry:jobs or dead:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2...3]     first and last place, counted from 0
-- Returns {how many members, {queue, count, ...}}; jobs without a queue count to ''.

if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return {0, {}} end
local ids = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[3])
local counts, flat = {}, {}
for _, id in ipairs(ids) do
    local job = ARGV[1] .. id
    local queue = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'queue') or ''
    counts[queue] = (counts[queue] or 0) + 1
end
for queue, count in pairs(counts) do
    flat[#flat + 1] = queue
    flat[#flat + 1] = count
end
return {#ids, flat}
