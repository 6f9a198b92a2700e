"""What each call sends, and how it reads the reply: generators without I/O.

An operation yields requests (see `request`) and is sent their replies; what it
returns is the result of the call.  It is written once and driven by the
synchronous and by the asyncio driver alike, and a test can drive it by hand
and drop it after any step.
"""
