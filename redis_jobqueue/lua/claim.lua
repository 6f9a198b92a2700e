-- Claim the next jobs of some queues for an owner whose beat is good.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    claims:<owner>
-- KEYS[3] set     owners:lists
-- KEYS[4] hash    attempts:jobs
-- KEYS[5] set     paused:queues
-- KEYS[6...]      for each queue: its list, processing:<queue>:<owner>, stats:<queue>
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the owner
-- ARGV[3]         the token of this call
-- ARGV[4]         how many jobs at most; 1 stores the field <token>, more <token>.<i>
-- ARGV[5]         1 to mark the jobs as working, 0 to leave status and times
-- ARGV[6...]      the names of the queues
-- Returns {standing}                               not good: nothing was done
--         {'good', jobs, dangling, bad, more, unfit}
-- where a job is {field, number, queue, entry, attempts, fields as HGETALL},
-- dangling are entries whose job is gone before its time, bad are entries that
-- can be no job's (both are taken off), more is 1 if the call stopped early to
-- be short, and unfit are the queues that were left out because a key of theirs
-- holds something else (an error if all are).  The same token is given the same jobs.

-- include: time
-- include: entry
-- include: claim_field
-- include: take

local state = standing(KEYS[1], ARGV[2])
if state ~= 'good' then return {state} end
local at = {claims = KEYS[2], lists = KEYS[3], attempts = KEYS[4], paused = KEYS[5],
    prefix = ARGV[1], first = 6}
local names = {}
for i = 6, #ARGV do names[i - 5] = ARGV[i] end
if not fit(at) then return redis.error_reply(WRONG) end
local jobs, dangling, bad, more, unfit = unpack(
    take(at, ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], names))
if #unfit == #names and #jobs == 0 then return redis.error_reply(WRONG) end
return {state, jobs, dangling, bad, more, unfit}
