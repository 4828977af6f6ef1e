"""A factory for a connection whose protocol exists before the connection does."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory


class FixedProtocolFactory(Factory):
    """Return the same protocol for every connection, and leave the factory that this protocol has as it is."""

    noisy = False

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: object) -> Any:
        """Return the protocol."""
        return self._protocol
