"""
The HTTP channel: what reads requests, and the limits on what may come (reliability L22).

Whatever is wrong with a request before anybody could look at it (too long, too slow, no HTTP) gets a problem body too;
the connection is closed then, and what the client still sends is thrown away for a while, as a socket that is closed
with unread bytes takes the answer down with it.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, Protocol, cast

from twisted.python.failure import Failure
from twisted.web.server import Request

from smartgo.ops.problems import Problem, as_response
from smartgo.ops.web.request import SECURITY_HEADERS, OpsRequest, split_target
from smartgo.ops.web.routes import BODIES, BODY_LIMIT
from smartgo.ops.web.twistedhttp import ChannelAdapter

URL_LIMIT: Final = 8 * 1024  # bytes
HEADERS_LIMIT: Final = 16 * 1024  # bytes of all headers
HEADER_COUNT: Final = 100


class Site(Protocol):
    """
    A site, as its channels see it.

    @ivar receiving: bytes of bodies that are not whole yet, of all channels.
    @ivar body_limit: how many bytes a body may have, by method and URL.
    """

    receiving: int
    body_limit: Callable[[bytes, bytes], int]

    @property
    def stopping(self) -> bool:
        """True if connections end with the request that is being served."""

    def next_id(self) -> str:
        """Return the id of one more request."""

    def log(self, request: Request) -> None:
        """Write a line of the access log, where there is one."""


class Listening(Protocol):
    """Hears how far the requests of a channel are: its session."""

    def head_complete(self) -> None:
        """Handle the end of the headers of a request."""

    def request_complete(self, size: int) -> None:
        """Handle the end of a request of C{size} bytes, which is served from now on."""

    def request_done(self) -> None:
        """Handle the end of an answer."""

    def read_on(self) -> None:
        """Count what was read after the request that was answered."""

    def refused(self) -> None:
        """Handle an answer that refuses what came: close the connection in a while."""


class Channel(ChannelAdapter):
    """One HTTP connection with its limits. It has no timers: its session has."""

    maxHeaders = HEADER_COUNT
    MAX_LENGTH = URL_LIMIT + HEADERS_LIMIT
    totalHeadersSize = 2 * MAX_LENGTH  # our own counts come first
    requestFactory: Any = OpsRequest

    factory: Any
    site: Any

    def __init__(self, site: Site, session: Listening) -> None:
        super().__init__()
        self.factory = self.site = site
        self._session: Listening | None = session
        self._refused = False
        self._line_read = False
        self._head_size = 0
        self._room = 0

    # -- limits ------------------------------------------------------------------------------------------------

    def lineReceived(self, line: bytes) -> None:
        """Check the lengths of the URL and the headers."""
        if self._refused:
            return
        if self._line_read:
            self._head_size += len(line)
            if self._head_size > HEADERS_LIMIT:
                self.refuse(431, f"the headers are longer than {HEADERS_LIMIT} bytes")
                return
        elif line:
            self._line_read = True
            self._head_size = 0
            if len(line.partition(b" ")[2].partition(b" ")[0]) > URL_LIMIT:
                self.refuse(414, f"the URL is longer than {URL_LIMIT} bytes")
                return
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a line that is too long."""
        if self._line_read:
            self.refuse(431, f"the headers are longer than {HEADERS_LIMIT} bytes")
        else:
            self.refuse(414, f"the URL is longer than {URL_LIMIT} bytes")

    def headerReceived(self, line: bytes) -> bool:
        """Refuse too many headers."""
        if self.header_count >= self.maxHeaders:
            self.refuse(431, f"there are more than {HEADER_COUNT} headers")
            return False
        return bool(super().headerReceived(line))

    def allHeadersReceived(self) -> None:
        """Refuse a body that is announced as too long before any of it is sent."""
        self._tell().head_complete()
        request = self.requests[-1]
        request.limit = self.factory.body_limit(self.request_method, split_target(self.request_target)[1])
        if self.length is not None and self.length > request.limit:
            request.parseCookies()
            self.refuse(413, f"the body is longer than {request.limit} bytes")
            self.length = None  # so that nobody takes the request for whole
            return
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """Hand over the request: it is complete."""
        if self._refused:
            return
        size = self._head_size + self._room
        self._line_read = False
        self._head_size = 0
        self._give_room()
        self._tell().request_complete(size)
        super().allContentReceived()

    def take_room(self, size: int) -> bool:
        """Count some bytes of a body; return whether there is room for them. A short body always has it."""
        self._room += size
        self.factory.receiving += size
        return self._room <= BODY_LIMIT or self.factory.receiving <= BODIES

    def _give_room(self) -> None:
        self.factory.receiving -= self._room
        self._room = 0

    @property
    def held(self) -> int:
        """The number of bytes kept of requests that are not whole, or that wait for the one that is served."""
        return 0 if self._refused else self._head_size + self._room + self.unread

    def dataReceived(self, data: bytes) -> None:
        """Read, unless the connection was refused."""
        if not self._refused:
            super().dataReceived(data)

    def rawDataReceived(self, data: bytes) -> None:
        """Read a body, unless the connection was refused."""
        if not self._refused:
            super().rawDataReceived(data)

    @property
    def has_begun(self) -> bool:
        """True while a part of a request is there."""
        return not self._refused and (self._line_read or self.has_partial_line)

    # -- ends --------------------------------------------------------------------------------------------------

    def refuse(self, status: int, detail: str) -> None:
        """Answer with an error and close, without reading on."""
        if self._refused:
            return
        self._refused = True
        self._give_room()
        for request in self.requests:
            request.content = BytesIO()
        answer = as_response(Problem(status, detail), self.factory.next_id(), SECURITY_HEADERS)
        cast("Any", self.transport).write(answer)
        self._tell().refused()

    def isSecure(self) -> bool:
        """Return whether there is TLS on the connection."""
        return bool(cast("Any", self.transport).secure)

    def requestDone(self, request: Any) -> None:
        """Continue with the next request, unless the server is stopping."""
        session = self._tell()
        session.request_done()
        if self.factory.stopping:
            self.persistent = 0
        super().requestDone(request)
        session.read_on()

    def abort(self) -> None:
        """Close the connection at once."""
        cast("Any", self.transport).abortConnection()

    def bad_request(self) -> None:
        """Answer a request that is not HTTP with a problem body."""
        self.refuse(400, "the request is not an HTTP/1.1 request")

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Tell the requests."""
        self._give_room()
        super().connectionLost(reason)

    def forget(self) -> None:
        """Keep nothing: requests, the decoder of a body and the transport lead back here."""
        vars(self).clear()

    def _tell(self) -> Listening:
        return cast("Listening", self._session)
