"""The transport that an attempt to connect makes."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol


class Dial(Factory):
    """Hands the one protocol of an attempt to connect to its transport."""

    noisy = False

    def __init__(self, protocol: Protocol) -> None:
        self._protocol: Protocol | None = protocol

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """Hand the protocol over, and let it go: Twisted keeps the factory longer than the connection lasts."""
        protocol, self._protocol = self._protocol, None
        return protocol

    def forget(self) -> None:
        """Release the protocol: the attempt has failed."""
        self._protocol = None
