"""
Several addresses of one broker: which of them a client is told depends on where it asks from.

Text form, in the settings C{advertisedAddresses} and C{haAdvertisedAddresses} and in fields of REGISTER_BROKER that
RocketMQ's registry does not look at: C{WHERE=HOST:PORT}, several separated by C{;}. The most specific WHERE that fits
counts, in this order::

    @192.0.2.1:9876, @:9876  asked the registry at this address and port, or this port
    @192.0.2.1               asked the registry at this address
    10.1.0.0/16, 10.1.2.3    asked from this network or address; the longest prefix counts

Addresses are those of the connection's two ends as the registry sees them, behind whatever translates addresses.
"""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple

from smartgo.schema.address import is_address

LIMIT: Final = 64
"""Addresses of one broker."""
FIELD: Final = "smartgoAdvertised"
"""The name of the field that has those for clients."""
HA_FIELD: Final = "smartgoAdvertisedHa"
"""The name of the field that has those for slaves."""

_ALL_BITS: Final = 128


class ConnectionEnds(NamedTuple):
    """Both ends of a connection to a registry, as that sees them."""

    ip: str
    """The asker's."""
    at_ip: str
    """The registry's, at which it was asked."""
    at_port: int
    """The same."""


class _Rule(NamedTuple):
    """One address, and who is told it."""

    weight: int
    """Of several that fit, the heaviest counts."""
    at_ip: str
    at_port: int
    network: IPv4Network | IPv6Network | None
    address: str

    def fits(self, asker: ConnectionEnds, ip: IPv4Address | IPv6Address | None) -> bool:
        """Tell whether this rule applies to an asker."""
        if self.network is not None:
            return ip is not None and ip in self.network
        return self.at_ip in ("", asker.at_ip) and self.at_port in (0, asker.at_port)


class Advertised:
    """
    The addresses of one broker beside its usual one.

    @ivar text: what it was read from, in its usual form; empty for none.
    """

    __slots__ = ("_rules", "text")

    def __init__(self, rules: list[_Rule], text: str) -> None:
        self._rules = rules
        self.text = text

    @classmethod
    def parse(cls, text: str) -> Advertised:
        """
        Read the text form.

        @raise ValueError: it is none; a sentence.
        """
        parts = [part.strip() for part in text.split(";") if part.strip()]
        if len(parts) > LIMIT:
            raise ValueError(f"{len(parts)} advertised addresses are more than {LIMIT}")
        rules: list[_Rule] = []
        names: list[str] = []
        for part in parts:
            where, equals, address = part.partition("=")
            where, address = where.strip(), address.strip()
            if not equals or not is_address(address):
                raise ValueError(f"{part}: not of the form NETWORK=HOST:PORT or @ADDRESS:PORT=HOST:PORT")
            rule, name = _rule(where, address)
            if any(name == one.partition("=")[0] for one in names):
                raise ValueError(f"{name} is listed twice")
            rules.append(rule)
            names.append(f"{name}={address}")
        rules.sort(key=lambda rule: -rule.weight)
        return cls(rules, ";".join(names))

    def best(self, asker: ConnectionEnds) -> str | None:
        """Return the C{host:port} that this one is told; C{None}: the broker's usual one."""
        try:
            ip = ipaddress.ip_address(asker.ip)
        except ValueError:
            ip = None
        return next((rule.address for rule in self._rules if rule.fits(asker, ip)), None)


def _rule(where: str, address: str) -> tuple[_Rule, str]:
    """Return the rule for one place, and that place in its usual form. @raise ValueError: it is none."""
    if not where.startswith("@"):
        try:
            network = ipaddress.ip_network(where, strict=False)
        except ValueError:
            raise ValueError(f"{where} is not a network such as 10.1.0.0/16") from None
        return _Rule(network.prefixlen, "", 0, network, address), str(network)
    host, port = where[1:], 0
    if match := re.fullmatch(r"(|[0-9.]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})", host):
        host, port = match[1].strip("[]"), int(match[2])
    try:
        at_ip = str(ipaddress.ip_address(host.strip("[]"))) if host else ""
    except ValueError:
        at_ip = ""
        host = "?"
    if not (at_ip or port) or host == "?" or port > 65535:
        raise ValueError(f"{where} is not a listening address such as @10.0.0.5, @:9876 or @10.0.0.5:9876")
    weight = _ALL_BITS + (1 if at_ip else 0) + (2 if port else 0)
    shown = f"[{at_ip}]" if ":" in at_ip and port else at_ip
    return _Rule(weight, at_ip, port, None, address), f"@{shown}{f':{port}' if port else ''}"
