"""
The HTTP front: connections, and the limits on what may come over them (reliability L22).

Whatever is wrong with a request before anybody could look at it (too long, too slow, no HTTP) gets a problem body too;
the connection is closed then, and what the client still sends is thrown away for a while, as a socket that is closed
with unread bytes takes the answer down with it.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import ServerFactory
from twisted.python.failure import Failure
from twisted.web.server import Request

from smartgo.env.interfaces import IEnvironment
from smartgo.net.tls import ServerTLS
from smartgo.ops.web.connections import ConnectionTable, HttpLimits
from smartgo.ops.web.httpslayer import HttpsLayer
from smartgo.ops.web.problems import TITLES, Problem
from smartgo.ops.web.request import SECURITY_HEADERS, OpsRequest, split_target
from smartgo.ops.web.routes import BODIES, BODY_LIMIT
from smartgo.ops.web.twistedhttp import ChannelAdapter

URL_LIMIT: Final = 8 * 1024  # bytes
HEADERS_LIMIT: Final = 16 * 1024  # bytes of all headers
HEADER_COUNT: Final = 100
REQUEST_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 10.0
"""For the head of the first request of a connection."""

_IDLE_SECONDS: Final = 60  # of a connection without a request
_LINGER_SECONDS: Final = 2.0
_LAST_SECONDS: Final = 2.0


class Channel(ChannelAdapter):
    """One HTTP connection with its limits."""

    maxHeaders = HEADER_COUNT
    MAX_LENGTH = URL_LIMIT + HEADERS_LIMIT
    totalHeadersSize = 2 * MAX_LENGTH  # our own counts come first
    requestFactory: Any = OpsRequest

    factory: OpsFactory
    site: Any

    def __init__(self) -> None:
        super().__init__()
        self._due: IDelayedCall | None = None
        self._first: IDelayedCall | None = None
        self._refused = False
        self._line_read = False
        self._head_size = 0
        self._room = 0

    def connectionMade(self) -> None:
        """Start the timer for the first request: the sender is not known yet."""
        super().connectionMade()
        self._first = self.callLater(FIRST_SECONDS, self._nothing_came)

    def _nothing_came(self) -> None:
        self._first = None
        if self.has_begun and not self._refused:
            self.refuse(408, f"the headers of the first request were not complete within {FIRST_SECONDS:g} s")
        else:
            self.abort()

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
        self._stop_first()
        self.factory.table.used(self)
        request = self.requests[-1]
        request.limit = self.factory.body_limit(self.request_method, split_target(self.request_target)[1])
        if self.length is not None and self.length > request.limit:
            request.parseCookies()
            self.refuse(413, f"the body is longer than {request.limit} bytes")
            self.length = None  # so that nobody takes the request for whole
            return
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """Stop the timers: the request is complete."""
        if self._refused:
            return
        self._line_read = False
        self._stop_deadline()
        self._give_room()
        super().allContentReceived()

    def take_room(self, size: int) -> bool:
        """Count some bytes of a body; return whether there is room for them. A short body always has it."""
        self._room += size
        self.factory.receiving += size
        return self._room <= BODY_LIMIT or self.factory.receiving <= BODIES

    def _give_room(self) -> None:
        self.factory.receiving -= self._room
        self._room = 0

    def dataReceived(self, data: bytes) -> None:
        """Read, unless the connection was refused; start the timer of a request."""
        if not self._refused:
            super().dataReceived(data)
            if self.has_begun and self._due is None and not self.is_served and not self._refused:
                self._due = self.callLater(REQUEST_SECONDS, self._too_slow)

    def rawDataReceived(self, data: bytes) -> None:
        """Read a body, unless the connection was refused."""
        if not self._refused:
            super().rawDataReceived(data)

    def _too_slow(self) -> None:
        self._due = None
        self.refuse(408, f"the request was not complete within {REQUEST_SECONDS:g} s")

    def _stop_deadline(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _stop_first(self) -> None:
        if self._first is not None:
            self._first.cancel()
            self._first = None

    # -- ends --------------------------------------------------------------------------------------------------

    def refuse(self, status: int, detail: str) -> None:
        """Answer with an error and close, without reading on."""
        if self._refused:
            return
        self._refused = True
        self._stop_first()
        self._stop_deadline()
        self._give_room()
        for request in self.requests:
            request.content = BytesIO()
        body = Problem(status, detail).body(self.factory.next_id())
        headers = b"".join(b"%s: %s\r\n" % one for one in SECURITY_HEADERS)
        cast("Any", self.transport).writeSequence(
            (
                b"HTTP/1.1 %d %s\r\n" % (status, TITLES[status].encode()),
                b"Content-Type: application/problem+json\r\nContent-Length: %d\r\n" % len(body),
                b"Cache-Control: no-store\r\nConnection: close\r\n",
                headers,
                b"\r\n",
                body,
            )
        )
        self.setTimeout(None)
        self._due = self.callLater(_LINGER_SECONDS, self._leave)

    @property
    def has_begun(self) -> bool:
        """Tell whether part of a request has arrived."""
        return self._line_read or self.has_partial_line

    def requestDone(self, request: Any) -> None:
        """Continue with the next request, unless the server is stopping."""
        self.factory.table.used(self)
        if self.factory.closing:
            self.persistent = 0
        super().requestDone(request)

    def abort(self) -> None:
        """Close the connection at once."""
        cast("Any", self.transport).abortConnection()

    def _leave(self) -> None:
        self._due = None
        self.loseConnection()

    def bad_request(self) -> None:
        """Answer a request that is not HTTP with a problem body."""
        self.refuse(400, "the request is not an HTTP/1.1 request")

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Stop all timers."""
        self._stop_first()
        self._stop_deadline()
        self._give_room()
        super().connectionLost(reason)
        factory = self.factory
        # Requests, the decoder of a body and the transport lead back here. Nothing is asked of us any more.
        vars(self).clear()
        factory.ended(self)


