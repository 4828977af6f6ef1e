"""Addresses as text: C{host:port}, an IPv6 address in brackets."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")
"""A host's name."""


def is_address(text: str) -> bool:
    """Return whether this is C{host:port} in its strict form, as settings take it."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return False
    if HOST.match(host):
        return True
    try:
        return host.startswith("[") and host.endswith("]") and bool(ipaddress.IPv6Address(host[1:-1]))
    except ValueError:
        return False


def parse_address(address: str) -> tuple[str, int]:
    """
    Split C{host:port} as other processes tell it: an IPv6 address may lack its brackets, and a host may be any word.

    @raise ValueError: it is no address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(ip: str) -> bool:
    """
    Return whether this is an IP address of this machine alone, with a zone (C{%lo}) or without. A name is no address.

    >>> [is_loopback(ip) for ip in ("127.9.9.9", "::1", "::ffff:127.0.0.1", "192.0.2.1", "localhost")]
    [True, True, True, False, False]
    """
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine reaches this host: a loopback address, or the name C{localhost}."""
    return host == "localhost" or is_loopback(host)
