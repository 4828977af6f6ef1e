"""
Long polls (docs/spec/broker#pull): pulls that are held until a message arrives in their queue, or their time is over.

One timer serves all of them: deadlines are rounded up to half seconds, and pulls of the same half second lie in one
bucket. A heap keeps the buckets in order, so that holding a pull costs the same however many are held. While
none is held there is no timer.

A pull whose queue grows by messages that its filter refuses is answered a few seconds later, with the offset behind
them: else the group would seem to lag until its time is over. RocketMQ looks at all held pulls every 5 s.

How many pulls may be held is limited in all, and shared by addresses and connections (L{Shares}). A pull beyond the
limits becomes a short poll: an arrival wakes it too, but it waits no longer than a pull of a RocketMQ broker without
long polling, and counts as a request in flight, of which a connection has few. Beyond the same number of short polls
the broker answers that it is busy; RocketMQ's clients then wait for some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.tables.shares import Shares, source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import SystemBusy
from smartgo.remoting.dispatch import LongPoll
from smartgo.remoting.interfaces import Answer, IPeer
from smartgo.store.interfaces import IArrivalListener, IMessageFilter

_BUCKETS_PER_SECOND: Final = 2
_PASSED_SECONDS: Final = 5.0
_TAGS_A_PLACE: Final = 16
"""A pull that wants more tags than this takes more than one place of the limits: its filter takes memory too."""

Scan = Callable[[int, int], "int | None"]
"""Looks at messages from an offset to an end; returns the offset behind them, C{None} where the pull is answered."""


class _HeldReads(NamedTuple):
    """The reads of a held pull; see L{LongPollTable.hold}."""

    resume: Callable[[], Answer | Deferred[Answer]]
    scan: Scan | None


def places_of(codes: frozenset[int] | None) -> int:
    """Return how many places of the limits a pull with these tag hashes takes."""
    return 1 if codes is None else 1 + len(codes) // _TAGS_A_PLACE


class HeldPull:
    """
    One pull that waits for messages.

    @ivar places: how many places of the limits it takes.
    @ivar short: it is a short poll.
    @ivar scan: see L{LongPollTable.hold}.
    @ivar seen: the offset behind what C{scan} looked at.
    """

    __slots__ = (
        "answer", "bucket", "codes", "offset", "peer", "places", "queue", "resume", "scan", "seen", "short", "woken"
    )  # fmt: skip

    def __init__(
        self,
        peer: IPeer,
        queue: tuple[str, int],
        offset: int,
        codes: frozenset[int] | None,
        reading: _HeldReads,
        short: bool,
        end: Callable[[HeldPull], None],
    ) -> None:
        """@param end: called where the answer is cancelled."""
        self.peer = peer
        self.queue = queue
        self.offset = offset
        self.codes = codes
        self.resume, self.scan = reading
        self.seen = offset
        self.places = places = places_of(codes)
        self.short = short
        self.answer: Deferred[Answer] = (Deferred if short else LongPoll)(lambda _: end(self))
        if places > 1 and isinstance(self.answer, LongPoll):
            self.answer.size = places * LongPoll.size
        self.bucket = 0
        self.woken = False

    def passed_by(self, end: int) -> bool:
        """Tell whether none of the messages before an offset passes the filter by content, where there is one."""
        if self.scan is None:
            return False
        seen = self.scan(self.seen, end)
        if seen is None:
            return False
        self.seen = seen
        return True


class _Waiting:
    """
    The held pulls of one queue, so that an arrival finds those that it wakes without a look at all others.

    @ivar plain: those that want every message.
    @ivar tagged: those that want some tags, by the hash of each.
    @ivar fresh: those of them that no other message has passed so far.
    """

    __slots__ = ("fresh", "plain", "tagged")

    def __init__(self) -> None:
        self.plain: dict[HeldPull, None] = {}
        self.tagged: dict[int, dict[HeldPull, None]] = {}
        self.fresh: dict[HeldPull, None] = {}

    def add(self, held: HeldPull) -> None:
        """Add a held pull to this queue's."""
        if held.codes is None:
            self.plain[held] = None
            return
        self.fresh[held] = None
        for code in held.codes:
            same = self.tagged.get(code)
            if same is None:
                self.tagged[code] = {held: None}
            else:
                same[held] = None

    def remove(self, held: HeldPull) -> None:
        """Remove a held pull from this queue's."""
        if held.codes is None:
            del self.plain[held]
            return
        self.fresh.pop(held, None)
        for code in held.codes:
            same = self.tagged[code]
            del same[held]
            if not same:
                del self.tagged[code]

    def woken_by(self, tag_codes: Sequence[int]) -> list[HeldPull]:
        """Return the pulls that want one of some messages; one may be there twice."""
        found = list(self.plain)
        tagged = self.tagged
        if tagged:
            for code in tag_codes if len(tag_codes) == 1 else set(tag_codes):
                if code in tagged:
                    found += tagged[code]
        return found


