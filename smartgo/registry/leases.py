"""
Leases: how a master proves that it already had its name when its connection to the registry was lost.

A registry knows a master by its connection. When that ends another broker may have the name after 10 s, and after a
restart the registry knows nobody. Whoever registers the name first then would keep the true master out. So each answer
to a registration holds a lease, which the master shows with its next registration::

    SINCE.ISSUED.MAC   two times in ms of the wall clock, hexadecimal; the HMAC-SHA256 of these, name and address

A lease counts for 120 s, as long as a name is kept for a silent broker (reliability H6). It takes the name back from
whoever has had it for a shorter time. A broker that was away for longer, or was started anew, has none.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

import msgspec

LIFETIME: Final = 120_000
"""Milliseconds for which a lease counts."""
KEY_SIZE: Final = 32
"""Bytes of the registry's key."""

_FORM: Final = re.compile(r"([0-9a-f]{1,12})\.([0-9a-f]{1,12})\.([0-9a-f]{64})")


class LeaseKey(msgspec.Struct):
    """The registry's secret as it is kept in a file, so that leases outlast a restart."""

    key: str
    """Hexadecimal."""


def read_key(data: bytes) -> bytes:
    """
    Read the key file.

    @raise ValueError: it holds no key.
    """
    key = bytes.fromhex(msgspec.json.decode(data, type=LeaseKey).key)
    if len(key) != KEY_SIZE:
        raise ValueError(f"a key has {KEY_SIZE} bytes")
    return key


class Leases:
    """Leases of one registry."""

    def __init__(self, key: bytes, wall_ms: Callable[[], int]) -> None:
        """
        @param key: the registry's secret; may be set anew before the first lease is granted.
        @param wall_ms: the wall clock.
        """
        self.key = key
        self.wall_ms = wall_ms

    def grant(self, name: str, address: str, since_ms: int) -> str:
        """
        Return a lease that is valid from now on.

        @param since_ms: since when this process is the master.
        """
        times = f"{since_ms:x}.{self.wall_ms():x}"
        return f"{times}.{self._mac(times, name, address)}"

    def since(self, lease: str | None, name: str, address: str) -> int | None:
        """Return since when its owner is the master, in ms of the wall clock; C{None} where it does not count."""
        found = _FORM.fullmatch(lease or "")
        if found is None:
            return None
        since, issued = int(found[1], 16), int(found[2], 16)
        good = self._mac(f"{found[1]}.{found[2]}", name, address)
        if not hmac.compare_digest(good, found[3]) or not 0 <= self.wall_ms() - issued <= LIFETIME:
            return None
        return since

    def _mac(self, times: str, name: str, address: str) -> str:
        text = "\0".join((times, name, address)).encode("utf-8", "surrogatepass")
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()
