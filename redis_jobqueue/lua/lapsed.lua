-- Name owners that may be dead, and the lists that they may hold.  Reads only.
--
-- KEYS[1] zset    owners:heartbeat
-- KEYS[2] set     owners:lists
-- KEYS[3] hash    owners:about
-- ARGV[1]         the cursor over the lists, 0 to begin
-- Returns {the next cursor, {<queue>:<owner>, ...}, {owner, ...}}: the registered
-- lists whose owner has no good beat, and (with the cursor 0) up to 100 owners
-- whose beat is too old, and those that said something of themselves but have none.

-- include: time

local cursor, members = unpack(redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', 100))
local lists = {}
for _, member in ipairs(members) do
    local owner = string.match(member, '([^:]*)$')
    local score = redis.call('ZSCORE', KEYS[1], owner)
    if not score or tonumber(score) <= now_ms then lists[#lists + 1] = member end
end
local owners = {}
if ARGV[1] == '0' then
    owners = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms), 'LIMIT', 0, 100)
    for _, owner in ipairs(redis.call('HKEYS', KEYS[3])) do
        if not redis.call('ZSCORE', KEYS[1], owner) then owners[#owners + 1] = owner end
    end
end
return {cursor, lists, owners}
