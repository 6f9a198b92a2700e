-- holder(): the owner that holds a job under this very entry, or nil.

local function holder(lists, prefix, queue, entry)
    if not queue or not entry or redis.call('TYPE', lists).ok ~= 'set' then return nil end
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
