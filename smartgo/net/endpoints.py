"""Addresses of servers and peers, translated from Twisted's forms and into them."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.endpoints import quoteStringArgument

from smartgo.schema.message import pack_host

_CUSTOMER: Final = 64  # bits of an IPv6 address


def endpoint(address: str, port: int) -> str:
    """
    Return the description of a TCP port on one address, for L{smartgo.env.interfaces.INetwork.listen}.

    >>> endpoint("127.0.0.1", 10911)
    'tcp:10911:interface=127.0.0.1'
    """
    return f"tcp:{port}:interface={quoteStringArgument(address)}"


class PeerAddress(NamedTuple):
    """
    One end of a connection.

    @ivar text: C{host:port}.
    @ivar ip: the IP address alone.
    @ivar host: as a record stores it.
    """

    text: str
    ip: str
    host: bytes


def peer_address(address: object) -> PeerAddress:
    """
    Return an address of Twisted's as ours.

    What is no IP address (a UNIX socket, a test's) counts as the loopback interface, port 0.
    """
    if isinstance(address, IPv6Address):
        ip = address.host.partition("%")[0]
        mapped = ip.removeprefix("::ffff:")
        if mapped != ip and "." in mapped:
            return PeerAddress(f"{mapped}:{address.port}", mapped, pack_host(mapped, address.port))
        return PeerAddress(f"[{ip}]:{address.port}", ip, pack_host(ip, address.port))
    if isinstance(address, IPv4Address):
        return PeerAddress(f"{address.host}:{address.port}", address.host, pack_host(address.host, address.port))
    return PeerAddress("127.0.0.1:0", "127.0.0.1", pack_host("127.0.0.1", 0))


def canonical_ip(address: str) -> str | None:
    """
    Return an IP address in canonical form, an IPv4-mapped one as IPv4; C{None} where it is none.

    >>> canonical_ip("::ffff:10.0.0.1"), canonical_ip("2001:DB8::0:1%eth0"), canonical_ip("localhost")
    ('10.0.0.1', '2001:db8::1', None)
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return str(getattr(found, "ipv4_mapped", None) or found)


def address_block(address: str) -> str:
    """
    Return the block of addresses that is counted as one peer: of IPv6 the network of 64 bits, one customer's.

    >>> address_block("10.0.0.1"), address_block("2001:db8::1")
    ('10.0.0.1', '2001:db8::/64')
    """
    found = canonical_ip(address)
    if found is None:
        return address
    if ":" not in found:
        return found
    return str(ipaddress.ip_network((found, _CUSTOMER), strict=False))


def port_number(address: object) -> int:
    """Return the port of an address of Twisted's; C{0} where there is no such thing."""
    return address.port if isinstance(address, (IPv4Address, IPv6Address)) else 0
