"""
Parked pulls (C{broker.md} section 7): woken by an arrival in their queue, answered when their time is over.

One timer serves all of them: deadlines are rounded up to half seconds, and pulls of the same half second lie in one
bucket. With nothing parked there is no timer.

A pull whose queue grows by messages that its filter refuses is answered a few seconds later, with the offset behind
them: else the group would seem to lag until its time is over. RocketMQ looks at all parked pulls every 5 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.remoting.dispatch import Held
from smartgo.remoting.interfaces import Answer, IPeer
from smartgo.store.interfaces import IArrivalListener, IMessageFilter

K = TypeVar("K")

_BUCKETS_PER_SECOND: Final = 2
_OVER_LIMIT_SECONDS: Final = 1.0
_PASSED_SECONDS: Final = 5.0


class Parked:
    """One parked pull."""

    __slots__ = ("answer", "bucket", "codes", "offset", "passed", "peer", "queue", "resume", "woken")

    def __init__(
        self,
        peer: IPeer,
        queue: tuple[str, int] | None,
        offset: int,
        codes: frozenset[int] | None,
        resume: Callable[[], Answer | Deferred[Answer]],
        answer: Deferred[Answer],
    ) -> None:
        self.peer = peer
        self.queue = queue
        self.offset = offset
        self.codes = codes
        self.resume = resume
        self.answer = answer
        self.bucket = 0
        self.passed = False  # by messages that the filter refused
        self.woken = False


@implementer(IArrivalListener)
class PullHold:
    """
    All parked pulls of a broker (limits: reliability L16).

    @ivar count: how many are parked.
    @ivar limit: how many may be, C{peer_limit} of one connection; changed while the broker runs.
    """

    def __init__(self, clock: IClock, limit: int = 65536, peer_limit: int = 16384) -> None:
        """
        @param limit: how many may be parked in all.
        @param peer_limit: how many of one connection.
        """
        self._clock = clock
        self.limit = limit
        self.peer_limit = peer_limit
        self._by_queue: dict[tuple[str, int], dict[Parked, None]] = {}
        self._by_peer: dict[IPeer, dict[Parked, None]] = {}
        self._buckets: dict[int, dict[Parked, None]] = {}
        self._timer: IDelayedCall | None = None
        self._timer_bucket = 0
        self.count = 0

    def park(
        self,
        peer: IPeer,
        topic: str,
        queue_id: int,
        offset: int,
        filter: IMessageFilter | None,
        seconds: float,
        resume: Callable[[], Answer | Deferred[Answer]],
    ) -> Deferred[Answer]:
        """
        Park a pull; fires with what C{resume} answers, once its queue grew past C{offset} or its time is over.

        Its connection's end, or cancelling, ends it. Past the limits nothing wakes it, and it is answered after one
        second: at once would make the client spin.

        @param seconds: how long at most.
        """
        mine = self._by_peer.setdefault(peer, {})
        queue: tuple[str, int] | None = (topic, queue_id)
        if self.count >= self.limit or len(mine) >= self.peer_limit:
            queue = None
            seconds = min(seconds, _OVER_LIMIT_SECONDS)
        answer = Held(lambda _: self._cancelled(held))
        held = Parked(peer, queue, offset, None if filter is None else filter.hashes(), resume, answer)
        mine[held] = None
        if queue is not None:
            self._by_queue.setdefault(queue, {})[held] = None
        held.bucket = self._bucket(seconds)
        self._buckets.setdefault(held.bucket, {})[held] = None
        self.count += 1
        self._set_timer()
        return answer

    def _bucket(self, seconds: float) -> int:
        return int((self._clock.seconds() + seconds) * _BUCKETS_PER_SECOND) + 1

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Wake what waits for this queue and lets one of the new messages in."""
        waiting = self._by_queue.get((topic, queue_id))
        if not waiting:
            return
        for held in list(waiting):
            if next_offset > held.offset:
                if held.codes is None or not held.codes.isdisjoint(tag_codes):
                    self._wake(held)
                elif not held.passed:
                    self._hasten(held)

    def stop(self) -> None:
        """Answer all that is parked, and leave no timer."""
        for mine in list(self._by_peer.values()):
            for held in list(mine):
                self._wake(held)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self, held: Parked) -> None:
        self._forget(held)
        try:
            answer = held.resume()
        except Exception:
            held.answer.errback()
            return
        if isinstance(answer, Deferred):
            answer.chainDeferred(held.answer)
        else:
            held.answer.callback(answer)

    def _hasten(self, held: Parked) -> None:
        """Messages that are not for it came: let it go on behind them soon."""
        held.passed = True
        bucket = self._bucket(_PASSED_SECONDS)
        if bucket < held.bucket:
            _drop(self._buckets, held.bucket, held)
            held.bucket = bucket
            self._buckets.setdefault(bucket, {})[held] = None
            self._set_timer()

    def _cancelled(self, held: Parked) -> None:
        """The connection ended: forget it. The server stops: answer what there is."""
        if held.woken:
            return  # it is being read for a second time already
        if held.peer.open:
            self._wake(held)
        else:
            self._forget(held)

    def _forget(self, held: Parked) -> None:
        held.woken = True
        self.count -= 1
        if held.queue is not None:
            _drop(self._by_queue, held.queue, held)
        _drop(self._by_peer, held.peer, held)
        _drop(self._buckets, held.bucket, held)

    def _set_timer(self) -> None:
        if not self._buckets:
            return
        first = min(self._buckets)
        wait = max(0.0, first / _BUCKETS_PER_SECOND - self._clock.seconds())
        if self._timer is None:
            self._timer = self._clock.callLater(wait, self._expire)
        elif first < self._timer_bucket:
            self._timer.reset(wait)
        self._timer_bucket = first

    def _expire(self) -> None:
        self._timer = None
        now = int(self._clock.seconds() * _BUCKETS_PER_SECOND + 1e-6)
        for bucket in sorted(self._buckets):
            if bucket > now:
                break
            for held in list(self._buckets.get(bucket, ())):
                self._wake(held)
        self._set_timer()


def _drop(table: dict[K, dict[Parked, None]], key: K, held: Parked) -> None:
    inner = table[key]
    del inner[held]
    if not inner:
        del table[key]
