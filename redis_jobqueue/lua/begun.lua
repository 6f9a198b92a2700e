-- Mark claims as begun: if their owner dies now, the attempt counts.
--
-- KEYS[1] hash    claims:<owner>
-- ARGV[...]       token, number, id of each
-- Returns for each 1 done, 0 no such claim.

-- include: claim_field

redis.call('HDEL', KEYS[1], '-') -- a first write that frees: a full server lets the rest pass
local done = {}
for i = 1, #ARGV, 3 do
    local claim = held(KEYS[1], ARGV[i], ARGV[i + 1], ARGV[i + 2])
    if claim then
        claim.begun = '1'
        redis.call('HSET', KEYS[1], ARGV[i], write_claim(claim))
    end
    done[#done + 1] = claim and 1 or 0
end
return done
