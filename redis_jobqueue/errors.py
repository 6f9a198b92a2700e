"""Error codes, their texts, and the exceptions that carry them.

The codes 0 to 6 and their texts are Perl's: scripts branch on them through
``JobQueue.last_errorcode``.  Code 7 is ours: Perl has no claims.

Every exception is a `JobQueueError` and has the attribute ``code``; where
Python has a built-in that a caller would guess, it is that as well.
"""

from __future__ import annotations

E_NO_ERROR = 0
E_MISMATCH_ARG = 1
E_DATA_TOO_LARGE = 2
E_NETWORK = 3
E_MAX_MEMORY_LIMIT = 4
E_JOB_DELETED = 5
E_REDIS = 6
E_CLAIM_LOST = 7

ERROR: tuple[str, ...] = (
    "No error",
    "Invalid argument",
    "Data is too large",
    "Error in connection to Redis server",
    "Command not allowed when used memory > 'maxmemory'",
    "job was removed prior to use",
    "Redis error",
    "The claim on the job was lost",
)
"""What ``last_error`` says for each code; the place in the tuple is the code."""


class JobQueueError(Exception):
    """The base of everything that this package raises on purpose.

    Attributes:
        code: the ``E_*`` number that ``last_errorcode`` has after it.
        added: after `JobQueue.add_jobs`, the ids that were added.
        unknown: after `JobQueue.add_jobs`, the ids whose answer did not come;
            they may have been added, all of them or none.
    """

    code: int = E_NO_ERROR
    added: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __init__(self, message: str = "", *, code: int | None = None) -> None:
        if code is not None:
            self.code = code
        super().__init__(message or ERROR[self.code])


class ArgumentError(JobQueueError, ValueError):
    """An argument that does not fit.

    ``code`` is what Perl leaves: `E_MISMATCH_ARG` for a method's argument,
    `E_NO_ERROR` for an attribute of a Job or a JobQueue.
    """

    code = E_MISMATCH_ARG


class DataTooLargeError(JobQueueError):
    """The frozen workload, result or metadata is longer than ``max_datasize``."""

    code = E_DATA_TOO_LARGE


class NetworkError(JobQueueError, ConnectionError):
    """The server could not be reached, or the answer did not arrive.

    Attributes:
        job_id: the job that the failed call was about, or None.  When an
            answer was lost, the server may have done the work all the same:
            look the job up under this id before trying again.
    """

    code = E_NETWORK

    def __init__(
        self, message: str = "", *, code: int | None = None, job_id: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.job_id = job_id


class MaxMemoryError(JobQueueError):
    """The server has reached its ``maxmemory`` and refuses to store more."""

    code = E_MAX_MEMORY_LIMIT


class JobDeletedError(JobQueueError):
    """The job was deleted, or its time to live ran out, before it was used.

    The message starts with the id, as in Perl.

    Attributes:
        job_id: the id of the job that is gone, or None.
    """

    code = E_JOB_DELETED

    def __init__(
        self, message: str = "", *, code: int | None = None, job_id: str | None = None
    ) -> None:
        if not message and job_id is not None:
            message = f"{job_id} {ERROR[E_JOB_DELETED]}"
        super().__init__(message, code=code)
        self.job_id = job_id


class RedisError(JobQueueError):
    """Any other error that the server answered with; the text is the server's."""

    code = E_REDIS


class ClaimLostError(JobQueueError):
    """The caller no longer holds the job: somebody recovered or released it.

    Nothing was written.  Ours: Perl has no claims.

    Attributes:
        job_id: the id of the job, or None.
    """

    code = E_CLAIM_LOST

    def __init__(
        self, message: str = "", *, code: int | None = None, job_id: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.job_id = job_id


class StorableError(JobQueueError, ValueError):
    """A value that cannot be frozen, or an image that cannot be thawed.

    ``code`` is `E_MISMATCH_ARG` for freezing and `E_REDIS` for thawing (Perl
    leaves 0 for both).
    """

    code = E_REDIS
