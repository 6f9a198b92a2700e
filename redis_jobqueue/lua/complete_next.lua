-- Complete one job and claim the next in the same trip.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    claims:<owner>
-- KEYS[3] set     owners:lists
-- KEYS[4] hash    attempts:jobs
-- KEYS[5] set     paused:queues
-- KEYS[6] zset    cancelled:jobs
-- KEYS[7...10]    of the job: its hash, processing:<queue>:<owner>, the queue's list,
--                 stats:<queue>
-- KEYS[11...]     for each queue: its list, processing:<queue>:<owner>, stats:<queue>
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the owner
-- ARGV[3]         the token of the next claim
-- ARGV[4]         1 to mark the next job as working
-- ARGV[5]         how many queues, followed by their names
-- then            of the job as in finish.lua
-- Returns {done, standing} or {done, 'good', jobs, dangling, bad, more, unfit}: see
-- finish.lua and claim.lua.  Where the completion is refused nothing is claimed; where
-- no queue is fit to be claimed from it is done all the same.

-- include: time
-- include: entry
-- include: claim_field
-- include: take
-- include: finish

local count = tonumber(ARGV[5])
local names = {}
for i = 1, count do names[i] = ARGV[5 + i] end
local at = {claims = KEYS[2], lists = KEYS[3], attempts = KEYS[4], paused = KEYS[5],
    cancelled = KEYS[6], retry = KEYS[6], dead = KEYS[6], delay = 0, limit = 0,
    prefix = ARGV[1], first = 11}
if not fit(at) then return redis.error_reply(WRONG) end
local state = standing(KEYS[1], ARGV[2])
local ended = finish_all('complete', at, 7, 6 + count)
if ended.err then return ended end
if ended[1] ~= 1 or state ~= 'good' then return {ended[1], state} end
return {ended[1], state, unpack(take(at, ARGV[2], ARGV[3], 1, ARGV[4], names))}
