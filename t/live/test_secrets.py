"""A password is seen by the server alone: not in texts, reprs, logs, tracebacks or warnings."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import redis
from support.sentinel import SERVICE, Sentinel
from support.server import Server

from redis_jobqueue import ArgumentError, JobQueue, NetworkError, RedisError

pytestmark = pytest.mark.connections

# Globals: what a test has in its own frames would show up in the tracebacks.
SECRET = "p@ss:w/rd#?%41+ &"
QUOTED = quote(SECRET, safe="")
USER = "user@host"


@pytest.fixture
def guarded(server: Server) -> Server:
    """Return a server that wants `SECRET`, of the user ``default`` and of `USER`."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", USER, "on", f">{SECRET}", "~*", "+@all")
        client.config_set("requirepass", SECRET)
    return server


@pytest.fixture(autouse=True)
def _open_again(server: Server) -> Any:
    yield
    with server.client(password=SECRET) as client:
        try:
            client.config_set("requirepass", "")
        except redis.AuthenticationError:
            pass  # the test did not close it


ENCODED: dict[str, Callable[[Server], Any]] = {
    "URL": lambda server: f"redis://:{QUOTED}@127.0.0.1:{server.port}",
    "URL with a user": lambda server: (
        f"redis://{quote(USER)}:{QUOTED}@127.0.0.1:{server.port}/0"
    ),
    "URL of a socket": lambda server: f"unix://:{QUOTED}@{server.socket_path}",
    "option of a URL": lambda server: f"redis://127.0.0.1:{server.port}?password={QUOTED}",
    "option": lambda server: {"server": f"127.0.0.1:{server.port}", "password": SECRET},
    "option with a user": lambda server: {
        "server": f"127.0.0.1:{server.port}", "password": SECRET, "username": USER,
    },
    "option with a socket": lambda server: {"sock": server.socket_path, "password": SECRET},
    "client": lambda server: redis.Redis(port=server.port, password=SECRET),
}  # fmt: skip


@pytest.mark.parametrize("form", ENCODED)
def test_any_password_works(guarded: Server, form: str, caplog: pytest.LogCaptureFixture) -> None:
    """Encoded in a URL, verbatim in an option; nothing of it is shown or logged."""
    caplog.set_level(logging.DEBUG)
    with JobQueue(ENCODED[form](guarded)) as queue:
        assert queue.ping()
        shown = "".join(map(repr, (queue, queue._driver, queue._driver.address, queue.server)))
    assert not leaks(shown + caplog.text)


RAW = [
    f"redis://:{SECRET}@localhost:6379/0",
    f"redis://{USER}:{SECRET}@localhost:6379/0",
    f"redis://:{SECRET}@localhost",
    "redis://:p@ss:w/rd@localhost:6379",
    "redis://:p@ss:w#rd@localhost:6379",
    "redis://:p@ss:w?rd=1@localhost:6379",
    "redis://:p@ss:w[rd@localhost:6379",
    f"redis:{SECRET}@localhost:6379",
    f"p@ss:w//{SECRET}://localhost",
    "p@ss:w@localhost:6379",
    ":p@ss:w@localhost",
    "localhost:6379@p@ss:w",
]


@pytest.mark.parametrize("which", range(len(RAW)))
def test_raw_password_is_a_clear_error(which: int) -> None:
    """A password that should have been encoded is an error that says so and does not show it."""
    with pytest.raises(ArgumentError) as caught:
        JobQueue.from_env({"REDIS_URL": RAW[which]})
    assert not leaks(str(caught.value))
    with pytest.raises(ArgumentError) as caught:
        JobQueue(RAW[which])
    assert not leaks(str(caught.value))
    if "://" in RAW[which][:10]:
        assert "percent-encoded" in str(caught.value)


