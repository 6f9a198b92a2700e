"""What the tests of a server that refuses share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from redis_jobqueue import E_REDIS, JobQueue, RedisError

JOB = {"queue": "q", "expire": 60, "workload": "w", "meta_data": {"tag": 1}}


def refused(jq: JobQueue, call: Callable[[], object], words: str) -> RedisError:
    """Return the error of a call that the server refuses, having checked that it is E_REDIS."""
    with pytest.raises(RedisError, match=words) as caught:
        call()
    assert E_REDIS == caught.value.code == jq.last_errorcode
    return caught.value


def dump(client: redis.Redis) -> dict[bytes, object]:
    """Return all that is stored, to compare."""
    return {key: (client.dump(key), client.ttl(key) > 0) for key in client.keys()}


def user(client: redis.Redis, *rules: str) -> None:
    """Make the user ``worker`` with these rights."""
    client.execute_command("ACL", "SETUSER", "worker", "on", ">secret", *rules)
