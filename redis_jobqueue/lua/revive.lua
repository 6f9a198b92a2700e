-- Put a dead job back to the tail of its queue, with its attempts forgotten.
--
-- KEYS[1] zset    dead:jobs
-- KEYS[2] hash    attempts:jobs
-- KEYS[3] hash    the job
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- Returns 1 done, 0 not among the dead, -1 its hash or its queue is not there
-- (nothing is changed but an id without a job, which is dropped).

-- include: time
-- include: entry

if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
if not is(KEYS[2], 'hash') then return redis.error_reply(WRONG) end
local kind = redis.call('TYPE', KEYS[3]).ok
if kind == 'none' then
    redis.call('ZREM', KEYS[1], ARGV[2])
    return -1
end
local queue = kind == 'hash' and redis.call('HGET', KEYS[3], 'queue')
local list = queue and ARGV[1] .. 'queue:' .. queue
if not good_id(ARGV[2]) or not queue or queue == '' or not is(list, 'list') then return -1 end
redis.call('HDEL', KEYS[2], ARGV[2]) -- frees, so a full server lets what follows pass
line_up(KEYS[3], ARGV[2], queue, list)
redis.call('ZREM', KEYS[1], ARGV[2])
return 1
