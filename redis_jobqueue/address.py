"""Where the server is: every form that the constructor takes, as settings for redis-py.

A pool made here is ours alone: a client that was handed in lends its address,
not its connections, so its own decoding, retries and timeouts cannot break us.
"""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.connection import (
    BlockingConnectionPool,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.retry import Retry

from redis_jobqueue.errors import E_NO_ERROR, ArgumentError
from redis_jobqueue.settings import setting_float, setting_int, verify_setting

DEFAULT_SERVER = "localhost"
DEFAULT_PORT = 6379
DEFAULT_CONNECTION_TIMEOUT = 0.1
"""Seconds to connect, for a queue made from a dict; others wait without limit, as in Perl."""
DEFAULT_OPERATION_TIMEOUT = 1
"""Seconds to read or write, for a queue made from a dict."""

_URL_OPTIONS = {"db", "ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile",
                "ssl_check_hostname", "client_name", "username", "password"}  # fmt: skip
# Settings of a client that was handed in which must not reach our connections.
_OURS = {"decode_responses", "retry", "retry_on_error", "retry_on_timeout", "protocol",
         "health_check_interval", "socket_timeout", "socket_connect_timeout", "parser_class",
         "encoder_class", "redis_connect_func", "command_packer", "event_dispatcher",
         "himport_registry", "maint_notifications_config", "maint_notifications_pool_handler",
         "oss_cluster_maint_notifications_handler", "lib_name", "lib_version",
         "driver_info", "connection_pool"}  # fmt: skip


def refused(message: str) -> ArgumentError:
    """Make the error of an attribute of JobQueue that does not fit: code 0, as in Perl."""
    return ArgumentError(message, code=E_NO_ERROR)


@attrs.frozen(slots=True, repr=False)
class Address:
    """A server, and how to make a pool of connections to it.

    Attributes:
        server: ``host:port``, or the path of a socket: what messages show.
        host, port, db: its parts; None for a socket, or if Sentinel finds the host.
        settings: keyword arguments of redis-py's connection class; they may
            hold a password.
        pool_size: connections at most, None for no limit.
        pool_timeout: seconds to wait for a free one.
        unseen: whether a connection that was lost while idle is made anew
            without an error (Perl: a queue made from a hash).
        connection_timeout, operation_timeout: seconds as this form gives them, or None.
        make_pool: makes the pool out of settings; Sentinel has its own.
    """

    server: str
    host: str | None
    port: int | None
    settings: Mapping[str, Any]
    pool_size: int | None = None
    pool_timeout: float = 2.0
    unseen: bool = False
    connection_timeout: float | None = None
    operation_timeout: float | None = None
    make_pool: Callable[..., ConnectionPool] = ConnectionPool

    def __repr__(self) -> str:
        return f"Address({self.server!r})"

    @property
    def db(self) -> int:
        """The number of the database."""
        return int(self.settings.get("db") or 0)

    def pool(self, connection_timeout: float | None, operation_timeout: float | None) -> Any:
        """Make a pool of connections with these timeouts in seconds; None is no limit."""
        settings = {
            # Idle connections through a dead firewall are noticed by the kernel.
            "socket_keepalive": True,
            "socket_keepalive_options": _KEEPALIVE,
            **self.settings,
            "decode_responses": False,
            "protocol": 2,
            "health_check_interval": 0,
            "socket_timeout": operation_timeout or None,
            "socket_connect_timeout": connection_timeout or None,
        }
        settings.setdefault("retry", Retry(NoBackoff(), 0))
        connection = settings.pop("connection_class", redis.Connection)
        if issubclass(connection, UnixDomainSocketConnection):
            settings.pop("socket_keepalive"), settings.pop("socket_keepalive_options")
            if "socket_connect_timeout" not in _parameters(connection):
                settings.pop("socket_connect_timeout")
        settings.update((name, None) for name in _QUIET)
        if self.pool_size is None:
            return self.make_pool(connection_class=connection, **settings)
        return BlockingConnectionPool(  # type: ignore[no-untyped-call]
            max_connections=self.pool_size,
            timeout=self.pool_timeout,
            connection_class=connection,
            **settings,
        )


def _parameters(connection: type) -> set[str]:
    return {
        name for part in connection.__mro__ if part is not object
        for name in inspect.signature(part.__init__).parameters  # type: ignore[misc]
    }  # fmt: skip


# CLIENT SETINFO at each connect is two commands that nobody here reads.
_QUIET = {"driver_info"} & _parameters(redis.Connection) or {"lib_name", "lib_version"} & (
    _parameters(redis.Connection)
)
_KEEPALIVE = {
    getattr(socket, name): seconds
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}


def address_of(where: Any) -> Address:
    """Read any form of the constructor's ``redis`` argument.

    Raises:
        ArgumentError: code 0; the form is unknown or cannot be used.  The
            message never holds a password.
    """
    if where is None:
        return _server(f"{DEFAULT_SERVER}:{DEFAULT_PORT}")
    if isinstance(where, str):
        return _url(where) if "://" in where else _server(where)
    if isinstance(where, Mapping):
        return _mapping(where)
    pool = getattr(where, "connection_pool", None)
    if isinstance(where, redis.Redis) and isinstance(pool, ConnectionPool):
        return _client(pool)
    raise refused(
        "redis must be 'host:port', a URL, a dict, a redis.Redis client or a JobQueue, not "
        f"{type(where).__name__}"
    )


def _server(name: str) -> Address:
    if not name or any(c.isspace() for c in name):
        raise refused("redis must be 'host:port' or a URL, not an empty text or one with spaces")
    if name.startswith("/"):
        return _socket(name, {})
    host, colon, port = name.rpartition(":")
    if not colon or name.endswith("]"):
        host, port = name, str(DEFAULT_PORT)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise refused(f"the port of the server must be a number from 1 to 65535: {name!r}")
    if "@" in host:
        raise refused("a password cannot stand in 'host:port'; use a redis:// URL or a dict")
    host = host or DEFAULT_SERVER
    return Address(f"{host}:{port}", host, int(port), {"host": host.strip("[]"), "port": int(port)})


def _socket(path: str, settings: Mapping[str, Any], **rest: Any) -> Address:
    return Address(
        path, None, None,
        {**settings, "path": path, "connection_class": UnixDomainSocketConnection}, **rest,
    )  # fmt: skip


def _url(url: str, **rest: Any) -> Address:
    scheme = url.partition("://")[0].lower()
    if scheme == "embedded":
        from redis_jobqueue import embedded

        url = embedded.address(url)
    elif scheme not in ("redis", "rediss", "unix"):
        raise refused(
            f"a URL must start with redis://, rediss://, unix:// or embedded://, not {scheme!r}"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url("its port or host is malformed") from None
    if parts.fragment or "#" in url:
        raise _bad_url("it holds a '#'")
    if not set(parse_qs(parts.query, keep_blank_values=True)) <= _URL_OPTIONS:
        raise _bad_url("an option behind '?' is unknown")
    if parts.scheme != "unix" and not parts.hostname:
        raise _bad_url("it names no host")
    if parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdigit():
        raise _bad_url("its path is not the number of a database")
    if port == 0:
        raise _bad_url("its port is 0")
    try:
        settings: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError:
        raise _bad_url("redis-py cannot read it") from None
    if parts.scheme == "unix":
        return _socket(settings.pop("path"), settings, **rest)
    host, port = settings["host"], settings.setdefault("port", DEFAULT_PORT)
    return Address(f"{host}:{port}", host, port, settings, **rest)


def _bad_url(why: str) -> ArgumentError:
    return refused(
        f"the redis URL cannot be used: {why}; user name and password must be percent-encoded"
    )


# Perl's Redis->new: the name of an option, and what it means here.
_RENAMED = {
    "password": "password",
    "username": "username",
    "name": "client_name",
    "db": "db",
    "SSL_ca_file": "ssl_ca_certs",
    "SSL_cert_file": "ssl_certfile",
    "SSL_key_file": "ssl_keyfile",
}
_OPTIONS = {
    *_RENAMED, "server", "sock", "reconnect", "every", "cnx_timeout", "read_timeout",
    "write_timeout", "ssl", "SSL_verify_mode", "sentinels", "service", "sentinels_cnx_timeout",
    "sentinels_read_timeout", "sentinels_write_timeout", "sentinels_username",
    "sentinels_password", "conservative_reconnect", "debug", "encoding", "no_auto_connect_on_new",
}  # fmt: skip


def _mapping(given: Mapping[str, Any]) -> Address:
    unknown = sorted(str(name) for name in given if name not in _OPTIONS)
    if unknown:
        raise refused(f"unknown option of redis: {', '.join(unknown)}")
    settings: dict[str, Any] = {
        ours: given[name] for name, ours in _RENAMED.items() if given.get(name) is not None
    }
    if given.get("ssl"):
        settings["connection_class"] = SSLConnection
        if "SSL_verify_mode" in given and not given["SSL_verify_mode"]:
            settings.update(ssl_cert_reqs="none", ssl_check_hostname=False)
    window, every = given.get("reconnect", 1), given.get("every", 50)
    if window:
        pause = max(float(every) / 1000, 0.001)
        settings["retry"] = Retry(ConstantBackoff(pause), max(int(window / pause), 1))
    rest: dict[str, Any] = {
        "unseen": bool(window),
        "connection_timeout": given.get("cnx_timeout", DEFAULT_CONNECTION_TIMEOUT),
        "operation_timeout": given.get("read_timeout", DEFAULT_OPERATION_TIMEOUT),
    }
    if given.get("sentinels"):
        return _sentinel(given, settings, rest)
    if given.get("sock"):
        return _socket(str(given["sock"]), settings, **rest)
    server = given.get("server")
    if server is not None and not isinstance(server, str):
        raise refused(f"server must be text, not {type(server).__name__}")
    found = _server(server or f"{DEFAULT_SERVER}:{DEFAULT_PORT}")
    return attrs.evolve(found, settings={**found.settings, **settings}, **rest)


def _sentinel(given: Mapping[str, Any], settings: dict[str, Any], rest: Any) -> Address:
    from redis.sentinel import Sentinel, SentinelConnectionPool

    service = given.get("service")
    if not isinstance(service, str) or not service:
        raise refused("sentinels need the name of a service")
    hops = [_server(str(hop)) for hop in given["sentinels"]]
    options = {
        "socket_timeout": given.get("sentinels_read_timeout", DEFAULT_OPERATION_TIMEOUT),
        "socket_connect_timeout": given.get("sentinels_cnx_timeout", DEFAULT_CONNECTION_TIMEOUT),
        "username": given.get("sentinels_username"),
        "password": given.get("sentinels_password"),
        **{name: value for name, value in settings.items() if name.startswith("ssl_")},
    }
    secure = settings.pop("connection_class", None) is not None
    manager = Sentinel(  # type: ignore[no-untyped-call]
        [(hop.settings["host"], hop.port) for hop in hops],
        sentinel_kwargs={**options, "ssl": secure},
    )

    def make_pool(connection_class: type, **kwargs: Any) -> ConnectionPool:
        return SentinelConnectionPool(  # type: ignore[no-untyped-call]
            service, manager, ssl=secure, **kwargs
        )

    shown = f"{service} of {', '.join(hop.server for hop in hops)}"
    return Address(shown, None, None, settings, make_pool=make_pool, **rest)


def _client(pool: ConnectionPool) -> Address:
    settings = {
        name: value for name, value in pool.connection_kwargs.items() if name not in _OURS
    }
    manager = getattr(pool, "sentinel_manager", None)
    if manager is not None:
        service = pool.service_name  # type: ignore[attr-defined]
        secure = issubclass(pool.connection_class, SSLConnection)

        def make_pool(connection_class: type, **kwargs: Any) -> ConnectionPool:
            return type(pool)(service, manager, ssl=secure, **kwargs)

        return Address(str(service), None, None, settings, make_pool=make_pool)
    settings["connection_class"] = pool.connection_class
    if "path" in settings:
        return _socket(settings.pop("path"), settings)
    host, port = settings.get("host", DEFAULT_SERVER), int(settings.get("port", DEFAULT_PORT))
    return Address(f"{host}:{port}", host, port, settings)


def address_from_env(environ: Mapping[str, str] = os.environ) -> Address:
    """Read the address from the environment; see `JobQueue.from_env`."""
    number = partial(setting_float, environ)
    rest: dict[str, Any] = {
        "pool_size": setting_int(environ, "REDIS_POOL_SIZE", 500),
        "pool_timeout": number("REDIS_POOL_TIMEOUT", 2.0),
        "connection_timeout": number("REDIS_CONNECT_TIMEOUT", 5.0),
        "operation_timeout": number(
            "REDIS_OPERATION_TIMEOUT", number("REDIS_COMMAND_TIMEOUT", 5.0)
        ),
    }
    url = environ.get("REDIS_URL")
    if not url:
        host = environ.get("REDIS_HOST") or DEFAULT_SERVER
        port = setting_int(environ, "REDIS_PORT", DEFAULT_PORT)
        found = _server(f"{host}:{port}")
        password = environ.get("REDIS_PASS")
        more = {"password": password} if password else {}
        return attrs.evolve(found, settings={**found.settings, **more}, **rest)
    found = _url(url, **rest)
    verify = verify_setting(environ.get("REDIS_TLS_VERIFY"), "REDIS_TLS_VERIFY")
    tls: dict[str, Any] = {}
    if found.settings.get("connection_class") is SSLConnection:
        if verify is False:
            tls.update(ssl_cert_reqs="none", ssl_check_hostname=False)
        if ca_file := environ.get("REDIS_CA_FILE"):
            tls["ssl_ca_certs"] = ca_file
    return attrs.evolve(found, settings={**found.settings, **tls})
