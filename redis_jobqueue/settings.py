"""The server that the environment names; a setting that cannot be used raises."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import attrs

from redis_jobqueue.address import (
    DEFAULT_PORT,
    DEFAULT_SERVER,
    Address,
    discreet,
    is_tls,
    refused,
    server_address,
    url_address,
)

_YES = {"true", "1", "yes", "on"}
_NO = {"false", "0", "no", "off"}
_MOST = 65535
"""A port, and more connections than a process may open."""


def verify_setting(value: str | None, name: str) -> bool | None:
    """Read a yes or no; None if it is unset or empty.

    A misspelt "off" must not read as "on", so anything else raises (rule of
    the recovery model).

    Raises:
        ArgumentError: code 0.
    """
    if not value:
        return None
    given = value.strip().lower()
    if given in _YES:
        return True
    if given in _NO:
        return False
    raise refused(f"{name} must be true, 1, yes or on, or false, 0, no or off")


def _whole(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        number = 0
    if not 0 < number <= _MOST:
        raise refused(f"{name} must be a whole number from 1 to {_MOST}")
    return number


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    value = environ.get(name)
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise refused(f"{name} must be a number of seconds, 0 or more")
    return number


@discreet
def address_from_env(environ: Mapping[str, str]) -> Address:
    """Read the address from the environment; see `JobQueue.from_env`."""
    commands = _seconds(environ, "REDIS_COMMAND_TIMEOUT", 5.0)
    rest: dict[str, Any] = {
        "pool_size": _whole(environ, "REDIS_POOL_SIZE", 500),
        "pool_timeout": _seconds(environ, "REDIS_POOL_TIMEOUT", 2.0),
        "connection_timeout": _seconds(environ, "REDIS_CONNECT_TIMEOUT", 5.0),
        "operation_timeout": _seconds(environ, "REDIS_OPERATION_TIMEOUT", commands),
    }
    verify = verify_setting(environ.get("REDIS_TLS_VERIFY"), "REDIS_TLS_VERIFY")
    url = environ.get("REDIS_URL")
    if not url:
        host = environ.get("REDIS_HOST") or DEFAULT_SERVER
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        found = server_address(f"{host}:{_whole(environ, 'REDIS_PORT', DEFAULT_PORT)}", **rest)
        password = environ.get("REDIS_PASS")
        more = {"password": password} if password else {}
        return attrs.evolve(found, settings={**found.settings, **more})
    found = url_address(url, **rest)
    if not is_tls(found.settings):
        return found
    tls: dict[str, Any] = {}
    if verify is False:
        tls.update(ssl_cert_reqs="none", ssl_check_hostname=False)
    elif verify:
        tls.update(ssl_cert_reqs="required", ssl_check_hostname=True)
    if ca_file := environ.get("REDIS_CA_FILE"):
        if not os.path.isfile(ca_file):
            raise refused(f"REDIS_CA_FILE names no file: {ca_file}")
        tls["ssl_ca_certs"] = ca_file
    return attrs.evolve(found, settings={**found.settings, **tls})
