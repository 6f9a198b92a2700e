"""Every call of the Perl API, to be made while something is wrong."""

from __future__ import annotations

from collections.abc import Callable

from redis_jobqueue import Job, JobQueue

Call = Callable[[JobQueue, Job], object]


def update(jq: JobQueue, job: Job) -> object:
    """Change a job and write it."""
    job.message = f"{job.message}x"
    return jq.update_job(job)


READING: dict[str, Call] = {
    "get_job_data": lambda jq, job: jq.get_job_data(job, "status"),
    "get_job_data, all": lambda jq, job: jq.get_job_data(job),
    "get_job_ids": lambda jq, job: jq.get_job_ids(),
    "get_job_ids, queued": lambda jq, job: jq.get_job_ids(queued=True, status="x"),
    "get_job_meta_fields": lambda jq, job: jq.get_job_meta_fields(job),
    "load_job": lambda jq, job: jq.load_job(job),
    "queue_length": lambda jq, job: jq.queue_length("q"),
    "queue_status": lambda jq, job: jq.queue_status("q"),
}
WRITING: dict[str, Call] = {
    "add_job": lambda jq, job: jq.add_job({"queue": "q", "expire": 60}),
    "update_job": update,
    "get_next_job": lambda jq, job: jq.get_next_job("q"),
    "get_next_job_id": lambda jq, job: jq.get_next_job_id("q"),
    "delete_job": lambda jq, job: jq.delete_job(job),
}
CALLS = READING | WRITING
