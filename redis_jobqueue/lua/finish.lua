-- End claims, all in the same way: complete, fail, retry, bury, requeue or release.
--
-- KEYS[1] hash    claims:<owner>
-- KEYS[2] hash    attempts:jobs
-- KEYS[3] zset    cancelled:jobs
-- KEYS[4] zset    retry:jobs
-- KEYS[5] zset    dead:jobs
-- KEYS[6...]      for each job: its hash, processing:<queue>:<owner>, the queue's list,
--                 stats:<queue>
-- ARGV[1]         the verb
-- ARGV[2]         delay of a retry, ms
-- ARGV[3]         attempts at which a retry becomes a burial, 0 for none
-- ARGV[4...]      for each job: token, number, id, 1 if this repeats a request whose
--                 answer was lost, a count and fields to delete, a count and field,
--                 value, ...
-- Returns for each job 1 done, 2 buried instead of retried, 0 no such claim (nothing
-- is changed), -1 the job is gone.

-- include: time
-- include: entry
-- include: claim_field
-- include: finish

local at = {claims = KEYS[1], attempts = KEYS[2], cancelled = KEYS[3], retry = KEYS[4],
    dead = KEYS[5], delay = tonumber(ARGV[2]), limit = tonumber(ARGV[3])}
return finish_all(ARGV[1], at, 6, 4)
