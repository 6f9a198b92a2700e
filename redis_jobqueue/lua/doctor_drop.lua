-- Take off one place of a job that is gone, or that stands in another place too.
--
-- KEYS[1] hash    the job
-- KEYS[2]         the place, a list or a zset
-- KEYS[3] zset    owners:heartbeat
-- KEYS[4]         the place that keeps the job; absent: the job must be gone
-- ARGV[1]         the id
-- ARGV[2]         what stands in the place
-- ARGV[3]         the owner of the place, '' for none: it must not live
-- ARGV[4]         what stands in the place that keeps it
-- Returns 1, or 0 if things are not so any more (nothing is changed).

-- include: time
-- include: entry

local function count(key, member)
    local kind = redis.call('TYPE', key).ok
    if kind == 'list' then return #redis.call('LPOS', key, member, 'COUNT', 0) end
    return kind == 'zset' and redis.call('ZSCORE', key, member) and 1 or 0
end

if ARGV[3] ~= '' then
    if not is(KEYS[3], 'zset') then return 0 end -- nobody knows who lives
    local score = redis.call('ZSCORE', KEYS[3], ARGV[3])
    if score and tonumber(score) > now_ms then return 0 end
end
if KEYS[4] then
    local needed = KEYS[4] == KEYS[2] and ARGV[4] == ARGV[2] and 2 or 1
    if count(KEYS[4], ARGV[4]) < needed then return 0 end
elseif good_id(ARGV[1]) and redis.call('TYPE', KEYS[1]).ok == 'hash' then
    return 0
end
if redis.call('TYPE', KEYS[2]).ok == 'zset' then return redis.call('ZREM', KEYS[2], ARGV[2]) end
-- From the tail: where a job waits twice, its first turn stays.
return redis.call('LREM', KEYS[2], -1, ARGV[2])
