-- drop_dead(): put back what the owner's process does not hold any more.
--
-- A claim is dead if its token is not above the highest that the request names,
-- and neither the token nor its own field is among the living.  The oldest claim
-- ends up at the head.

local SLICE = 100 -- claims that one call puts back

local function drop_dead(claims, prefix, owner, highest, living)
    local dead, alive = {}, {}
    local fields = redis.call('HGETALL', claims)
    for i = 1, #fields, 2 do
        local token = string.match(fields[i], '^(%d+)')
        local claim = token and read_claim(fields[i + 1])
        if claim then
            claim.token, claim.field = token, fields[i]
            if tonumber(token) <= highest and not living[token] and not living[claim.field] then
                dead[#dead + 1] = claim
            else
                alive[#alive + 1] = claim
            end
        end
    end
    table.sort(dead, function(a, b) return tonumber(a.number) > tonumber(b.number) end)
    local back, done = 0, 0
    for _, claim in ipairs(dead) do
        if done == SLICE then return back, alive, true end
        local list, mine = prefix .. 'queue:' .. claim.queue,
            prefix .. 'processing:' .. claim.queue .. ':' .. owner
        if is(list, 'list') and is(mine, 'list') then
            local taken = redis.call('LREM', mine, 1, claim.entry)
            local job = prefix .. claim.id
            if taken == 1 and redis.call('TYPE', job).ok == 'hash' then
                put_back(job, claim.queue, list, claim.entry, 'LPUSH')
                back = back + 1
            end
            redis.call('HDEL', claims, claim.field)
            done = done + 1
        end
    end
    return back, alive, false
end
