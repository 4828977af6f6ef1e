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
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, datetimeToString
from twisted.web.server import Request

from smartgo.env.interfaces import IEnvironment
from smartgo.net.tls import ServerTLS
from smartgo.ops.connections import ConnectionTable, Limits
from smartgo.ops.httpslayer import HttpsLayer
from smartgo.ops.openapi import PREFIX
from smartgo.ops.problems import TITLES, Problem
from smartgo.ops.routes import BODY_LIMIT

URL_LIMIT: Final = 8 * 1024  # bytes
HEADERS_LIMIT: Final = 16 * 1024  # bytes of all headers
HEADER_COUNT: Final = 100
REQUEST_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 10.0
"""For the head of the first request of a connection."""
BODIES: Final = 64 * 1024 * 1024
"""Bytes of bodies that are not whole yet, of all requests together: nobody has been asked yet who he is."""

_PROBES: Final = frozenset(
    {b"/metrics", *(PREFIX.encode() + path for path in (b"/metrics", b"/health", b"/ready"))},
)
"""What tells how the process is: answered at once, however many other requests are served."""

_IDLE_SECONDS: Final = 60  # of a connection without a request
_LINGER_SECONDS: Final = 2.0
_LAST_SECONDS: Final = 2.0

SECURITY_HEADERS: Final = (
    (b"Content-Security-Policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
)
"""On every answer (reliability X12)."""


def split_target(target: bytes) -> tuple[bytes | None, bytes]:
    """
    Return the authority that a request's target names, C{None} where it names none, and path and query.

    >>> split_target(b"http://127.0.0.1:10913/api/v1/topics?limit=1")
    (b'127.0.0.1:10913', b'/api/v1/topics?limit=1')
    >>> split_target(b"/api/v1/topics")
    (None, b'/api/v1/topics')
    """
    scheme, found, rest = target.partition(b"://")
    if not found or scheme.lower() not in (b"http", b"https"):
        return None, target
    end = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    path = rest[end:]
    return rest[:end], path if path.startswith(b"/") else b"/" + path


class OpsRequest(Request):
    """
    One request.

    @ivar id: stands in its answer and in the log.
    @ivar limit: of its body, in bytes.
    """

    site: Any
    channel: Any

    def __init__(self, channel: Any, queued: object = False) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self.id = channel.factory.next_id()
        self._counted = False
        self._received = 0
        self.limit = channel.factory.body_limit(b"", b"")
        for name, value in SECURITY_HEADERS:
            self.responseHeaders.setRawHeaders(name, [value])

    # -- the body ----------------------------------------------------------------------------------------------

    def gotLength(self, length: int | None) -> None:
        """Keep the body in memory, wherever it ends: it is short."""
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        """Take a piece of the body, while it is short enough."""
        self._received += len(data)
        if self._received > self.limit:
            self.channel.refuse(413, f"the body is longer than {self.limit} B")
            return
        if not self.channel.take_room(len(data)):
            self.channel.refuse(503, f"bodies of more than {BODIES} B come in at once")
            return
        cast("BytesIO", self.content).write(data)

    # -- its way -----------------------------------------------------------------------------------------------

    def process(self) -> None:
        """Answer."""
        self.site = self.channel.site
        self.sitepath: list[bytes] = []
        self.prepath: list[bytes] = []
        self.take_target()
        factory = self.channel.factory
        self.setHeader(b"Date", datetimeToString(factory.wall_seconds()))
        self.setHeader(b"X-Request-Id", self.id.encode())
        most = factory.limits.requests
        if factory.busy >= most and self.path not in _PROBES:
            self.answer_problem(
                Problem(503, f"more than {most} requests at once", "too-many-requests-at-once", {"Retry-After": "1"})
            )
            return
        self._counted = True
        factory.busy += 1
        self.notifyFinish().addBoth(lambda _: self._over())
        try:
            factory.render(self)
        except Exception:
            self.processingFailed(Failure())

    def _over(self) -> None:
        """Let go of the connection: what is left of a request may stay in memory for a while."""
        self.uncount()
        self.transport = None

    def take_target(self) -> None:
        """
        Bring an absolute target (C{GET http://host/path}) into the usual form; its host counts, and not the header's.

        Source: RFC 9112, section 3.2.2.
        """
        authority, path = split_target(self.uri)
        if authority is not None:
            self.uri = path
            self.path = path.partition(b"?")[0]
            self.requestHeaders.setRawHeaders(b"Host", [authority])

    def uncount(self) -> None:
        """Count no longer among the requests that are served at once."""
        if self._counted:
            self._counted = False
            self.site.busy -= 1

    def processingFailed(self, reason: Failure) -> Failure:
        """A mistake of ours: said to the log in full, and to the client in a word."""
        self._log.failure("request {id} failed", reason, id=self.id)
        self.answer_problem(Problem(500, "an internal error; the log has it under the request's id"))
        return reason

    def answer_problem(self, problem: Problem) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.finished or self._disconnected:
            return
        if self.startedWriting:
            cast("Any", self.transport).abortConnection()
            return
        self.write(self.begin_problem(problem))
        self.finish()

    def begin_problem(self, problem: Problem) -> bytes:
        """Set status and headers for an error; return the body."""
        self.setResponseCode(problem.status, TITLES[problem.status].encode())
        self._encoder = None
        for unwanted in (b"ETag", b"Content-Encoding", b"Set-Cookie"):
            self.responseHeaders.removeHeader(unwanted)
        for name, value in problem.headers.items():
            self.setHeader(name.encode(), value.encode())
        body = problem.body(self.id)
        self.setHeader(b"Cache-Control", b"no-store")
        self.setHeader(b"Content-Type", b"application/problem+json")
        self.setHeader(b"Content-Length", b"%d" % len(body))
        return body

    # -- who asks ----------------------------------------------------------------------------------------------

    def peer_address(self) -> str:
        """The IP address at the socket's other end."""
        peer = self.getClientAddress()
        return peer.host if isinstance(peer, IPv4Address | IPv6Address) else ""

    def header_text(self, name: str) -> str | None:
        """A header's value, whatever bytes it has: what Twisted gives fails on those that are no UTF-8."""
        value: bytes | None = self.getHeader(name.encode())
        return None if value is None else value.decode("latin-1")


class Channel(HTTPChannel):
    """One connection."""

    maxHeaders = HEADER_COUNT
    MAX_LENGTH = URL_LIMIT + HEADERS_LIMIT
    totalHeadersSize = 2 * MAX_LENGTH  # our own counts come first
    requestFactory: Any = OpsRequest

    factory: OpsFactory
    site: Any
    _log = Logger()

    def __init__(self) -> None:
        super().__init__()
        self._due: IDelayedCall | None = None
        self._first: IDelayedCall | None = None
        self._refused = False
        self._line_read = False
        self._head_size = 0
        self._room = 0

    def connectionMade(self) -> None:
        """Wait for the first request, not for long: nobody has said yet who he is."""
        super().connectionMade()
        self._first = self.callLater(FIRST_SECONDS, self._nothing_came)

    def _nothing_came(self) -> None:
        self._first = None
        if self.has_begun and not self._refused:
            self.refuse(408, f"the head of the first request was not there within {FIRST_SECONDS:g} s")
        else:
            self.abort()

    # -- limits ------------------------------------------------------------------------------------------------

    def lineReceived(self, line: bytes) -> None:
        """Look at lengths before anybody else does."""
        if self._refused:
            return
        if self._line_read:
            self._head_size += len(line)
            if self._head_size > HEADERS_LIMIT:
                self.refuse(431, f"the headers are longer than {HEADERS_LIMIT} B")
                return
        elif line:
            self._line_read = True
            self._head_size = 0
            if len(line.partition(b" ")[2].partition(b" ")[0]) > URL_LIMIT:
                self.refuse(414, f"the URL is longer than {URL_LIMIT} B")
                return
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """A line without an end."""
        if self._line_read:
            self.refuse(431, f"the headers are longer than {HEADERS_LIMIT} B")
        else:
            self.refuse(414, f"the URL is longer than {URL_LIMIT} B")

    def headerReceived(self, line: bytes) -> bool:
        """Count headers."""
        if self._receivedHeaderCount >= self.maxHeaders:
            self.refuse(431, f"there are more than {HEADER_COUNT} headers")
            return False
        return bool(super().headerReceived(line))

    def allHeadersReceived(self) -> None:
        """Refuse a body that is announced as too long before any of it is sent."""
        self._stop_first()
        self.factory.table.used(self)
        request = self.requests[-1]
        request.limit = self.factory.body_limit(self._command, split_target(self._path)[1])
        if self.length is not None and self.length > request.limit:
            request.parseCookies()
            self.refuse(413, f"the body is longer than {request.limit} B")
            self.length = None  # so that nobody takes the request for whole
            return
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """The request is whole."""
        if self._refused:
            return
        self._line_read = False
        self._stop_watch()
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
        """Read, unless all has been said."""
        if not self._refused:
            super().dataReceived(data)
            if self.has_begun and self._due is None and not self._handlingRequest and not self._refused:
                self._due = self.callLater(REQUEST_SECONDS, self._too_slow)

    def rawDataReceived(self, data: bytes) -> None:
        """Read a body, unless all has been said."""
        if not self._refused:
            super().rawDataReceived(data)

    def _too_slow(self) -> None:
        self._due = None
        self.refuse(408, f"the request was not whole within {REQUEST_SECONDS:g} s")

    def _stop_watch(self) -> None:
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
        self._stop_watch()
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
    def is_served(self) -> bool:
        """Whether a request of this connection is being served."""
        return bool(self._handlingRequest)

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request is there."""
        return self._line_read or bool(self._buffer)

    def requestDone(self, request: Any) -> None:
        """Go on with the next request, unless all is to end."""
        self.factory.table.used(self)
        if self.factory.closing:
            self.persistent = 0
        super().requestDone(request)

    def abort(self) -> None:
        """End now."""
        cast("Any", self.transport).abortConnection()

    def _leave(self) -> None:
        self._due = None
        self.loseConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        self.refuse(400, "the request is no HTTP/1.1 request")

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Stop all timers."""
        self._stop_first()
        self._stop_watch()
        self._give_room()
        super().connectionLost(reason)
        factory = self.factory
        # Requests, the decoder of a body and the transport lead back here. Nothing is asked of us any more.
        vars(self).clear()
        factory.ended(self)


class OpsFactory(ServerFactory):
    """
    Makes channels.

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
        limits: Limits | None = None,
    ) -> None:
        """
        @param body_limit: how many bytes a body may have, by method and URL.
        @param tls: certificate and key: then nothing but HTTPS is spoken.
        """
        self._env = env
        self.render = render
        self.body_limit = body_limit
        self._tls = tls
        self.limits = limits or Limits()
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
        """A connection is over."""
        self.table.discard(channel)
        self._channels.discard(channel)
        if self._empty is not None and not self._channels:
            empty, self._empty = self._empty, None
            empty.callback(None)

    def log(self, request: Request) -> None:
        """There is no log of accesses; changes stand in the audit log."""

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
