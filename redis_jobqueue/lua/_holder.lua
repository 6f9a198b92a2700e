-- holder(): the owner that holds a job under this very entry, '' for the list without an
-- owner, or nil.

local function holder(lists, prefix, queue, entry)
    if not queue or not entry then return nil end
    local known = redis.call('TYPE', lists).ok
    local shared = prefix .. 'processing:' .. queue
    if redis.call('TYPE', shared).ok == 'list' and redis.call('LPOS', shared, entry)
        and not (known == 'set' and redis.call('SISMEMBER', lists, queue) == 1) then
        return ''
    end
    if known ~= 'set' then return nil end
    for _, member in ipairs(redis.call('SMEMBERS', lists)) do
        local name, owner = string.match(member, '^(.*):([^:]*)$')
        if name == queue then
            local mine = prefix .. 'processing:' .. member
            if redis.call('TYPE', mine).ok == 'list' and redis.call('LPOS', mine, entry) then
                return owner
            end
        end
    end
    return nil
end
