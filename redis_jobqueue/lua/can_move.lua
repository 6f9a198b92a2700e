-- Tell whether the server has what claims need: LMOVE.
--
-- KEYS[1] list    a key that never exists
-- Returns 1 or 0.

-- Its first write frees, so a full server lets the rest pass; one that takes no
-- writes at all, such as a replica, refuses both.
redis.pcall('LREM', KEYS[1], 0, '')
local moved = redis.pcall('LMOVE', KEYS[1], KEYS[1], 'LEFT', 'LEFT')
return type(moved) == 'table' and moved.err and 0 or 1
