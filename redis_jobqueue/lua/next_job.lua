-- Take the next job off the first queue that has one.  At most once, as in Perl:
-- the entry is gone with this call.
--
-- KEYS[...] list  the queues, in the order in which they are looked at
-- ARGV[1]         the prefix of the keys of jobs
-- ARGV[2]         the caller's time, whole seconds
-- ARGV[3]         1 to load the job and start its time to live anew, 0 for the id only
-- ARGV[4]         an entry that was taken off already and comes first; may be absent
-- Returns {}                   all queues are empty
--         {entry}              the entry's job is gone before its time
--         {entry, fields}      the job; fields as HGETALL gives them, {} for the id only
--         {entry, 0, error}    the key of the job holds something else
--         {''}                 many entries were skipped: call again
--
-- Entries whose job is gone after its time are skipped, and so are the empty
-- entry and the entry 0, which are nobody's.  A time that is no number is over,
-- as in Perl.

local LONGEST = 500 -- entries that one call skips, so that it ends in about a millisecond

-- What one entry comes to: nil to go on, else the reply.
local function take(entry)
    local id, epoch = string.match(entry, '^%s*(%S+)%s*(%S*)')
    if not id or entry == '0' then return nil end
    local key = ARGV[1] .. id
    local kind = redis.call('TYPE', key).ok
    if kind == 'hash' then
        if ARGV[3] == '0' then return {entry, {}} end
        local expire = redis.call('HGET', key, 'expire')
        if expire and string.match(expire, '^[1-9]%d*$') then redis.pcall('EXPIRE', key, expire) end
        return {entry, redis.call('HGETALL', key)}
    elseif kind ~= 'none' then
        return {entry, 0, 'WRONGTYPE Operation against a key holding the wrong kind of value'}
    end
    if epoch ~= '' and (tonumber(epoch) or 0) <= tonumber(ARGV[2]) then return nil end
    return {entry}
end

if ARGV[4] then
    local reply = take(ARGV[4])
    if reply then return reply end
end
local looked = 0
for _, queue in ipairs(KEYS) do
    while true do
        local entry = redis.call('LPOP', queue)
        if not entry then break end
        local reply = take(entry)
        if reply then return reply end
        looked = looked + 1
        if looked >= LONGEST then return {''} end
    end
end
return {}
