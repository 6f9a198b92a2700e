-- Let a job know the entry under which it stands in a list, and the queue of that list.
--
-- KEYS[1] hash    the job
-- KEYS[2] list    queue:<queue>, or processing:<queue>:<owner>
-- ARGV[1]         the entry
-- ARGV[2]         the queue
-- Returns 1, or 0 if things are not so any more (nothing is changed).

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' or redis.call('TYPE', KEYS[2]).ok ~= 'list'
    or not redis.call('LPOS', KEYS[2], ARGV[1]) then
    return 0
end
redis.call('HSET', KEYS[1], 'queue', ARGV[2], '__id_in_queue__', ARGV[1])
return 1
