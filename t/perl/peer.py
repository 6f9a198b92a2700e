"""The real Perl module as a peer: a Perl process that does what it is told.

`PerlPeer` runs `driver.pl`; `PerlQueue` and `PerlJob` are the module's objects
in that process.  Arguments are Python values, or a `Given` form (also inside of
them) where a test wants Perl data that no Python value stands for.  Answers come as tagged forms,
so that a test sees exactly what Perl has.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Mapping

import attrs

from perl.forms import Form, given_form, string_of

HERE = Path(__file__).parent
PERL = shutil.which("perl") or "perl"
PATIENT = {"connection_timeout": 20, "operation_timeout": 20}
"""Seconds; Perl's own 0.1 and 1 are too short for a busy machine."""


def missing() -> str | None:
    """Say why the real module cannot be run here; None when it can."""
    try:
        run = subprocess.run(
            [PERL, "-MRedis::JobQueue", "-e1"], capture_output=True, text=True, timeout=30
        )
    except OSError as error:
        return f"no Perl: {error}"
    return None if run.returncode == 0 else f"no Redis::JobQueue: {run.stderr.partition(' (')[0]}"


@attrs.frozen
class Answer:
    """What a call left: the values returned, or what Perl said when it died.

    `last_errorcode` and `last_error` are None after a call on a job or a class.
    """

    returned: list[Form]
    died: str | None
    last_errorcode: int | None = None
    last_error: str | None = None


class PerlDied(Exception):
    """Perl died in a call; `answer` has the first line and the error state."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.died} (code {answer.last_errorcode})")
        self.answer = answer


class PerlPeer:
    """One Perl process; close it, or use it in a `with` statement."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PERL, str(HERE / "driver.pl")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="ascii",
        )

    def __enter__(self) -> PerlPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Perl peer ended with {self._process.wait(timeout=30)}")
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise ValueError(answer["refused"])
        return answer

    def attempt(
        self, on: str | int, method: str, *args: object, scalar: bool = False
    ) -> Answer:
        """Call a method of a class or of an object's handle; do not raise when it dies."""
        request = {"on": on, "method": method, "args": [_argument(arg) for arg in args]}
        return Answer(**self._ask({**request, "scalar": scalar}))

    def call(self, on: str | int, method: str, *args: object, scalar: bool = False) -> list[Form]:
        """Call a method and give the values it returned.

        Raises:
            PerlDied: it died.
        """
        answer = self.attempt(on, method, *args, scalar=scalar)
        if answer.died is not None:
            raise PerlDied(answer)
        return answer.returned

    def queue(self, server: str, **options: object) -> PerlQueue:
        """A new Redis::JobQueue on `server` (host:port)."""
        arguments: list[object] = ["redis", server]
        for name, value in options.items():
            arguments += [name, value]
        [form] = self.call("Redis::JobQueue", "new", *arguments)
        return PerlQueue(self, form["handle"])

    def job(self, **attributes: object) -> PerlJob:
        """A new Redis::JobQueue::Job that is in no queue yet."""
        arguments: list[object] = []
        for name, value in attributes.items():
            arguments += [name, value]
        [form] = self.call("Redis::JobQueue::Job", "new", *arguments)
        return PerlJob(self, form)

    def look(self, handle: int) -> Form:
        """The form of an object as it is now."""
        form: Form = self._ask({"look": handle})["returned"][0]
        return form

    def forget(self) -> None:
        """Drop every queue and job of this process."""
        self._ask({"forget": True})


def _argument(value: object) -> Form:
    if isinstance(value, (PerlJob, PerlQueue)):
        return {"t": "handle", "v": value.handle}
    return given_form(value)


