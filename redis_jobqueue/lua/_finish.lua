-- finish(): end one claim.  One job is a table of its keys and arguments:
-- job, processing, list, counters (keys), token, number, id, again (whether it
-- repeats a request whose answer was lost), gone (fields to delete), pairs.
--
-- Returns 1 done, 2 a retry that was one too many and became a burial, 0 no
-- such claim (nothing is changed), -1 the job is gone (its entry is taken off).

local function goes_back(verb) return verb == 'requeue' or verb == 'release' end

local function same_as_before(verb, at, one)
    if verb == 'retry' or goes_back(verb) then return true end
    if redis.call('TYPE', one.job).ok ~= 'hash' then return true end
    if verb ~= 'complete' then -- failed for good, or failed and dead?
        local dead = redis.call('ZSCORE', at.dead, one.id) and true or false
        if dead ~= (verb == 'bury') then return false end
    end
    for i = 1, #one.pairs, 2 do
        local field = one.pairs[i]
        if field == 'status' or field == (verb == 'complete' and 'result' or 'message') then
            if redis.call('HGET', one.job, field) ~= one.pairs[i + 1] then return false end
        end
    end
    return true
end

local function finish(verb, at, one)
    local claim = held(at.claims, one.token, one.number, one.id)
    if not claim then
        if not (one.again and same_as_before(verb, at, one)) then return 0 end
        return verb == 'retry' and redis.call('ZSCORE', at.dead, one.id) and 2 or 1
    end
    local there = redis.call('TYPE', one.job).ok == 'hash'
    -- Only what cannot be done without stands in its way.
    if not is(one.processing, 'list') or (goes_back(verb) and not is(one.list, 'list')) then
        return redis.error_reply(WRONG)
    end

    local done, tries = 1, attempts_of(at.attempts, one.id) + 1
    if verb == 'retry' and at.limit > 0 and tries >= at.limit then verb, done = 'bury', 2 end
    redis.call('HDEL', at.claims, one.token)
    redis.call('LREM', one.processing, 1, claim.entry)
    redis.call('ZREM', at.cancelled, one.id)
    if not there then
        redis.call('HDEL', at.attempts, one.id)
        return -1
    end
    for _, field in ipairs(one.gone) do redis.call('HDEL', one.job, field) end
    for first = 1, #one.pairs, 1000 do
        redis.call('HSET', one.job, unpack(one.pairs, first, math.min(first + 999, #one.pairs)))
    end
    local counter
    if verb == 'complete' then
        redis.call('HSET', one.job, 'status', '__completed__', 'completed', stamp, 'updated', stamp)
        redis.call('HDEL', at.attempts, one.id)
        start_time_to_live(one.job, expire_of(one.job))
        counter = 'completed'
    elseif verb == 'fail' or verb == 'bury' then
        redis.call('HSET', one.job, 'status', '__failed__', 'failed', stamp, 'updated', stamp)
        redis.call('HDEL', at.attempts, one.id)
        if verb == 'fail' then
            start_time_to_live(one.job, expire_of(one.job))
            counter = 'failed'
        else
            redis.call('PERSIST', one.job)
            redis.call('ZADD', at.dead, whole(now_ms), one.id)
            counter = 'dead'
        end
    elseif verb == 'retry' then
        redis.call('HSET', at.attempts, one.id, whole(tries))
        redis.call('HSET', one.job, 'queue', claim.queue, '__id_in_queue__', claim.entry,
            'status', '__created__', 'updated', stamp, 'started', '0')
        redis.call('PERSIST', one.job)
        redis.call('ZADD', at.retry, whole(now_ms + at.delay), one.id)
        counter = 'retried'
    else
        put_back(one.job, claim.queue, one.list, claim.entry,
            verb == 'requeue' and 'RPUSH' or 'LPUSH')
    end
    if counter then tally(one.counters, counter) end
    return done
end

-- Whether the keys that every job shares are of the types that they must be for this verb.
local function sets_fit(verb, at)
    return is(at.claims, 'hash') and is(at.attempts, 'hash') and is(at.cancelled, 'zset')
        and (verb ~= 'retry' or is(at.retry, 'zset'))
        and (verb == 'complete' or goes_back(verb) or is(at.dead, 'zset'))
end

-- finish() for each job that KEYS from `first` and ARGV from `place` describe.
local function finish_all(verb, at, first, place)
    if not sets_fit(verb, at) then return redis.error_reply(WRONG) end
    local done = {}
    while place <= #ARGV do
        local one = {job = KEYS[first], processing = KEYS[first + 1], list = KEYS[first + 2],
            counters = KEYS[first + 3], token = ARGV[place], number = ARGV[place + 1],
            id = ARGV[place + 2], again = ARGV[place + 3] == '1'}
        place, first = place + 4, first + 4
        for _, part in ipairs({'gone', 'pairs'}) do
            local count = tonumber(ARGV[place])
            one[part] = {}
            for i = 1, count do one[part][i] = ARGV[place + i] end
            place = place + 1 + count
        end
        done[#done + 1] = finish(verb, at, one)
    end
    return done
end