class OpsFactory(ServerFactory):
    """
    Makes the channels of connections and limits them.

    @ivar limits: on connections and requests; C{table} has the connections.
    @ivar busy: requests that are being served.
    @ivar receiving: bytes of bodies that are not whole yet.
    @ivar closing: whether connections end with the request that is being served.
    @ivar render: what answers a request.
    """

    noisy = False

    def __init__(
        self,
        env: IEnvironment,
        render: Callable[[OpsRequest], object],
        body_limit: Callable[[bytes, bytes], int],
        tls: ServerTLS | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """
        @param body_limit: how many bytes a body may have, by method and URL.
        @param tls: certificate and key: then nothing but HTTPS is spoken.
        """
        self._env = env
        self.render = render
        self.body_limit = body_limit
        self._tls = tls
        self.limits = limits or HttpLimits()
        self.table = ConnectionTable(self.limits)
        self.busy = 0
        self.receiving = 0
        self.closing = False
        self._channels: set[Channel] = set()
        self._serial = 0
        self._nonce = env.random.token(4).hex()
        self._empty: Deferred[None] | None = None

    def next_id(self) -> str:
        """Return the id of one more request."""
        self._serial += 1
        return f"{self._nonce}-{self._serial:x}"

    def wall_seconds(self) -> float:
        """The wall clock, for the C{Date} header."""
        return float(self._env.clock.wall_ms()) / 1000

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Make the channel of a new connection; C{None}, which closes it, where there are too many that are served."""
        channel = Channel()
        if not self.table.admit(channel, addr.host if isinstance(addr, IPv4Address | IPv6Address) else ""):
            return None
        channel.factory = self
        channel.site = self
        channel.callLater = self._env.clock.callLater  # type: ignore[method-assign]
        channel.timeOut = _IDLE_SECONDS
        self._channels.add(channel)
        if self._tls is None:
            return channel
        return HttpsLayer(self._tls.factory(), channel)

    def ended(self, channel: Channel) -> None:
        """Forget a connection that has ended."""
        self.table.discard(channel)
        self._channels.discard(channel)
        if self._empty is not None and not self._channels:
            empty, self._empty = self._empty, None
            empty.callback(None)

    def log(self, request: Request) -> None:
        """Write no access log; the audit log has the changes."""

    def close(self) -> Deferred[None]:
        """End all connections, those that are being served once they are or after 2 s; fires when none is left."""
        done: Deferred[None] = Deferred()
        self.closing = True
        if not self._channels:
            done.callback(None)
            return done
        self._empty = done
        timer = self._env.clock.callLater(_LAST_SECONDS, self._cut)
        done.addCallback(lambda _: timer.cancel() if timer.active() else None)
        for channel in list(self._channels):
            if not channel.is_served:
                channel.abort()
        return done

    def _cut(self) -> None:
        for channel in list(self._channels):
            channel.abort()