class PerlJob:
    """A Redis::JobQueue::Job in the Perl process, as it was when it was returned.

    `attributes` are forms; `refresh()` looks again.
    """

    def __init__(self, peer: PerlPeer, form: Form) -> None:
        self._peer = peer
        self._take(form)

    def _take(self, form: Form) -> None:
        self.handle: int = form["handle"]
        self.attributes: dict[str, Form] = form["attributes"]
        self.modified: list[str] = form["modified"]

    def __getitem__(self, name: str) -> str:
        """The text of a plain attribute (octets as latin-1), "" when it is undef."""
        form = self.attributes[name]
        return "" if form["t"] == "undef" else _text(form)

    @property
    def id(self) -> str:
        """The job's id."""
        return self["id"]

    @property
    def meta_data(self) -> dict[str | bytes, Form]:
        """The metadata, each value as a form."""
        return {string_of(key): value for key, value in self.attributes["meta_data"]["v"]}

    def set(self, name: str, *values: object) -> PerlJob:
        """Call a setter (`meta_data` takes a name and a value, or a hash)."""
        self._peer.call(self.handle, name, *values)
        return self.refresh()

    def refresh(self) -> PerlJob:
        """Look at the attributes again."""
        self._take(self._peer.look(self.handle))
        return self


class PerlQueue:
    """A Redis::JobQueue in the Perl process; its methods under their own names.

    Every method but `attempt` raises `PerlDied` when Perl dies.
    """

    def __init__(self, peer: PerlPeer, handle: int) -> None:
        self.peer = peer
        self.handle = handle

    def attempt(self, method: str, *args: object, scalar: bool = False) -> Answer:
        """Call a method; the answer tells also when Perl died."""
        return self.peer.attempt(self.handle, method, *args, scalar=scalar)

    def _call(self, method: str, *args: object, scalar: bool = False) -> list[Form]:
        return self.peer.call(self.handle, method, *args, scalar=scalar)

    def _one_job(self, method: str, *args: object) -> PerlJob | None:
        returned = self._call(method, *args)
        return PerlJob(self.peer, returned[0]) if returned and "handle" in returned[0] else None

    def _one_number(self, method: str, *args: object) -> int | None:
        """A number, or None where Perl returns nothing or undef."""
        returned = self._call(method, *args)
        return int(_text(returned[0])) if returned and returned[0]["t"] != "undef" else None

    def add_job(self, job: object, **options: object) -> PerlJob:
        """Add a hash or a PerlJob; the job with its new id."""
        added = self._one_job("add_job", job, *_pairs(options))
        assert added is not None
        return added

    def load_job(self, job: object) -> PerlJob | None:
        """Load a job by id or PerlJob."""
        return self._one_job("load_job", job)

    def get_next_job(self, **options: object) -> PerlJob | None:
        """Take the next job."""
        return self._one_job("get_next_job", *_pairs(options))

    def get_next_job_id(self, **options: object) -> str | None:
        """Take the next entry and give its id."""
        returned = self._call("get_next_job_id", *_pairs(options))
        return _text(returned[0]) if returned and returned[0]["t"] != "undef" else None

    def update_job(self, job: PerlJob) -> int | None:
        """The number of fields written; None if the job is gone."""
        return self._one_number("update_job", job)

    def delete_job(self, job: object) -> bool:
        """Whether there was a job to delete."""
        return bool(self._one_number("delete_job", job))

    def get_job_data(self, job: object, *names: str) -> list[Form]:
        """The values in list context; without names one hash, as a form."""
        return self._call("get_job_data", job, *names)

    def get_job_meta_fields(self, job: object) -> set[str]:
        """The names of the metadata."""
        return {_text(form) for form in self._call("get_job_meta_fields", job)}

    def get_job_ids(self, **options: object) -> set[str]:
        """The ids that fit the filters."""
        return {_text(form) for form in self._call("get_job_ids", *_pairs(options))}

    def queue_status(self, queue: object) -> dict[str, str]:
        """The status hash, values as Perl has them: strings."""
        [form] = self._call("queue_status", queue)
        return {_text(key): _text(value) for key, value in form["v"]}

    def queue_length(self, queue: object) -> int | None:
        """The number of waiting entries."""
        return self._one_number("queue_length", queue)

    def ping(self) -> int | None:
        """1 or 0."""
        return self._one_number("ping")

    def quit(self) -> None:
        """Close the connection, as far as the module does."""
        self._call("quit")


def _pairs(options: Mapping[str, object]) -> list[object]:
    """Perl's key-value arguments."""
    return [part for pair in options.items() for part in pair]


def _text(form: Form) -> str:
    """The text of a plain form."""
    if form["t"] in ("int", "num"):
        return str(form["v"])
    string = string_of(form)
    return string if isinstance(string, str) else string.decode("latin-1")
