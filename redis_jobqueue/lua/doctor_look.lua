-- Look at one job, and at every place where it was seen, at one moment.  Reads only.
--
-- KEYS[1] hash    the job
-- KEYS[2] set     owners:lists
-- KEYS[3] zset    owners:heartbeat
-- KEYS[4...6]     delayed:jobs, retry:jobs, dead:jobs
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the id
-- ARGV[3]         how many of the next arguments are fields of the job, then those
-- then            how many are queues in which it was seen, then those
-- then            the entries that were seen
-- Returns {now in ms, type, time to live, {value, ...}, {{kind, queue, owner, what stands
-- there, 1 if the owner lives}, ...}}.

-- include: time
-- include: entry

local place = 3
local function some()
    local given = {}
    for i = 1, tonumber(ARGV[place]) do given[i] = ARGV[place + i] end
    place = place + 1 + #given
    return given
end

local fields, queues, texts = some(), some(), {}
for i = place, #ARGV do texts[#texts + 1] = ARGV[i] end
local kind, values = redis.call('TYPE', KEYS[1]).ok, {}
if kind == 'hash' then
    values = redis.call('HMGET', KEYS[1], unpack(fields))
    local queue, entry = unpack(redis.call('HMGET', KEYS[1], 'queue', '__id_in_queue__'))
    if queue then queues[#queues + 1] = queue end
    if entry then texts[#texts + 1] = entry end
end
texts[#texts + 1] = ARGV[2]

local places = {}
local function look(list, what, queue, owner, lives)
    if redis.call('TYPE', list).ok ~= 'list' then return end
    local seen = {}
    for _, text in ipairs(texts) do
        if not seen[text] then
            seen[text] = true
            for _ in ipairs(redis.call('LPOS', list, text, 'COUNT', 0)) do
                places[#places + 1] = {what, queue, owner, text, lives}
            end
        end
    end
end

local registry = redis.call('TYPE', KEYS[2]).ok == 'set'
local members = registry and redis.call('SMEMBERS', KEYS[2]) or {}
local beating = redis.call('TYPE', KEYS[3]).ok == 'zset'
local looked = {}
for _, queue in ipairs(queues) do
    if not looked[queue] then
        looked[queue] = true
        look(ARGV[1] .. 'queue:' .. queue, 'waiting', queue, '', 0)
        for _, member in ipairs(members) do
            local name, owner = string.match(member, '^(.*):([^:]*)$')
            if name == queue then
                local score = beating and redis.call('ZSCORE', KEYS[3], owner)
                look(ARGV[1] .. 'processing:' .. member, 'processing', queue, owner,
                    score and tonumber(score) > now_ms and 1 or 0)
            end
        end
        if not (registry and redis.call('SISMEMBER', KEYS[2], queue) == 1) then
            look(ARGV[1] .. 'processing:' .. queue, 'processing', queue, '', 0)
        end
    end
end
for i, what in ipairs({'delayed', 'retrying', 'dead'}) do
    if redis.call('TYPE', KEYS[3 + i]).ok == 'zset' and redis.call('ZSCORE', KEYS[3 + i], ARGV[2]) then
        places[#places + 1] = {what, '', '', ARGV[2], 0}
    end
end
return {whole(now_ms), kind, redis.call('TTL', KEYS[1]), values, places}
