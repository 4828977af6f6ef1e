"""Server-sent events with a heartbeat, and a bounded queue for slow clients."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from zope.interface import Interface, implementer

from smartgo.env.interfaces import IClock
from smartgo.ops.problems import Problem
from smartgo.ops.web.jsonlines import LineStream
from smartgo.ops.web.request import OpsRequest
from smartgo.ops.web.stalltimer import StallTimer

STREAMS: Final = 64
"""At once, where nothing else is said."""
SHARE: Final = 4
"""The part of them that one asker may have: one of so many."""
QUEUE: Final = 256
"""Events that wait for one client."""
HEARTBEAT: Final = 15.0  # seconds
STUCK_SECONDS: Final = 30.0
LIFETIME: Final = 3660.0
"""Seconds after which a stream ends at the latest: a client that goes on listening authenticates again."""


class IStreamSource(Interface):
    """A source of a stream's events; called on the reactor thread."""

    def started(stream: EventStream) -> None:
        """The client listens; C{stream.send} reaches it from now on, at once or later."""

    def stopped() -> None:
        """The client is gone, or was cut; called once for each C{started}."""


@implementer(IPushProducer)
class EventStream:
    """
    Server-sent events to one client.

    A client that reads slowly loses the oldest of what waits, and hears how many with the next event
    (C{event: dropped}); one that reads nothing for L{STUCK_SECONDS} is cut.

    @ivar dropped: events lost since the last one that was sent.
    """

    def __init__(
        self,
        clock: IClock,
        request: OpsRequest,
        source: Any,
        ended: Callable[[EventStream], None],
        allowed: Callable[[], bool],
    ) -> None:
        """
        @param source: an L{IStreamSource}.
        @param ended: called once at the end.
        @param allowed: whether the client may still listen; asked every L{HEARTBEAT} seconds.
        """
        self._clock = clock
        self._request = request
        self._source = source
        self._ended = ended
        self._allowed = allowed
        self._waiting: deque[bytes] = deque()
        self._paused = False
        self._over = False
        self._serial = 0
        self._ends = clock.seconds() + LIFETIME
        self._timer: IDelayedCall | None = None
        self._stall_timer = StallTimer(clock, STUCK_SECONDS, self.abort)
        self.dropped = 0

    def begin(self) -> None:
        """Send the headers and start the source."""
        request = self._request
        request.setHeader(b"Content-Type", b"text/event-stream")
        request.setHeader(b"Cache-Control", b"no-store")
        request.setHeader(b"X-Accel-Buffering", b"no")
        request.notifyFinish().addBoth(lambda _: self._close())
        request.registerProducer(self, True)
        request.write(b"retry: 3000\n\n")
        self._beat_later()
        self._source.started(self)

    def send(self, event: str, data: Any) -> None:
        """
        Send one event, or queue it for a slow client.

        @param event: its kind.
        @param data: what msgspec writes as JSON.
        """
        if self._over:
            return
        self._serial += 1
        self._put(b"event: %s\nid: %d\ndata: %s\n\n" % (event.encode(), self._serial, msgspec.json.encode(data)))

    def end(self) -> None:
        """End the answer cleanly."""
        if not self._over:
            self._request.unregisterProducer()
            self._request.finish()

    def abort(self) -> None:
        """Abort the connection."""
        if not self._over:
            transport: Any = self._request.transport
            if transport is not None:
                transport.abortConnection()

    def _put(self, data: bytes) -> None:
        if not self._paused:
            self._request.write(data)
            return
        if len(self._waiting) >= QUEUE:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(data)

    # -- flow --------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Queue events: the client is slow."""
        self._paused = True
        self._stall_timer.begin()

    def resumeProducing(self) -> None:
        """Send the queued events."""
        self._paused = False
        self._stall_timer.end()
        if self.dropped:
            data = b'event: dropped\ndata: {"count":%d}\n\n' % self.dropped
            self.dropped = 0
            self._request.write(data)
        while self._waiting and not self._paused and not self._over:
            self._request.write(self._waiting.popleft())

    def stopProducing(self) -> None:
        """Do nothing: the end of the request follows."""

    def _beat_later(self) -> None:
        self._timer = self._clock.callLater(HEARTBEAT, self._beat)

    def _beat(self) -> None:
        self._timer = None
        if self._clock.seconds() >= self._ends or not self._allowed():
            self.end()
            return
        if not self._paused:
            self._request.write(b": \n\n")
        self._beat_later()

    def _close(self) -> None:
        if self._over:
            return
        self._over = True
        self._stall_timer.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._request.producer = None
        self._ended(self)
        source, self._source = self._source, None  # which has us, too
        source.stopped()


class Streams:
    """The open streams and their limits."""

    def __init__(self, clock: IClock, most: int = STREAMS) -> None:
        """@param most: at once."""
        self._clock = clock
        self._most = most
        self._share = max(1, most // SHARE)
        self._streams: dict[EventStream | LineStream, str] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, request: OpsRequest, source: Any, allowed: Callable[[], bool], owner: str = "") -> None:
        """
        Answer a request by a stream.

        @param allowed: whether the client may still listen.
        @param owner: the sender and its address: one owner may have a share of all streams.
        @raise Problem: 503, there are too many, or too many of this owner.
        """
        self._begin(request, EventStream(self._clock, request, source, self._ended, allowed), owner)

    def begin_lines(self, request: OpsRequest, chunks: AsyncGenerator[bytes, None], owner: str = "") -> None:
        """Answer a request by lines. @raise Problem: as L{begin}."""
        self._begin(request, LineStream(self._clock, request, chunks, self._ended, STUCK_SECONDS), owner)

    def _ended(self, stream: EventStream | LineStream) -> None:
        self._streams.pop(stream, None)

    def _begin(self, request: OpsRequest, stream: EventStream | LineStream, owner: str) -> None:
        wait = {"Retry-After": "5"}
        if len(self._streams) >= self._most:
            raise Problem(503, f"more than {self._most} streams are open", "too-many-streams", wait)
        if sum(one == owner for one in self._streams.values()) >= self._share:
            raise Problem(503, f"you have more than {self._share} streams open", "too-many-streams", wait)
        self._streams[stream] = owner
        request.uncount()
        stream.begin()

    def stop(self) -> None:
        """Disconnect all streams."""
        for stream in list(self._streams):
            stream.abort()
