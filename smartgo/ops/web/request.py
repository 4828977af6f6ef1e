"""
One HTTP request: its body, its target, who asks, and the answer where something is wrong.

Its resource is found by L{smartgo.ops.web.application}; the connection that it came over is L{smartgo.ops.web.site}'s.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from io import BytesIO
from typing import Any, Final, TypeVar, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import datetimeToString

from smartgo.net.slowturns import SlowTurns
from smartgo.ops.problems import TITLES, Problem
from smartgo.ops.web.openapi import PREFIX
from smartgo.ops.web.routes import BODIES
from smartgo.ops.web.twistedhttp import RequestAdapter

T = TypeVar("T")

_log = Logger()

_PROBES: Final = frozenset(
    {prefix + path for prefix in (b"", PREFIX.encode()) for path in (b"/metrics", b"/health", b"/ready")},
)
"""What tells how the process is: answered at once, however many other requests are served."""

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


class OpsRequest(RequestAdapter):
    """
    One request.

    @ivar id: stands in its answer and in the log.
    @ivar limit: of its body, in bytes.
    @ivar named: its name where it holds the reactor up: method and route.
    """

    site: Any
    channel: Any

    def __init__(self, channel: Any, queued: object = False) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self.id = channel.factory.next_id()
        self.named = "request"
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
        """Take a chunk of the body, up to the limit."""
        self._received += len(data)
        if self._received > self.limit:
            self.channel.refuse(413, f"the body is longer than {self.limit} bytes")
            return
        if not self.channel.take_room(len(data)):
            self.channel.refuse(503, f"more than {BODIES} bytes of bodies are being received")
            return
        cast("BytesIO", self.content).write(data)

    # -- its way -----------------------------------------------------------------------------------------------

    def process(self) -> None:
        """Check limits and render the answer."""
        self.site = self.channel.site
        self.sitepath: list[bytes] = []
        self.prepath: list[bytes] = []
        self.take_target()
        factory = self.channel.factory
        self.setHeader(b"Date", datetimeToString(factory.wall_seconds()))
        self.setHeader(b"X-Request-Id", self.id.encode())
        most = factory.http_limits.requests
        if factory.busy >= most and self.path not in _PROBES:
            self.answer_problem(
                Problem(
                    503, f"more than {most} requests are in progress", "too-many-requests-at-once", {"Retry-After": "1"}
                )
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

    def timed(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a coroutine for this request; what holds the reactor up is counted under the name of its route."""
        slow: SlowTurns = self.site.sweeper.slow
        return slow.steps(self.named, work)

    def uncount(self) -> None:
        """Stop counting as a request in progress."""
        if self._counted:
            self._counted = False
            self.site.busy -= 1

    def processingFailed(self, reason: Failure) -> Failure:
        """Log an unexpected error in full and answer with a bare 500."""
        _log.failure("request {id} failed", reason, id=self.id)
        self.answer_problem(Problem(500, "an internal error; the log has the details under the request's id"))
        return reason

    def answer_problem(self, problem: Problem) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.finished or self.is_disconnected:
            return
        if self.startedWriting:
            cast("Any", self.transport).abortConnection()
            return
        self.write(self.begin_problem(problem))
        self.finish()

    def begin_problem(self, problem: Problem) -> bytes:
        """Set status and headers for an error; return the body."""
        self.setResponseCode(problem.status, TITLES[problem.status].encode())
        self.compress(None)
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
        """Return the IP address of the peer."""
        peer = self.getClientAddress()
        return peer.host if isinstance(peer, IPv4Address | IPv6Address) else ""

    def header_text(self, name: str) -> str | None:
        """A header's value, whatever bytes it has: what Twisted gives fails on those that are no UTF-8."""
        value: bytes | None = self.getHeader(name.encode())
        return None if value is None else value.decode("latin-1")
