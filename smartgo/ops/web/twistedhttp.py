"""
The one place of the HTTP front that uses private names of Twisted's HTTP classes, under names of its own.

Twisted has no public way to ask what is asked here. C{tests/ops/web/test_twistedhttp.py} fails where a release of
Twisted has one of these names no more, or means something else by it.
"""

from __future__ import annotations

from typing import Any

from twisted.web.http import HTTPChannel
from twisted.web.server import Request


class ChannelAdapter(HTTPChannel):
    """A channel whose state can be asked for."""

    @property
    def header_count(self) -> int:
        """The number of headers received for the current request."""
        return int(self._receivedHeaderCount)

    @property
    def request_method(self) -> bytes:
        """The method of the request whose headers were received."""
        return bytes(self._command)

    @property
    def request_target(self) -> bytes:
        """The target of the request whose headers were received."""
        return bytes(self._path)

    @property
    def is_served(self) -> bool:
        """Tell whether a request of this connection is being served."""
        return bool(self._handlingRequest)

    @property
    def has_partial_line(self) -> bool:
        """Tell whether part of a line, without its end, has arrived."""
        return bool(self._buffer)

    @property
    def unread(self) -> int:
        """The number of bytes that wait: of a line without an end, and of requests after the one that is served."""
        return len(self._buffer) + sum(map(len, self._dataBuffer))

    def bad_request(self) -> None:
        """Answer a request that is not HTTP, and close. For subclasses."""
        super()._respondToBadRequestAndDisconnect()

    def _respondToBadRequestAndDisconnect(self) -> None:
        self.bad_request()


class RequestAdapter(Request):
    """A request whose state can be asked for, and whose body can be compressed."""

    @property
    def is_disconnected(self) -> bool:
        """Tell whether the connection was lost before the request was answered."""
        return bool(self._disconnected)

    @property
    def is_compressed(self) -> bool:
        """Tell whether an encoder for the answer is set."""
        return self._encoder is not None

    def compress(self, encoder: Any) -> None:
        """Encode the body of the answer by an C{IRequestEncoder}; C{None}: send it as it is."""
        self._encoder = encoder
