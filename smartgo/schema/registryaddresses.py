"""Addresses of registries in the forms that people write."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from smartgo.errors import SettingError
from smartgo.schema.address import parse_address

REGISTRY_PORT: Final = 9876
"""The port of a registry where none is given, as RocketMQ's name server has it."""

_SCHEMES: Final = ("rocketmq://", "http://", "tcp://")


def registry_addresses(registries: str | Sequence[str]) -> tuple[str, ...]:
    """
    Return C{host:port} of each registry. A port that is missing is 9876; the schemes C{rocketmq}, C{tcp} and C{http}
    are dropped.

        >>> registry_addresses("localhost; rocketmq://10.0.0.2:9877")
        ('localhost:9876', '10.0.0.2:9877')

    @param registries: a sequence, or a text with semicolons or commas between them.
    @raise SettingError: there is none, or one cannot be read.
    """
    if isinstance(registries, str):
        registries = [one for one in registries.replace(",", ";").split(";") if one.strip()]
    found = tuple(_address(one) for one in registries)
    if not found:
        raise SettingError("no registry is given: give HOST:PORT of at least one")
    return found


def _address(text: str) -> str:
    """@raise SettingError: it is no address."""
    if not isinstance(text, str):
        raise SettingError(f"registry: an address is a str such as '127.0.0.1:{REGISTRY_PORT}', not {text!r}")
    rest = text.strip()
    for scheme in _SCHEMES:
        if rest.lower().startswith(scheme):
            rest = rest[len(scheme) :].removesuffix("/")
            break
    if "://" in rest:
        raise SettingError(f"registry: {text!r} has an unknown scheme: give HOST:PORT; TLS is a setting of the client")
    if any(one in rest for one in "/?#@"):
        raise SettingError(f"registry: {text!r} is not an address of the form host:port: it has a path or a user")
    try:
        if ipaddress.ip_address(rest).version == 6:
            rest = f"[{rest}]"
    except ValueError:
        pass
    if ":" not in rest.rpartition("]")[2]:
        rest = f"{rest}:{REGISTRY_PORT}"
    try:
        parse_address(rest)
    except ValueError as error:
        raise SettingError(f"registry: {error}") from None
    return rest
