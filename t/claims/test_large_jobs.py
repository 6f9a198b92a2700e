"""Large jobs: one claim takes as much data as a short script can, and at least one job."""

from __future__ import annotations

import pytest
import redis

from claims.tools import LONG, claimed, held_key, ids, queue_key
from redis_jobqueue import JobQueue, Owner


def add_large(jq: JobQueue, sizes: list[int], queue: str = "q") -> list[str]:
    """Add jobs with so many octets of data; give their ids."""
    return [
        str(jq.add_job({"queue": queue, "expire": LONG, "workload": "x" * size}).id)
        for size in sizes
    ]


@pytest.mark.parametrize(
    "sizes, taken",
    [
        ([400_000] * 8, [3, 3, 2]),
        ([2_000_000] * 3, [1, 1, 1]),
        ([100, 2_000_000, 100, 100], [2, 2]),
        ([9_000] * 100, [100]),
    ],
)
def test_a_claim_is_bounded(
    sizes: list[int], taken: list[int], jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """It takes no other job once it has more than 1 MB; the rest waits in its order."""
    expected = add_large(jq, sizes)
    given = []
    for count in taken:
        jobs = owner.claim_many("q", 100)
        assert count == len(jobs)
        given += jobs
        assert expected[len(given) :] == ids(client, queue_key())
        assert expected[: len(given)] == ids(client, held_key(owner))[::-1]
    assert expected == [job.id for job in given]
    assert sizes == [len(job.workload) for job in given]
    assert [] == owner.claim_many("q", 100)


def test_results_and_metadata_count(jq: JobQueue, owner: Owner) -> None:
    """Whatever the hash of a job has is sent to the owner."""
    for number in range(6):
        job = jq.add_job({"queue": "q", "expire": LONG, "meta_data": {"log": "x" * 300_000}})
        job.result = "x" * 300_000
        jq.update_job(job)
    assert [2, 2, 2] == [len(owner.claim_many("q", 100)) for _ in range(3)]


def test_over_several_queues(jq: JobQueue, owner: Owner) -> None:
    """The bound is that of the call, not of each queue."""
    expected = [add_large(jq, [800_000] * 2, name) for name in ("a", "b")]
    jobs = owner.claim_many(["a", "b"], 100, order="listed")
    assert expected[0] == [job.id for job in jobs]
    assert expected[1][0] == claimed(owner, ["a", "b"], order="listed").id


def test_large_jobs_among_lost_entries(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Entries without a job in between change nothing about it."""
    expected = add_large(jq, [2_000_000, 2_000_000])
    client.lpush(queue_key(), "gone"), client.rpush(queue_key(), "gone")
    assert [expected[:1], expected[1:]] == [
        [job.id for job in owner.claim_many("q", 100)] for _ in range(2)
    ]
