"""Origin of a connection: the address that it comes from, and networks that it may lead to."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from smartgo.remoting.interfaces import IPeer
from smartgo.schema.address import is_loopback
from smartgo.schema.advertised import ConnectionEnds


class Networks:
    """A set of IP addresses."""

    def __init__(self, networks: Iterable[str]) -> None:
        """
        @raise ValueError: one of them is no network.
        """
        self._networks = [ipaddress.ip_network(one, strict=False) for one in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, ip: str) -> bool:
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    def reaches(self, address: str) -> bool:
        """Tell whether the host of a C{host:port} is an address in these networks; a host name never is."""
        host, _, _ = address.rpartition(":")
        return host.strip("[]") in self


def is_this_machine(asker: ConnectionEnds) -> bool:
    """Tell whether a connection comes from the machine that it arrives at."""
    return is_loopback(asker.ip) or asker.ip == asker.at_ip != ""


def asker(peer: IPeer) -> ConnectionEnds:
    """Return both ends of a connection."""
    host, _, _ = peer.address.rpartition(":")
    return ConnectionEnds(host.strip("[]"), peer.local_ip, peer.local_port)


def is_local(peer: IPeer) -> bool:
    """Tell whether a client runs on this machine: its address is a loopback address, or the one that it dialled."""
    return is_this_machine(asker(peer))
