"""Perl's Redis::JobQueue in Python, on the same Redis keys."""

from redis_jobqueue._version import __version__
from redis_jobqueue.address import (
    DEFAULT_CONNECTION_TIMEOUT,
    DEFAULT_OPERATION_TIMEOUT,
    DEFAULT_PORT,
    DEFAULT_SERVER,
)
from redis_jobqueue.errors import (
    E_CLAIM_LOST,
    E_DATA_TOO_LARGE,
    E_JOB_DELETED,
    E_MAX_MEMORY_LIMIT,
    E_MISMATCH_ARG,
    E_NETWORK,
    E_NO_ERROR,
    E_REDIS,
    ArgumentError,
    ClaimLostError,
    DataTooLargeError,
    JobDeletedError,
    JobQueueError,
    MaxMemoryError,
    NetworkError,
    RedisError,
    StorableError,
)
from redis_jobqueue.handlers import Backoff, Bury, Drop, Handler, Retry, current_job, handler
from redis_jobqueue.job import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    STATUS_WORKING,
    Job,
)
from redis_jobqueue.keys import NAMESPACE
from redis_jobqueue.middleware import Middleware
from redis_jobqueue.owner import Owner
from redis_jobqueue.queue import DEFAULT_TIMEOUT, MAX_DATASIZE, JobQueue
from redis_jobqueue.storable import Blessed, ScalarRef
from redis_jobqueue.worker import Worker

__all__ = [
    "DEFAULT_CONNECTION_TIMEOUT",
    "DEFAULT_OPERATION_TIMEOUT",
    "DEFAULT_PORT",
    "DEFAULT_SERVER",
    "DEFAULT_TIMEOUT",
    "E_CLAIM_LOST",
    "E_DATA_TOO_LARGE",
    "E_JOB_DELETED",
    "E_MAX_MEMORY_LIMIT",
    "E_MISMATCH_ARG",
    "E_NETWORK",
    "E_NO_ERROR",
    "E_REDIS",
    "MAX_DATASIZE",
    "NAMESPACE",
    "STATUS_COMPLETED",
    "STATUS_CREATED",
    "STATUS_FAILED",
    "STATUS_WORKING",
    "ArgumentError",
    "Backoff",
    "Blessed",
    "Bury",
    "ClaimLostError",
    "DataTooLargeError",
    "Drop",
    "Handler",
    "Job",
    "JobDeletedError",
    "JobQueue",
    "JobQueueError",
    "MaxMemoryError",
    "Middleware",
    "NetworkError",
    "Owner",
    "RedisError",
    "Retry",
    "ScalarRef",
    "StorableError",
    "Worker",
    "__version__",
    "current_job",
    "handler",
]
