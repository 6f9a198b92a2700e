"""The forms of the constructor's ``redis`` argument that are no text.

A dict of the options of Perl's ``Redis->new``, Sentinel among them, and a
ready redis-py client.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import redis
from redis.connection import ConnectionPool, SSLConnection
from redis.sentinel import Sentinel, SentinelConnectionPool

from redis_jobqueue.address import (
    DEFAULT_CONNECTION_TIMEOUT,
    DEFAULT_OPERATION_TIMEOUT,
    DEFAULT_PORT,
    DEFAULT_SERVER,
    PLAIN,
    Address,
    discreet,
    is_tls,
    refused,
    server_address,
    settle,
    socket_address,
    url_address,
)


@discreet
def address_of(where: Any) -> Address:
    """Read any form of the constructor's ``redis`` argument.

    Raises:
        ArgumentError: code 0; the form is unknown or cannot be used.  The
            message never holds a password.
    """
    if where is None:
        return server_address(f"{DEFAULT_SERVER}:{DEFAULT_PORT}")
    if isinstance(where, str):
        return url_address(where) if "://" in where else server_address(where)
    if isinstance(where, Mapping):
        return _from_perl(where)
    pool = getattr(where, "connection_pool", None)
    if isinstance(where, redis.Redis) and isinstance(pool, ConnectionPool):
        return _from_client(pool)
    raise refused(
        "redis must be 'host:port', a URL, a dict, a redis.Redis client or a JobQueue, not "
        f"{type(where).__name__}"
    )


# Perl's Redis->new: the name of an option, and what it is for redis-py.
_TEXTS = {
    "password": "password",
    "username": "username",
    "name": "client_name",
    "SSL_ca_file": "ssl_ca_certs",
    "SSL_cert_file": "ssl_certfile",
    "SSL_key_file": "ssl_keyfile",
}
_SENTINEL_TEXTS = {"sentinels_username": "username", "sentinels_password": "password"}
_SECONDS = {"cnx_timeout", "read_timeout", "write_timeout", "sentinels_cnx_timeout",
            "sentinels_read_timeout", "sentinels_write_timeout"}  # fmt: skip
# These say nothing that matters here: nothing is ever sent twice, and text is octets.
_IDLE = {"conservative_reconnect", "debug", "encoding", "no_auto_connect_on_new",
         "no_sentinels_list_update"}  # fmt: skip
_OTHERS = {"server", "sock", "db", "reconnect", "every", "ssl", "SSL_verify_mode", "sentinels",
           "service"}  # fmt: skip
_ALL = {*_TEXTS, *_SENTINEL_TEXTS, *_SECONDS, *_IDLE, *_OTHERS}


def _from_perl(given: Mapping[str, Any]) -> Address:
    unknown = sorted(str(name) for name in given if name not in _ALL)
    if unknown:
        raise refused(f"unknown option of redis: {', '.join(unknown)}")
    settings = _texts(given, _TEXTS)
    if given.get("db") is not None:
        settings["db"] = int(_number(given, "db", 0))
    if given.get("ssl"):
        settings.update(connection_class=SSLConnection, ssl_check_hostname=True)
        if "SSL_verify_mode" in given and not given["SSL_verify_mode"]:
            settings.update(ssl_cert_reqs="none", ssl_check_hostname=False)
    elif any(name.startswith("ssl_") for name in settings):
        raise refused("SSL_ca_file, SSL_cert_file and SSL_key_file need ssl")
    rest: dict[str, Any] = {
        "reconnect": _number(given, "reconnect", 1),
        "every": max(_number(given, "every", 50_000) / 1e6, 0.001),
        "connection_timeout": _seconds(given, "cnx_timeout", DEFAULT_CONNECTION_TIMEOUT),
        "operation_timeout": _seconds(given, "read_timeout", DEFAULT_OPERATION_TIMEOUT),
    }
    if given.get("sentinels"):
        return _from_sentinels(given, settings, rest)
    if given.get("sock"):
        if is_tls(settings):
            raise refused("ssl does not go with sock")
        return socket_address(_text("sock", given["sock"]), settings, **rest)
    server = given.get("server")
    found = server_address(f"{DEFAULT_SERVER}:{DEFAULT_PORT}" if server is None
                           else _text("server", server))  # fmt: skip
    return attrs.evolve(found, settings={**found.settings, **settings}, **rest)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refused(f"option {name} of redis must be text, not {type(value).__name__}")
    return value


def _texts(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        ours: _text(name, given[name])
        for name, ours in names.items()
        if given.get(name) is not None
    }


def _number(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number < math.inf:
        raise refused(f"option {name} of redis must be a number, 0 or more")
    return number


def _seconds(given: Mapping[str, Any], name: str, default: float) -> float | None:
    # As for the attributes: None that was given is no limit.
    return None if given.get(name, default) is None else _number(given, name, default)


def _from_sentinels(given: Mapping[str, Any], settings: dict[str, Any], rest: Any) -> Address:
    service, names = given.get("service"), given["sentinels"]
    if not isinstance(service, str) or not service:
        raise refused("sentinels need the name of a service")
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise refused(f"sentinels must be a list of 'host:port', not {type(names).__name__}")
    hops = [server_address(_text("sentinels", name)) for name in names]
    if any(hop.host is None for hop in hops):
        raise refused("a sentinel must be named by 'host:port', not by a socket")
    secure = settings.pop("connection_class", None) is not None
    # A sentinel is asked as quickly, and as often, as Perl does: once.
    options = {
        **PLAIN,
        **{name: value for name, value in settings.items() if name.startswith("ssl_")},
        **_texts(given, _SENTINEL_TEXTS),
        "ssl": secure,
        "redis_connect_func": settle if secure else None,
        "socket_timeout": _seconds(given, "sentinels_read_timeout", DEFAULT_OPERATION_TIMEOUT),
        "socket_connect_timeout": _seconds(
            given, "sentinels_cnx_timeout", DEFAULT_CONNECTION_TIMEOUT
        ),
    }
    manager = Sentinel(  # type: ignore[no-untyped-call]
        [(hop.host, hop.port) for hop in hops], sentinel_kwargs=options
    )
    shown = f"{service} of {', '.join(hop.server for hop in hops)}"
    return _sentinel_address(shown, service, manager, secure, settings, **rest)


def _sentinel_address(
    shown: str, service: Any, manager: Any, secure: bool, settings: Mapping[str, Any], **rest: Any
) -> Address:
    def make_pool(connection_class: type, **kwargs: Any) -> ConnectionPool:
        if secure:
            kwargs["redis_connect_func"] = settle
        return SentinelConnectionPool(  # type: ignore[no-untyped-call]
            service, manager, ssl=secure, **kwargs
        )

    return Address(shown, None, None, settings, make_pool=make_pool, **rest)


def _borrowed(name: str) -> bool:
    # Where the server is and who we are; how it speaks, waits and retries is ours.
    return name in _WHERE or name.startswith("ssl_")


_WHERE = {"host", "port", "path", "db", "username", "password", "credential_provider",
          "client_name", "socket_type", "encoding"}  # fmt: skip


def _from_client(pool: ConnectionPool) -> Address:
    settings = {
        name: value for name, value in pool.connection_kwargs.items() if _borrowed(name)
    }
    if isinstance(pool, SentinelConnectionPool):
        secure = issubclass(pool.connection_class, SSLConnection)
        service, manager = pool.service_name, pool.sentinel_manager
        return _sentinel_address(str(service), service, manager, secure, settings)
    settings["connection_class"] = pool.connection_class
    if "path" in settings:
        return socket_address(settings.pop("path"), settings)
    host, port = settings.get("host", DEFAULT_SERVER), int(settings.get("port", DEFAULT_PORT))
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{shown}:{port}", host, port, settings)
