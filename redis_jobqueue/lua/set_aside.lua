-- Give a key that is in the way another name; nothing in it is lost.
--
-- KEYS[1]         the key
-- KEYS[2]         its new name
-- ARGV[1]         the type that the caller saw
-- Returns 1, or 0 if it is not so any more, or the new name is taken.

if redis.call('TYPE', KEYS[1]).ok ~= ARGV[1] then return 0 end
return redis.call('RENAMENX', KEYS[1], KEYS[2])
