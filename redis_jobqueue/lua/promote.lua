-- Put jobs that are due into their queues.
--
-- KEYS[1] zset    delayed:jobs or retry:jobs
-- KEYS[2] zset    dead:jobs
-- KEYS[3] hash    attempts:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         how many jobs at most
-- ARGV[3]         how many due jobs of other queues to pass over
-- ARGV[4]         the only queue to serve; absent for all
-- Returns {promoted ids, buried ids, dropped ids, passed over, 1 if there may be more}.
--
-- Being in the set is the claim: two schedulers never promote one job twice.
-- What can be no job is buried, so that it never blocks those behind it; an id
-- whose job is gone is dropped.

-- include: time
-- include: entry

local PAGE = 100

if not (is(KEYS[1], 'zset') and is(KEYS[2], 'zset') and is(KEYS[3], 'hash')) then
    return redis.error_reply(WRONG)
end
local promoted, buried, dropped, passed = {}, {}, {}, 0
local page = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms),
    'LIMIT', ARGV[3], PAGE)
redis.call('ZREM', KEYS[1], '') -- a first write that frees: a full server lets the rest pass
local more = #page == PAGE and 1 or 0
for _, id in ipairs(page) do
    if #promoted >= tonumber(ARGV[2]) then more = 1; break end
    local job = ARGV[1] .. id
    local kind = redis.call('TYPE', job).ok
    local queue = kind == 'hash' and redis.call('HGET', job, 'queue')
    local list = queue and ARGV[1] .. 'queue:' .. queue
    if kind == 'none' then
        redis.call('ZREM', KEYS[1], id)
        redis.call('HDEL', KEYS[3], id)
        dropped[#dropped + 1] = id
    elseif not good_id(id) or not queue or queue == '' or not is(list, 'list') then
        redis.call('ZADD', KEYS[2], whole(now_ms), id)
        redis.call('ZREM', KEYS[1], id)
        if kind == 'hash' and good_id(id) then
            redis.call('HSET', job, 'status', '__failed__', 'failed', stamp, 'updated', stamp,
                'message', 'it was due and has no queue that can take it')
            redis.call('PERSIST', job)
        end
        buried[#buried + 1] = id
    elseif ARGV[4] and queue ~= ARGV[4] then
        passed = passed + 1
    else
        line_up(job, id, queue, list)
        redis.call('ZREM', KEYS[1], id)
        promoted[#promoted + 1] = id
    end
end
return {promoted, buried, dropped, passed, more}
