-- An owner lives: extend its time, and put back what its process does not hold.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] hash    claims:<owner>
-- KEYS[3] zset    cancelled:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the owner
-- ARGV[3]         its lifetime, ms
-- ARGV[4]         the highest token that it gave out
-- ARGV[5...]      its living tokens and fields
-- Returns {0} if it was fenced, else {1, how many were put back, 1 if there are
-- more of them, the server's time in ms, ids of held jobs that are to stop}.

-- include: time
-- include: entry
-- include: claim_field
-- include: drop_dead

if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return {0} end
if not is(KEYS[2], 'hash') then return redis.error_reply(WRONG) end
redis.call('HDEL', KEYS[2], '-') -- a first write that frees: a full server lets the rest pass
redis.call('ZADD', KEYS[1], 'XX', whole(now_ms + ARGV[3]), ARGV[2])
local living = {}
for i = 5, #ARGV do living[ARGV[i]] = true end
local back, alive, more = drop_dead(KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[4]), living)
local cancelled = {}
if redis.call('TYPE', KEYS[3]).ok == 'zset' then
    for _, claim in ipairs(alive) do
        if redis.call('ZSCORE', KEYS[3], claim.id) then cancelled[#cancelled + 1] = claim.id end
    end
end
return {1, back, more and 1 or 0, whole(now_ms), cancelled}
