-- The server's clock: now_ms in whole ms, stamp as a job's times are written.
local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = string.format('%.15g', clock[1] + clock[2] / 1000000)
local function whole(number) return string.format('%.0f', number) end
