-- new_job(): write the hash of a new job.  ARGV from `first` to `last` are field,
-- value, ...: what differs from the defaults here.

local EMPTY = '\005\011\004\010\000' -- a reference to the empty string, frozen

local function new_job(job, entry, expire, first, last)
    redis.call('HMSET', job,
        'completed', '0', 'expire', expire, 'failed', '0', 'job', '', 'message', '',
        'progress', '0', 'result', EMPTY, 'started', '0', 'status', '__created__',
        'workload', EMPTY, '__id_in_queue__', entry)
    for i = first, last, 1000 do
        redis.call('HMSET', job, unpack(ARGV, i, math.min(i + 999, last)))
    end
end
