"""TLS: the certificate and its name are checked unless somebody says otherwise."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import redis
from support.sentinel import SERVICE, Sentinel
from support.server import Server, free_port
from support.tls import Certificates

from redis_jobqueue import JobQueue, NetworkError

pytestmark = pytest.mark.connections


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    return Certificates.make(tmp_path_factory.mktemp("tls"))


def tls_server(certificate: str, key: str, ca: str, **options: Any) -> Server:
    """Return a server, not started, that also listens with TLS."""
    return Server.make(
        tls_port=free_port(), tls_cert_file=certificate, tls_key_file=key, tls_ca_cert_file=ca,
        tls_auth_clients="no", **options,
    )  # fmt: skip


@pytest.fixture(scope="session")
def secure(made: Certificates) -> Iterator[str]:
    """Return the ``host:port`` of a server that speaks TLS."""
    server = tls_server(made.cert, made.key, made.ca)
    try:
        server.__enter__()
    except RuntimeError:
        server.__exit__()
        pytest.skip("no Redis server with TLS on this machine")
    yield f"127.0.0.1:{server.options['tls_port']}"
    server.__exit__()


@pytest.fixture
def misnamed(made: Certificates, secure: str) -> Iterator[str]:
    """Return the ``host:port`` of one whose certificate is for another name."""
    with tls_server(made.elsewhere, made.elsewhere_key, made.ca) as server:
        yield f"127.0.0.1:{server.options['tls_port']}"


TRUSTED: dict[str, Callable[[str, Certificates], Any]] = {
    "URL": lambda place, made: f"rediss://{place}?ssl_ca_certs={quote(made.ca)}",
    "dict": lambda place, made: {"server": place, "ssl": 1, "SSL_ca_file": made.ca,
                                 "cnx_timeout": 5},
    "client": lambda place, made: redis.Redis.from_url(
        f"rediss://{place}", ssl_ca_certs=made.ca, ssl_check_hostname=True
    ),
}  # fmt: skip
UNCHECKED: dict[str, Callable[[str], Any]] = {
    "URL": lambda place: f"rediss://{place}?ssl_cert_reqs=none",
    "dict": lambda place: {"server": place, "ssl": 1, "SSL_verify_mode": 0, "cnx_timeout": 5},
}


@pytest.mark.parametrize("form", TRUSTED)
def test_trusted(secure: str, made: Certificates, form: str) -> None:
    """With the authority's certificate it works."""
    with JobQueue(TRUSTED[form](secure, made)) as queue:
        added = queue.add_job({"queue": form, "expire": 60, "workload": "x" * 100_000})
        taken = queue.get_next_job(form)
        assert taken is not None and added.id == taken.id and "x" * 100_000 == taken.workload


def test_blocking_wait(secure: str, made: Certificates) -> None:
    """A wait that is the first thing on its connection is not upset by what TLS itself sends."""
    with JobQueue(TRUSTED["URL"](secure, made), operation_timeout=0.5, timeout=20) as queue:
        taken: list[Any] = []
        waiting = threading.Thread(target=lambda: taken.append(queue.get_next_job("w", True)))
        with queue.redis as client:
            waiting.start()
            while not client.info("clients")["blocked_clients"]:
                pass
        queue.timeout = 1
        assert queue.get_next_job("nothing", blocking=True) is None
        added = queue.add_job({"queue": "w", "expire": 60})
        waiting.join(20)
        assert [added.id] == [job.id for job in taken]


def test_unknown_authority(secure: str) -> None:
    """A certificate of an authority that nobody knows is refused, and the reason is given."""
    for form in (f"rediss://{secure}", {"server": secure, "ssl": 1, "cnx_timeout": 5}):
        with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
            JobQueue(form)


def test_other_authority(secure: str, made: Certificates) -> None:
    """A certificate is refused where another authority is asked for."""
    with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
        JobQueue(f"rediss://{secure}?ssl_ca_certs={quote(made.stranger)}")


@pytest.mark.parametrize("form", ["URL", "dict", "client"])
def test_other_name(misnamed: str, made: Certificates, form: str) -> None:
    """A certificate for another name is refused, on every redis-py."""
    with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
        JobQueue(TRUSTED[form](misnamed, made))


@pytest.mark.parametrize("form", UNCHECKED)
def test_unchecked(misnamed: str, form: str) -> None:
    """Nothing is checked where the caller says so."""
    with JobQueue(UNCHECKED[form](misnamed)) as queue:
        assert queue.ping()


def test_environment(secure: str, misnamed: str, made: Certificates) -> None:
    """REDIS_CA_FILE and REDIS_TLS_VERIFY decide for a rediss:// URL, and only for one."""
    environ = {"REDIS_URL": f"rediss://{secure}"}
    with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
        JobQueue.from_env(environ)
    for verify in ("", "yes"):
        more = {"REDIS_CA_FILE": made.ca, "REDIS_TLS_VERIFY": verify}
        with JobQueue.from_env(environ | more) as queue:
            assert queue.ping()
        with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
            JobQueue.from_env({"REDIS_URL": f"rediss://{misnamed}"} | more)
    with JobQueue.from_env({"REDIS_URL": f"rediss://{misnamed}", "REDIS_TLS_VERIFY": "off"}) as one:
        assert one.ping()
    with pytest.raises(NetworkError, match="(?i)certificate verify failed"):
        JobQueue.from_env(
            {"REDIS_URL": f"rediss://{secure}?ssl_cert_reqs=none", "REDIS_TLS_VERIFY": "on"}
        )


def test_plain_client_of_a_tls_server(secure: str) -> None:
    """Without TLS nothing works, and nothing hangs."""
    with pytest.raises(NetworkError):
        JobQueue({"server": secure, "read_timeout": 5, "reconnect": 0})


def test_sentinel_with_tls(secure: str, made: Certificates) -> None:
    """The options of TLS reach the sentinels as well as the server."""
    with tls_server(made.cert, made.key, made.ca, requirepass="pw") as master:
        lines = [
            f"tls-port {free_port()}", f"tls-cert-file {made.cert}", f"tls-key-file {made.key}",
            f"tls-ca-cert-file {made.ca}", "tls-auth-clients no", "tls-replication yes",
        ]  # fmt: skip
        with Sentinel.make(
            master.version_name, master=master, master_port=master.options["tls_port"], lines=lines
        ):
            port = lines[0].split()[1]
            options = {
                "sentinels": [f"127.0.0.1:{port}"], "service": SERVICE, "password": "pw",
                "ssl": 1, "SSL_ca_file": made.ca, "cnx_timeout": 5, "sentinels_cnx_timeout": 5,
            }  # fmt: skip
            with JobQueue(options) as queue:
                assert queue.ping()
            with pytest.raises(NetworkError, match=SERVICE):
                JobQueue({**options, "SSL_ca_file": made.stranger, "reconnect": 0})
