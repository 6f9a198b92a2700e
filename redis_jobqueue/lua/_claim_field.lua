-- A field of claims:<owner>: token -> "number saves begun length queue..entry".

local function read_claim(value)
    local number, saves, begun, length, rest =
        string.match(value, '^(%d+) (%d+) ([01]) (%d+) (.*)$')
    if not number then return nil end
    length = tonumber(length)
    local claim = {number = number, saves = tonumber(saves), begun = begun}
    claim.queue = string.sub(rest, 1, length)
    claim.entry = string.sub(rest, length + 1)
    claim.id = string.match(claim.entry, '^%s*(%S*)')
    return claim
end

local function write_claim(claim)
    return string.format('%s %d %s %d ', claim.number, claim.saves, claim.begun, #claim.queue)
        .. claim.queue .. claim.entry
end

-- The claim under this token, if number and id fit; else nil.
local function held(claims, token, number, id)
    local value = redis.call('HGET', claims, token)
    local claim = value and read_claim(value)
    if claim and claim.number == number and claim.id == id then return claim end
    return nil
end
