-- Read keys of which somebody wants to hear; the server remembers what was read.
--
-- KEYS[...]       the keys, of any type
-- Returns how many of them exist.

local there = 0
for _, key in ipairs(KEYS) do there = there + redis.call('EXISTS', key) end
return there
