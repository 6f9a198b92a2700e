"""Where the server is, as settings for redis-py, and the pool that they make.

Here are the forms that are text: ``host:port``, the path of a socket, a URL.
`options` has the others.  A pool made here is ours alone: no setting of a
client that was handed in, and no default of redis-py, decides how we decode,
retry or wait.
"""

from __future__ import annotations

import functools
import inspect
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import attrs
import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import (
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.retry import Retry

from redis_jobqueue.errors import E_NO_ERROR, ArgumentError

DEFAULT_SERVER = "localhost"
DEFAULT_PORT = 6379
DEFAULT_CONNECTION_TIMEOUT = 0.1
"""Seconds to connect, for a queue made from a dict; others wait without limit, as in Perl."""
DEFAULT_OPERATION_TIMEOUT = 1
"""Seconds to read or write, for a queue made from a dict."""

_FOREVER = 10.0**6
"""Seconds to connect where there is no limit: redis-py would read None as the other timeout."""
_MANY = 1 << 31
"""Connections of a pool: redis-py 8 would stop at 100."""

_TLS_TEXTS = {"ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
_TLS_OPTIONS = _TLS_TEXTS | {"ssl_check_hostname"}
_TEXTS = _TLS_TEXTS | {"client_name", "username", "password"}
_URL_OPTIONS = _TEXTS | _TLS_OPTIONS | {"db"}
_SCHEMES = ("redis", "rediss", "unix", "embedded")

T = TypeVar("T")


def refused(message: str) -> ArgumentError:
    """Make the error of an attribute of JobQueue that does not fit: code 0, as in Perl."""
    return ArgumentError(message, code=E_NO_ERROR)


def discreet(read: Callable[[T], Address]) -> Callable[[T], Address]:
    """Raise the refusals of ``read`` without its frames, in which a password may be seen."""

    @functools.wraps(read)
    def call(where: T) -> Address:
        try:
            return read(where)
        except ArgumentError as error:
            refusal = error.with_traceback(None)
        del where
        raise refusal

    return call


@attrs.frozen(slots=True, repr=False)
class Address:
    """A server, and how to make a pool of connections to it.

    Attributes:
        server: ``host:port``, or the path of a socket: what messages show.
        host, port: its parts; None for a socket, or if Sentinel finds the host.
        settings: keyword arguments of redis-py's connection class; they may
            hold a password.
        pool_size: connections at most, None for no limit.
        pool_timeout: seconds to wait for a free one.
        reconnect: seconds for which a lost connection is made anew without an
            error (Perl: a queue made from a hash); 0 for not at all.
        every: seconds between two attempts at that.
        connection_timeout, operation_timeout: seconds as this form gives them, or None.
        make_pool: makes the pool out of settings; Sentinel has its own.
        renew: gives settings that may have changed since, before each new pool.
    """

    server: str
    host: str | None
    port: int | None
    settings: Mapping[str, Any]
    pool_size: int | None = None
    pool_timeout: float = 2.0
    reconnect: float = 0
    every: float = 0.05
    connection_timeout: float | None = None
    operation_timeout: float | None = None
    make_pool: Callable[..., ConnectionPool] = ConnectionPool
    renew: Callable[[], Mapping[str, Any]] = dict

    def __repr__(self) -> str:
        return f"Address({self.server!r})"

    @property
    def db(self) -> int:
        """The number of the database."""
        return int(self.settings.get("db") or 0)

    def pool(self, connection_timeout: float | None, operation_timeout: float | None) -> Any:
        """Make a pool of connections with these timeouts in seconds; None is no limit."""
        settings = {
            **self.settings,
            **self.renew(),
            **PLAIN,
            "socket_timeout": min(operation_timeout, _FOREVER) if operation_timeout else None,
            "socket_connect_timeout": min(connection_timeout or _FOREVER, _FOREVER),
        }
        connection = settings.pop("connection_class", redis.Connection)
        if issubclass(connection, SSLConnection):
            settings["redis_connect_func"] = settle
        if not issubclass(connection, UnixDomainSocketConnection):
            # Idle connections through a dead firewall are noticed by the kernel.
            settings.update(socket_keepalive=True, socket_keepalive_options=_KEEPALIVE)
        return self.make_pool(connection_class=connection, max_connections=_MANY, **settings)


_TAKEN = {
    name for part in redis.Connection.__mro__ if part is not object
    for name in inspect.signature(part.__init__).parameters  # type: ignore[misc]
}  # fmt: skip
# CLIENT SETINFO at each connect is two commands that nobody here reads.
_QUIET = {"driver_info"} & _TAKEN or {"lib_name", "lib_version"} & _TAKEN

PLAIN: Mapping[str, Any] = {
    "decode_responses": False,
    "protocol": 2,
    "health_check_interval": 0,
    "retry": Retry(NoBackoff(), 0),
    **dict.fromkeys(_QUIET),
}
"""A connection as we want it: it sends what it is told, once, and nothing of its own."""


def settle(connection: Any) -> None:
    """Log in on a new TLS connection, and read what TLS itself sends behind its handshake.

    redis-py 8 would take that for a reply that nobody has read.
    """
    connection.on_connect()
    connection.send_command("PING", check_health=False)
    try:
        connection.read_response()
    except exceptions.ResponseError:
        pass  # not allowed: an answer all the same


_KEEPALIVE = {
    getattr(socket, name): value
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    )
    if hasattr(socket, name)
}


def server_address(name: str, **rest: Any) -> Address:
    """Read ``host[:port]``, ``[IPv6]:port``, or the path of a socket.

    Raises:
        ArgumentError: code 0; it is none of these.
    """
    if not name or any(c.isspace() or not c.isprintable() for c in name):
        raise refused("redis must be 'host:port' or a URL, not an empty text or one with spaces")
    if name.startswith("/"):
        return socket_address(name, {}, **rest)
    if "@" in name:
        raise refused("a password cannot stand in 'host:port'; use a redis:// URL or a dict")
    host, colon, port = name.rpartition(":")
    if not colon or name.endswith("]") or _is_ipv6(name):
        host, port = name, str(DEFAULT_PORT)
    if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise refused(f"the port of the server must be a number from 1 to 65535: {name!r}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare and not _is_ipv6(bare) or not bare and host:
        raise refused(f"the host of the server is neither a name nor an address: {name!r}")
    bare = bare or DEFAULT_SERVER
    shown = f"[{bare}]" if ":" in bare else bare
    return Address(
        f"{shown}:{int(port)}", bare, int(port), {"host": bare, "port": int(port)}, **rest
    )


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def socket_address(path: str, settings: Mapping[str, Any], **rest: Any) -> Address:
    """Give the address of a unix socket."""
    if not path or "\0" in path:
        raise refused("the path of the socket must not be empty or hold a NUL")
    return Address(
        path, None, None,
        {**settings, "path": path, "connection_class": UnixDomainSocketConnection}, **rest,
    )  # fmt: skip


def url_address(url: str, **rest: Any) -> Address:
    """Read a ``redis://``, ``rediss://``, ``unix://`` or ``embedded://`` URL.

    Raises:
        ArgumentError: code 0; it cannot be used.  The message shows nothing
            of the URL, which may hold a password.
    """
    scheme, _, tail = url.partition("://")
    scheme = scheme.lower()
    if scheme not in _SCHEMES:
        shown = f", not {scheme}://" if re.fullmatch("[a-z][a-z0-9+.-]{0,15}", scheme) else ""
        raise refused(
            f"a URL must start with redis://, rediss://, unix:// or embedded://{shown}"
        )
    if scheme == "embedded":
        return _embedded(url, **rest)
    url = f"{scheme}://{tail}"
    settings = _url_settings(url, scheme)
    if scheme == "unix":
        return socket_address(settings.pop("path", ""), settings, **rest)
    host, port = settings["host"], settings.get("port", DEFAULT_PORT)
    named = server_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return attrs.evolve(named, settings={**settings, **named.settings}, **rest)


def _url_settings(url: str, scheme: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url("its port or host is malformed") from None
    if "#" in url:
        raise _bad_url("it holds a '#'")
    if scheme != "unix":
        if not parts.hostname:
            raise _bad_url("it names no host")
        if port == 0:
            raise _bad_url("its port is 0")
        if not re.fullmatch("/?[0-9]*/?", parts.path):
            raise _bad_url("its path is not the number of a database")
    options = parse_qs(parts.query, keep_blank_values=True)
    _check_options(options, scheme)
    try:
        settings: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError:
        raise _bad_url("an option behind '?' has no good value") from None
    # redis-py before 8 decodes these twice.
    settings.update((name, options[name][0]) for name in _TEXTS & set(options))
    if scheme == "rediss":
        # redis-py before 6 does not look at the name in a certificate unless told to.
        settings.setdefault("ssl_check_hostname", settings.get("ssl_cert_reqs") != "none")
    return settings


def _check_options(options: Mapping[str, list[str]], scheme: str) -> None:
    if not set(options) <= _URL_OPTIONS:
        raise _bad_url("an option behind '?' is unknown")
    if scheme != "rediss" and set(options) & _TLS_OPTIONS:
        raise _bad_url("options of TLS need rediss://")
    if not set(options.get("ssl_cert_reqs", ())) <= {"none", "optional", "required"}:
        raise _bad_url("ssl_cert_reqs is none, optional or required")


def _bad_url(why: str) -> ArgumentError:
    return refused(
        f"the redis URL cannot be used: {why}; user name and password must be percent-encoded"
    )


def _embedded(url: str, **rest: Any) -> Address:
    from redis_jobqueue import embedded

    def renew() -> dict[str, Any]:
        # Starts it anew where it was killed, and counts a forked child as a user.
        return {"path": _url_settings(embedded.address(url), "unix")["path"]}

    return socket_address(renew()["path"], {}, renew=renew, **rest)


def is_tls(settings: Mapping[str, Any]) -> bool:
    """Tell whether these settings make TLS connections."""
    kind = settings.get("connection_class")
    return kind is not None and issubclass(kind, SSLConnection)
