"""
Patterns of addresses whose requests need no signature, as C{plain_acl.yml} writes them.

Source: C{RemoteAddressStrategyFactory} and C{AclUtils} of RocketMQ 4.9.7; docs/spec/reliability#X4. Two patterns differ
from RocketMQ's: one that every address matches is refused, and each part of a pattern counts (there, C{10.1.1-5.7}
matches C{10.1.2.99}, too).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

from smartgo.errors import SmartgoError

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""The lowest and the highest value of each part of an address: 4 parts of IPv4, 8 of IPv6."""

_LIST: Final = re.compile(r"(?P<head>[^{}]*)\{(?P<last>[^{}]*)\}")


class BadAddressPattern(SmartgoError):
    """A pattern of addresses that cannot be read, or that every address matches; the message quotes it."""


class AddressPattern:
    """
    A set of IP addresses.

    @ivar text: the pattern as it was written.
    """

    __slots__ = ("_alternatives", "text")

    def __init__(self, text: str) -> None:
        """
        Read a pattern: one address, addresses joined by commas, C{10.1.1.{5,6}}, C{10.1.1.*}, C{10.1.1.5-9},
        C{10.1.*.*}, C{fe80::*}, C{fe80::1-ff}, C{fe80::1-ff:*}; blank for no address at all.

        @raise BadAddressPattern: it is none of these, or every address matches it.
        """
        self.text = text.strip()
        self._alternatives = tuple(_ranges(one, self.text) for one in _listed(self.text))

    def __repr__(self) -> str:
        return f"AddressPattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressPattern) and self._alternatives == other._alternatives

    def __hash__(self) -> int:
        return hash(self._alternatives)

    def __bool__(self) -> bool:
        """Tell whether any address matches."""
        return bool(self._alternatives)

    def matches(self, ip: str) -> bool:
        """Tell whether an address is in the set; what is no IP address never is."""
        if not self._alternatives:
            return False
        values = _values(ip)
        return any(
            len(ranges) == len(values)
            and all(low <= value <= high for value, (low, high) in zip(values, ranges, strict=True))
            for ranges in self._alternatives
        )


def _listed(text: str) -> list[str]:
    """Split a pattern into patterns without lists."""
    if not text:
        return []
    if text.endswith("}"):
        found = _LIST.fullmatch(text)
        if found is None or not found["head"].endswith((".", ":")):
            raise BadAddressPattern(f"{text}: the list in braces has to be the last part of the address")
        alternatives = [found["head"] + last.strip() for last in found["last"].split(",") if last.strip()]
    else:
        alternatives = [one.strip() for one in text.split(",") if one.strip()]
    if not alternatives:
        raise BadAddressPattern(f"{text}: a list without addresses")
    return alternatives


def _ranges(one: str, text: str) -> Ranges:
    """Return the ranges of the parts of one address or range."""
    separator, parts = (":", 8) if ":" in one else (".", 4)
    written = [part.strip() for part in one.split(separator)]
    if all(part == "*" for part in written):
        raise BadAddressPattern(f"{text}: every address would be allowed without a signature")
    if written[0] == "*" or "-" in written[0]:
        raise BadAddressPattern(f"{text}: the first part of an address has to be a number")
    lows, highs = list(written), list(written)
    for index in range(1, len(written)):
        part = written[index]
        if part == "*":
            lows[index], highs[index] = ("0", "255") if parts == 4 else ("0", "ffff")
        elif "-" in part:
            lows[index], _, highs[index] = (side.strip() for side in part.partition("-"))
    _check_places(written, parts, text)
    low, high = _values(separator.join(lows)), _values(separator.join(highs))
    if len(low) != parts or len(high) != parts:
        raise BadAddressPattern(f"{text}: {one} is no IP address and no range of IP addresses")
    if any(first > last for first, last in zip(low, high, strict=True)):
        raise BadAddressPattern(f"{text}: a range of {one} ends before it begins")
    return tuple(zip(low, high, strict=True))


def _check_places(written: list[str], parts: int, text: str) -> None:
    """Refuse a range of IPv6 elsewhere than RocketMQ has it: C{*} last, C{a-b} last or before a last C{*}."""
    if parts == 4:
        return
    last = len(written) - 1
    for index, part in enumerate(written):
        if part == "*" and index != last:
            raise BadAddressPattern(f"{text}: in an IPv6 address * can only be the last part")
        if "-" in part and index != last and not (index == last - 1 and written[last] == "*"):
            raise BadAddressPattern(f"{text}: in an IPv6 address a range can only be the last part, or stand before *")


def _values(ip: str) -> tuple[int, ...]:
    """Return the numbers of the parts of an address; an IPv4 address within IPv6 counts as IPv4; none if it is none."""
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return ()
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            packed = address.packed
            return tuple(packed[at] << 8 | packed[at + 1] for at in range(0, 16, 2))
        address = address.ipv4_mapped
    return tuple(address.packed)
