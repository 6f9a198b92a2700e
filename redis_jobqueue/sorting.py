"""What an error of redis-py or of the system means, by Perl's rules."""

from __future__ import annotations

import re

from redis import exceptions
from redis.sentinel import MasterNotFoundError

from redis_jobqueue.address import Address
from redis_jobqueue.errors import JobQueueError, MaxMemoryError, NetworkError, RedisError
from redis_jobqueue.operations.request import Command, Pipeline, Request, Script, Wait

NOT_CONNECTED = "Not connected to any server"
FAILURES = (exceptions.RedisError, OSError, UnicodeError)
"""What redis-py raises; the last one for a host that can be no name."""
ANSWERS = (exceptions.ResponseError, exceptions.BusyLoadingError, exceptions.AuthenticationError,
           exceptions.AuthorizationError)  # fmt: skip
"""What the server answered, though redis-py calls some of it a lost connection."""

# redis-py takes the first word off these replies; last words of Perl's messages have it.
_CODES: dict[type[Exception], str] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.ExecAbortError: "EXECABORT",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.ClusterCrossSlotError: "CROSSSLOT",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.MovedError: "MOVED",  # which is an AskError to redis-py
    exceptions.AskError: "ASK",
}
# First words that it leaves.
_LEFT = {*_CODES.values(), "WRONGTYPE", "BUSY", "MISCONF", "UNBLOCKED", "NOREPLICAS", "ERR"}
_FULL = "command not allowed when used memory > 'maxmemory'"
MOVED = re.compile("READONLY|MASTERDOWN|UNBLOCKED")
"""Answers of a server that is no master any more."""
_DEMOTED = "The previous master is now a slave"
"""What redis-py makes of READONLY where Sentinel found the server."""


def sorted_error(
    error: Exception, request: Request | None, address: Address, connecting: bool = False
) -> JobQueueError:
    """Turn an error of redis-py or the system into ours, by Perl's rules.

    Returns:
        `NetworkError` where no answer came, `MaxMemoryError` where the server
        is full, `RedisError` for every other answer.
    """
    text = str(error)
    command = f"[{_command(request)}]"
    if isinstance(error, ANSWERS):
        if _FULL in text:
            return MaxMemoryError(f"{command} OOM {_FULL}")
        return RedisError(f"{command} {_answer(error)}")
    if text == _DEMOTED:
        return RedisError(f"{command} READONLY {_DEMOTED}")
    if text == "max number of clients reached":
        return RedisError(f"{command} ERR {text}")
    if isinstance(error, exceptions.InvalidResponse):
        return RedisError(f"The server at {address.server} does not speak Redis: {text[:80]}")
    if isinstance(error, MasterNotFoundError):
        text = "no sentinel could be asked that knows its master"
    if connecting and NOT_CONNECTED not in text:
        text = f"Could not connect to Redis server at {address.server}: {_reason(error, text)}"
    elif isinstance(error, exceptions.TimeoutError):
        text = "Error while reading from Redis server: no answer within the timeout"
    elif NOT_CONNECTED not in text:
        text = f"Error while reading from Redis server: {_reason(error, text)}"
    job_id = request.job_id if isinstance(request, Script) else None
    return NetworkError(text, job_id=job_id.decode("latin-1") if job_id is not None else None)


def _answer(error: Exception) -> str:
    # What the server said, with the first word that redis-py took off.
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError):
        for start, code in (("Authentication req", "NOAUTH"), ("invalid username", "WRONGPASS")):
            if text.startswith(start):
                return f"{code} {text}"
        return f"ERR {text}"
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "ERR")
    return text if text.partition(" ")[0] in _LEFT else f"{code} {text}"


def _reason(error: Exception, text: str) -> str:
    # The system's words without those of redis-py around them.  The last causes may
    # be the caller's own, and have nothing to do with it.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror and cause.strerror in text:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return text


def _command(request: Request | None) -> str:
    if isinstance(request, Script):
        return request.name
    if isinstance(request, (Command, Wait)):
        return str(request.args[0], "ascii") if isinstance(request.args[0], bytes) else "?"
    return "pipeline" if isinstance(request, Pipeline) else "connect"


def cause_of(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """Give what may be shown of why connecting failed: no password.

    The frames of a log-in hold it; of an error of Sentinel already the text
    does, in some versions of redis-py.  ``outer`` is what the caller was
    handling before: that stays as it is.
    """
    if isinstance(error, MasterNotFoundError):
        return None
    each: BaseException | None = error
    while each is not None and each is not outer:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error