class _Pulls:
    """The held pulls of one connection."""

    __slots__ = ("held", "places", "source")

    def __init__(self, source: str) -> None:
        self.held: dict[HeldPull, None] = {}
        self.places = 0  # that its long polls take
        self.source = source


@implementer(IArrivalListener)
class LongPollTable:
    """
    All held pulls of a broker (limits: reliability L16).

    @ivar count: how many are held.
    """

    def __init__(
        self, clock: IClock, settings: CurrentSettings, buggify: Callable[[str], bool] = lambda name: False
    ) -> None:
        """
        @param settings: how many may be held, in all and of one connection, and for how long at most.
        @param buggify: see L{smartgo.env.interfaces.IEnvironment.buggify}.
        """
        self._clock = clock
        self._buggify = buggify
        self._settings = settings
        self._long_polls = Shares(self._limit)
        self._short_polls = Shares(self._limit)
        self._by_queue: dict[tuple[str, int], _Waiting] = {}
        self._by_peer: dict[IPeer, _Pulls] = {}
        self._buckets: dict[int, dict[HeldPull, None]] = {}
        self._order: list[int] = []  # the heap of the buckets' numbers
        self._timer: IDelayedCall | None = None
        self._timer_bucket = 0
        self.count = 0

    def _limit(self) -> int:
        """Return the maximum number of held pulls."""
        return self._settings.limits.max_held_pulls

    def hold(
        self,
        peer: IPeer,
        topic: str,
        queue_id: int,
        offset: int,
        filter: IMessageFilter | None,
        seconds: float,
        resume: Callable[[], Answer | Deferred[Answer]],
        scan: Scan | None = None,
    ) -> Deferred[Answer]:
        """
        Hold a pull as a long poll.

        It fires with what C{resume} answers, once its queue grew past C{offset} or its time is over.

        Its connection's end, or cancelling, ends it.

        @param seconds: how long at most.
        @param resume: is kept as long as the pull is held, with all that it refers to.
        @param scan: for a filter that decides by the content of messages: looks at those that arrive.
        @raise SystemBusy: too many are held.
        """
        pulls = self._by_peer.get(peer)
        if pulls is None:
            pulls = _Pulls(source_of(peer.address))
        codes = None if filter is None else filter.hashes()
        places = places_of(codes)
        short = not self._take(pulls, places)
        if short:
            if not self._short_polls.take(pulls.source, places):
                raise SystemBusy(f"too many pulls wait for messages, {self.count} in all: try again later")
            seconds = min(seconds, self._settings.broker.short_polling_time_mills)
        held = HeldPull(peer, (topic, queue_id), offset, codes, _HeldReads(resume, scan), short, self._cancelled)
        self._by_peer[peer] = pulls
        pulls.held[held] = None
        waiting = self._by_queue.get(held.queue)
        if waiting is None:
            waiting = self._by_queue[held.queue] = _Waiting()
        waiting.add(held)
        self.count += 1
        self._expire_in(held, min(seconds, self._settings.broker.long_polling_max_time_mills))
        return held.answer

    def _take(self, pulls: _Pulls, places: int) -> bool:
        """Take places for a long poll; a connection gets what its address may still have, as an address does of all."""
        taken = pulls.places + places
        limit = self._settings.limits.max_held_pulls_per_connection
        if taken > limit or not self._long_polls.take(pulls.source, places, pulls.places):
            return False
        pulls.places = taken
        return True

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Wake what waits for this queue and lets one of the new messages in."""
        waiting = self._by_queue.get((topic, queue_id))
        if waiting is None:
            return
        for held in waiting.woken_by(tag_codes):
            if next_offset > held.offset and not held.woken:
                if held.scan is not None and held.passed_by(next_offset):
                    self._hasten(held)
                else:
                    self._wake(held)
        if waiting.fresh:
            for held in list(waiting.fresh):
                if next_offset > held.offset:
                    del waiting.fresh[held]
                    self._hasten(held)

    def disconnected(self, peer: IPeer) -> None:
        """Forget the pulls of a connection that has ended."""
        pulls = self._by_peer.get(peer)
        if pulls is not None:
            for held in list(pulls.held):
                held.answer.cancel()

    def stop(self) -> None:
        """Answer all pulls that are held, and leave no timer."""
        for pulls in list(self._by_peer.values()):
            for held in list(pulls.held):
                if not held.woken:
                    self._wake(held)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self, held: HeldPull) -> None:
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

    def _hasten(self, held: HeldPull) -> None:
        """Answer a pull soon whose queue got messages that are not for it, with the offset behind them."""
        if self._bucket(_PASSED_SECONDS) < held.bucket:
            del self._buckets[held.bucket][held]
            self._expire_in(held, _PASSED_SECONDS)

    def _cancelled(self, held: HeldPull) -> None:
        """Forget a pull whose connection ended; answer what there is where the server stops."""
        if held.woken:
            return  # it is being read for a second time already
        if held.peer.open:
            self._wake(held)
        else:
            self._forget(held)

    def _forget(self, held: HeldPull) -> None:
        held.woken = True
        self.count -= 1
        waiting = self._by_queue[held.queue]
        waiting.remove(held)
        if not waiting.plain and not waiting.tagged:
            del self._by_queue[held.queue]
        pulls = self._by_peer[held.peer]
        del pulls.held[held]
        if not pulls.held:
            del self._by_peer[held.peer]
        if held.short:
            self._short_polls.give_back(pulls.source, held.places)
        else:
            self._long_polls.give_back(pulls.source, held.places)
            pulls.places -= held.places
        del self._buckets[held.bucket][held]  # an empty bucket goes when its turn comes

    # -- time --------------------------------------------------------------------------------------------------

    def _bucket(self, seconds: float) -> int:
        return int((self._clock.seconds() + seconds) * _BUCKETS_PER_SECOND) + 1

    def _expire_in(self, held: HeldPull, seconds: float) -> None:
        held.bucket = number = int((self._clock.seconds() + seconds) * _BUCKETS_PER_SECOND) + 1
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket[held] = None
            return
        self._buckets[number] = {held: None}
        heappush(self._order, number)
        self._set_timer()

    def _set_timer(self) -> None:
        order = self._order
        while order and not self._buckets[order[0]]:
            del self._buckets[heappop(order)]
        if not order:
            return
        first = order[0]
        wait = max(0.0, first / _BUCKETS_PER_SECOND - self._clock.seconds())
        if self._timer is None:
            self._timer = self._clock.callLater(wait, self._expire)
        elif first < self._timer_bucket:
            self._timer.reset(wait)
        self._timer_bucket = first

    def _expire(self) -> None:
        self._timer = None
        early = _PASSED_SECONDS if self._buggify("longpoll.early") else 0.0
        now = int((self._clock.seconds() + early) * _BUCKETS_PER_SECOND + 1e-6)
        order = self._order
        while order and (number := order[0]) <= now:
            bucket = self._buckets[number]
            for held in list(bucket):
                if not held.woken:
                    self._wake(held)
            if bucket:
                break  # held since this very half second
            if order and order[0] == number:
                del self._buckets[heappop(order)]
        self._set_timer()
