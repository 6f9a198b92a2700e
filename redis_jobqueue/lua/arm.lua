-- Read what a waiting owner wants to hear of; the server remembers what it read.
--
-- KEYS[1] set     paused:queues
-- KEYS[2...] list the queues
-- Returns how many of the queues have an entry.

redis.call('EXISTS', KEYS[1])
local filled = 0
for i = 2, #KEYS do filled = filled + redis.call('EXISTS', KEYS[i]) end
return filled