FAILING: dict[str, tuple[Callable[[], JobQueue], type[Exception], str]] = {
    "nobody there": (
        lambda: JobQueue(f"redis://:{QUOTED}@127.0.0.1:1"), NetworkError, "refused"
    ),
    "no such host": (
        lambda: JobQueue(f"redis://{quote(USER)}:{QUOTED}@no.such.host.invalid"),
        NetworkError, "Could not connect",
    ),
    "nobody there, dict": (
        lambda: JobQueue({"server": "127.0.0.1:1", "password": SECRET, "reconnect": 0}),
        NetworkError, "refused",
    ),
    "no socket": (
        lambda: JobQueue({"sock": "/no/such", "password": SECRET, "reconnect": 0}),
        NetworkError, "No such file",
    ),
    "no sentinel": (
        lambda: JobQueue({"sentinels": ["127.0.0.1:1"], "service": "s", "reconnect": 0,
                          "password": SECRET, "sentinels_password": SECRET}),
        NetworkError, "no sentinel",
    ),
    "environment": (
        lambda: JobQueue.from_env({"REDIS_PORT": "1", "REDIS_PASS": SECRET}),
        NetworkError, "refused",
    ),
    "environment, URL": (
        lambda: JobQueue.from_env({"REDIS_URL": f"redis://:{QUOTED}@127.0.0.1:1"}),
        NetworkError, "refused",
    ),
    "option unknown": (
        lambda: JobQueue({"server": "localhost", "passwort": SECRET}), ArgumentError, "passwort"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_failures_do_not_show_it(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """No failure to connect shows the password, not even a traceback with all locals."""
    caplog.set_level(logging.DEBUG)
    make, kind, words = FAILING[case]
    shown = traceback_of(make, kind, words)
    assert not leaks(shown + caplog.text)


@pytest.mark.parametrize("form", ["URL", "URL with a user", "option", "URL of a socket", "client"])
def test_refused_log_in_does_not_show_it(guarded: Server, form: str) -> None:
    """A wrong password is RedisError, at once, and neither the right nor the wrong one is shown."""
    with guarded.client(password=SECRET) as client:
        client.config_set("requirepass", "another")
        client.execute_command("ACL", "SETUSER", USER, "resetpass", ">another")
        try:
            shown = traceback_of(lambda: JobQueue(ENCODED[form](guarded)), RedisError, "WRONGPASS")
        finally:
            client.config_set("requirepass", SECRET)
    assert not leaks(shown)
    assert "another" not in shown


def test_missing_log_in_says_so(guarded: Server) -> None:
    """Without a password the server's own words are the error, with code 6."""
    address = f"127.0.0.1:{guarded.port}"
    with pytest.raises(RedisError, match="NOAUTH"):
        JobQueue(address)
    queue = JobQueue(address, check_maxmemory=False)
    for _ in range(2):
        with pytest.raises(RedisError, match="NOAUTH"):
            queue.queue_length("q")
        assert (6, "Redis error") == (queue.last_errorcode, queue.last_error)
        assert not queue.ping()
    with guarded.client(password=SECRET) as client:
        client.config_set("requirepass", "")
    assert 0 == queue.queue_length("q")


def test_needless_log_in_works(server: Server) -> None:
    """A server without a password says that it has none; the words are the server's."""
    with pytest.raises(RedisError, match="ERR|WRONGPASS") as caught:
        JobQueue(f"redis://:{QUOTED}@127.0.0.1:{server.port}")
    assert not leaks(str(caught.value))


def test_sentinel_that_wants_a_password(
    guarded: Server, make_server: Callable[..., Server]
) -> None:
    """Sentinel and server have their own passwords; a wrong one is not shown."""
    master = make_server(requirepass=SECRET)
    with Sentinel.make(master.version_name, master=master, requirepass="other") as sentinel:
        assert isinstance(sentinel, Sentinel)
        asked = {"sentinels": [sentinel.name], "service": SERVICE, "reconnect": 0}
        with JobQueue({**asked, "password": SECRET, "sentinels_password": "other"}) as queue:
            assert queue.ping()
        shown = traceback_of(
            lambda: JobQueue({**asked, "password": SECRET, "sentinels_password": SECRET}),
            NetworkError, SERVICE,
        )  # fmt: skip
        assert not leaks(shown)


def traceback_of(make: Callable[[], JobQueue], kind: type[Exception], words: str) -> str:
    """Return the traceback of what this raises, with the locals of all frames but ours."""
    with pytest.raises(kind, match=words) as caught:
        make()
    assert caught.value.__traceback__ is not None
    whole = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    part: traceback.TracebackException | None = whole
    while part is not None:
        for frame in part.stack:
            if frame.filename == __file__:
                frame.locals = None
        part = part.__cause__ or part.__context__
    return "".join(whole.format())


def leaks(text: str) -> bool:
    """Tell whether a part of the password is in a text."""
    return any(part in text for part in (SECRET, QUOTED, "p@ss", "p%40ss", "w/rd", "%41+"))
