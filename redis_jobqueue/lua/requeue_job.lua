-- Put a job that nobody holds into its queue, wherever it is; its attempts are forgotten.
--
-- KEYS[1] hash    the job
-- KEYS[2...4]     delayed:jobs, retry:jobs, dead:jobs, each a zset
-- KEYS[5] set     owners:lists
-- KEYS[6] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- ARGV[3]         RPUSH for the tail, LPUSH for the head
-- ARGV[4]         1 if only a job that failed may come again, else 0
-- ARGV[5...6]     the status and the time of the last change that the caller saw; may be absent
-- Returns {''} done, else why not: {'gone'}, {'waits'}, {'held', owner}, {'queue'} (it has
-- none that can take it), {'status', status} (it did not fail), {'changed'}.

-- include: time
-- include: entry
-- include: holder

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return {'gone'} end
local queue, old, status, updated =
    unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__', 'status', 'updated'))
if ARGV[5] and ((status or '') ~= ARGV[5] or (updated or '') ~= ARGV[6]) then return {'changed'} end
local list = queue and ARGV[1] .. 'queue:' .. queue
if not good_id(ARGV[2]) or not queue or queue == '' or not is(list, 'list') then
    return {'queue'}
end
for i = 2, 4 do
    if not is(KEYS[i], 'zset') then return redis.error_reply(WRONG) end
end
if not is(KEYS[6], 'hash') then return redis.error_reply(WRONG) end
local owner = holder(KEYS[5], ARGV[1], queue, old)
if owner then return {'held', owner} end
if redis.call('EXISTS', list) == 1
    and (old and redis.call('LPOS', list, old) or redis.call('LPOS', list, ARGV[2])) then
    return {'waits'}
end
local parked = redis.call('ZSCORE', KEYS[3], ARGV[2]) or redis.call('ZSCORE', KEYS[4], ARGV[2])
if ARGV[4] == '1' and not parked and status ~= '__failed__' then
    return {'status', status or ''}
end
-- What frees comes first, so a full server lets what follows pass.
for i = 2, 4 do redis.call('ZREM', KEYS[i], ARGV[2]) end
redis.call('HDEL', KEYS[6], ARGV[2])
redis.call('HSET', KEYS[1], 'started', '0', 'completed', '0', 'failed', '0')
local expire, entry = expire_of(KEYS[1]), ARGV[2]
if expire then entry = ARGV[2] .. ' ' .. whole(math.floor(now_ms / 1000) + expire) end
enqueue(KEYS[1], queue, list, entry, ARGV[3])
return {''}
