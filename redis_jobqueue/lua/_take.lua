-- take(): claim up to `count` jobs.  The caller has seen that the owner's beat is good,
-- and that the shared keys fit().
--
-- Returns {jobs, dangling, bad, more, unfit}: see claim.lua.
--
-- at.heartbeat, at.claims, at.lists, at.attempts, at.paused are keys; at.first is
-- the place in KEYS from which each queue has three: its list, the owner's
-- processing list of it, its counters.  names[i] is the name of the i-th queue.

local LONGEST = 500 -- entries that one call skips
local LARGEST = 1000000 -- octets of jobs after which it takes no other

-- A claimed job for the answer, and its size.
local function claimed(at, field)
    local claim = read_claim(redis.call('HGET', at.claims, field))
    local job = at.prefix .. claim.id
    local values = redis.call('TYPE', job).ok == 'hash' and redis.call('HGETALL', job) or {}
    local size = 0
    for _, value in ipairs(values) do size = size + #value end
    return {field, claim.number, claim.queue, claim.entry,
        whole(attempts_of(at.attempts, claim.id)), values}, size
end

local function take(at, owner, token, count, mark, names)
    local found, dangling, bad, unfit = {}, {}, {}, {}
    for i, name in ipairs(names) do
        local first = at.first + 3 * i - 3
        if not (is(KEYS[first], 'list') and is(KEYS[first + 1], 'list')
            and is(KEYS[first + 2], 'hash')) then
            unfit[#unfit + 1], unfit[name] = name, true
        end
    end
    -- An answer that was lost: the same token is given what is left of its jobs, and no more.
    local fields = {token}
    if count > 1 then
        for i = 1, count do fields[i] = token .. '.' .. i end
    end
    for i, value in ipairs(redis.call('HMGET', at.claims, unpack(fields))) do
        if value then found[#found + 1] = claimed(at, fields[i]) end
    end
    if #found > 0 then return {found, dangling, bad, 0, unfit} end
    local looked, more, size = 0, 0, 0
    for i, name in ipairs(names) do
        local list, mine, counters = KEYS[at.first + 3 * i - 3], KEYS[at.first + 3 * i - 2],
            KEYS[at.first + 3 * i - 1]
        local open = not unfit[name] and redis.call('SISMEMBER', at.paused, name) == 0
        while open and #found < count and size <= LARGEST do
            local entry = redis.call('LINDEX', list, 0)
            if not entry then break end
            looked = looked + 1
            if looked > LONGEST then more = 1; break end
            local id = id_of(entry)
            local job = at.prefix .. id
            local kind = redis.call('TYPE', job).ok
            redis.call('LPOP', list) -- frees, so a full server lets what follows pass
            if not good_id(id) or (kind ~= 'hash' and kind ~= 'none') then
                bad[#bad + 1] = entry
            elseif kind == 'none' then
                if not run_out(entry) then dangling[#dangling + 1] = entry end
            else
                local field = fields[#found + 1]
                redis.call('SADD', at.lists, name .. ':' .. owner)
                redis.call('LPUSH', mine, entry)
                local claim = {number = whole(redis.call('HINCRBY', at.claims, '#', 1)),
                    saves = 0, begun = '0', queue = name, entry = entry}
                redis.call('HSET', at.claims, field, write_claim(claim))
                redis.call('PERSIST', job)
                if mark == '1' then
                    local status = redis.call('HGET', job, 'status')
                    if not status or status == '' or status == '__created__'
                        or status == '__working__' or status == '__failed__' then
                        redis.call('HSET', job, 'status', '__working__')
                    end
                    redis.call('HSET', job, 'started', stamp, 'updated', stamp)
                end
                tally(counters, 'claimed')
                local one, octets = claimed(at, field)
                found[#found + 1], size = one, size + octets
            end
        end
        if #found >= count or more == 1 then break end
    end
    return {found, dangling, bad, more, unfit}
end

-- Whether the keys that take() shares with others are of the types that they must be.
local function fit(at)
    return is(at.claims, 'hash') and is(at.lists, 'set') and is(at.attempts, 'hash')
        and is(at.paused, 'set')
end

-- good: the owner may claim; lapsed: its beat is too old; fenced: it has none.
local function standing(heartbeat, owner)
    local score = redis.call('ZSCORE', heartbeat, owner)
    if not score then return 'fenced' end
    return tonumber(score) > now_ms and 'good' or 'lapsed'
end
