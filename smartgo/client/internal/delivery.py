"""
Delivery of pulled messages to the application's listener: concurrently, or in order queue by queue.

Source: C{client/impl/consumer/ConsumeMessageConcurrentlyService.java}, C{ConsumeMessageOrderlyService.java}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.internal.locks import QueueLocks
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.internal.sendback import SendBack
from smartgo.client.listening import ConsumeLater, ConsumerSettings, Listener, NotConsumed, outcome
from smartgo.client.messages import ReceivedMessage
from smartgo.env.interfaces import IClock

LOCAL_RETRY: Final = 5.0  # seconds until messages that nobody takes back are consumed again here
SUSPENSION: Final = 1.0  # seconds until an orderly queue is tried again
LATE_LEVEL: Final = 3  # delay level of messages whose listener call takes too long
RELOCK: Final = 3.0  # seconds between two tries to get a lost lock back

_SLICE: Final = 0.02  # seconds of listener calls between two looks at the network


class Delivery(Protocol):
    """Gives messages to the listener."""

    def begun(self) -> list[float]:
        """Return when each listener call that is under way began, by the monotonic clock."""

    def arrived(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Deliver the messages of a pull, which are in C{held} already."""

    def give_back_late(self) -> Deferred[None]:
        """Return messages whose listener call takes too long to the broker, for redelivery; fires when that is done."""

    def stop(self) -> None:
        """Start no more listener calls."""


class ConcurrentDelivery:
    """Any messages at the same time, C{concurrency} calls at most; failed ones go back to the broker."""

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        listener: Listener,
        settings: ConsumerSettings,
        back: SendBack,
        pauses: Pauses,
        meters: Callable[[str], TopicMeters],
    ) -> None:
        """
        @param meters: returns the meters of a topic.
        """
        self._clock = clock
        self._listener = listener
        self._settings = settings
        self._back = back
        self._pauses = pauses
        self._meters = meters
        self._waiting: deque[tuple[ProcessQueue, list[ReceivedMessage]]] = deque()
        self._under_way: dict[int, tuple[ProcessQueue, list[ReceivedMessage], float]] = {}
        self._calls = 0
        self._working = False
        self._stopped = False
        self._turn: IDelayedCall | None = None

    def arrived(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Split the messages into batches and call the listener."""
        size = self._settings.batch
        for begin in range(0, len(messages), size):
            self._waiting.append((held, messages[begin : begin + size]))
        self._work()

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True
        self._waiting.clear()
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.cancel()

    def begun(self) -> list[float]:
        """Return when each listener call that is under way began, by the monotonic clock."""
        return [begin for _, _, begin in self._under_way.values()]

    def _next_turn(self) -> None:
        self._turn = None
        self._work()

    def _work(self) -> None:
        if self._working or self._turn is not None:
            return
        self._working = True
        end = self._clock.seconds() + _SLICE
        try:
            while self._waiting and len(self._under_way) < self._settings.concurrency and not self._stopped:
                now = self._clock.seconds()
                if now > end:
                    self._turn = self._clock.callLater(0, self._next_turn)
                    break
                held, messages = self._waiting.popleft()
                if not held.dropped:
                    self._begin(held, messages, now)
        finally:
            self._working = False

    def _begin(self, held: ProcessQueue, messages: list[ReceivedMessage], now: float) -> None:
        self._calls = call = self._calls + 1
        self._under_way[call] = (held, messages, now)
        held.begin()
        try:
            waits = outcome(self._listener, messages)
        except Exception:
            self._failed(Failure(), call)
            return
        if waits is None:
            self._succeeded(None, call)
        else:
            waits.addCallbacks(self._succeeded, self._failed, callbackArgs=(call,), errbackArgs=(call,))

    def _succeeded(self, _: Any, call: int) -> None:
        now = self._clock.seconds()
        held, messages = self._over(call, now, success=True)
        held.remove(messages)
        held.ended(now)
        if not self._working:
            self._work()

    def _failed(self, failure: Failure, call: int) -> None:
        held, messages = self._over(call, self._clock.seconds(), success=False)
        error = failure.value
        if isinstance(error, NotConsumed):
            held.ended(self._clock.seconds())
            self._work()
            return
        if not isinstance(error, ConsumeLater):
            self._log.failure("the listener failed for message {id}", failure, id=messages[0].message_id)
        if not self._settings.shares:
            held.remove(messages)
            held.ended(self._clock.seconds())
        else:
            level = error.delay_level if isinstance(error, ConsumeLater) else 0
            giving = Deferred.fromCoroutine(self._give_back(held, messages, level))
            giving.addErrback(self._not_given)
            giving.addBoth(lambda _: held.ended(self._clock.seconds()))
        self._work()

    def _over(self, call: int, now: float, success: bool) -> tuple[ProcessQueue, list[ReceivedMessage]]:
        held, messages, begin = self._under_way.pop(call)
        self._meters(messages[0].topic).consumed(len(messages), now - begin, success)
        return held, messages

    def _not_given(self, failure: Failure) -> None:
        self._log.failure("failed messages could not be sent back", failure)

    async def _give_back(self, held: ProcessQueue, messages: list[ReceivedMessage], level: int) -> None:
        kept = []
        for message in messages:
            if held.dropped:
                return  # its next owner gets them all
            if message not in held:
                continue  # it took too long and was given back already
            if await self._back.give_back(message, level):
                held.remove([message])
            else:
                message.reconsume_times += 1
                kept.append(message)
        if kept:
            again = Deferred.fromCoroutine(self._again(held, kept))
            again.addErrback(self._not_given)

    async def _again(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        await self._pauses.of(LOCAL_RETRY)
        if not self._stopped:
            self.arrived(held, messages)

    def give_back_late(self) -> Deferred[None]:
        """Return the messages of calls that take too long; the outcome of such a call is ignored."""
        return Deferred.fromCoroutine(self._give_back_late())

    async def _give_back_late(self) -> None:
        if not self._settings.shares:
            return
        limit = self._settings.consume_timeout
        before = self._clock.seconds() - limit
        for held, messages, begin in list(self._under_way.values()):
            if begin > before or held.dropped:
                continue
            late = [message for message in messages if message in held]
            if late:
                self._log.warn(
                    "message {id} of {topic} was not acknowledged within {limit:g} s and is delivered again"
                    " (ConsumerSettings.consume_timeout)",
                    id=late[0].message_id,
                    topic=late[0].topic,
                    limit=limit,
                )
            for message in late:
                if message in held and await self._back.give_back(message, LATE_LEVEL):
                    held.remove([message])


class OrderlyDelivery:
    """One batch of a queue at a time, in order; a failed one is tried again in place."""

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        listener: Listener,
        settings: ConsumerSettings,
        back: SendBack,
        pauses: Pauses,
        meters: Callable[[str], TopicMeters],
        locks: QueueLocks,
    ) -> None:
        """
        @param meters: returns the meters of a topic.
        """
        self._clock = clock
        self._listener = listener
        self._settings = settings
        self._back = back
        self._pauses = pauses
        self._meters = meters
        self._locks = locks
        self._active: set[ProcessQueue] = set()
        self._begun: dict[ProcessQueue, float] = {}  # of the calls under way
        self._stopped = False

    def arrived(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Call the listener, unless a call for this queue is in progress."""
        if held not in self._active and not self._stopped:
            self._active.add(held)
            Deferred.fromCoroutine(self._consume(held)).addErrback(self._broke)

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True

    def begun(self) -> list[float]:
        """Return when each listener call that is under way began, by the monotonic clock."""
        return list(self._begun.values())

    def give_back_late(self) -> Deferred[None]:
        """Do nothing: the next messages of the queue wait for the call, however long it takes."""
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def _broke(self, failure: Failure) -> None:
        self._log.failure("consumption of an orderly queue has stopped", failure)

    async def _consume(self, held: ProcessQueue) -> None:
        try:
            end = self._clock.seconds() + _SLICE
            while True:
                if self._clock.seconds() > end:
                    await self._pauses.of(0)
                    end = self._clock.seconds() + _SLICE
                if self._stopped or held.dropped:
                    return
                if not await self._ours(held):
                    continue
                messages = held.first(self._settings.batch)
                if not messages:
                    return
                await self._call(held, messages)
        finally:
            self._active.discard(held)

    async def _ours(self, held: ProcessQueue) -> bool:
        """Return whether this consumer holds the lock; if another member does, wait first."""
        if not self._settings.locks or held.lock_holds(self._clock.seconds()):
            return True
        granted, _ = await self._locks.lock([held.queue])
        held.lock(held.queue in granted, self._clock.seconds())
        if not held.locked:
            await self._pauses.of(RELOCK)
        return held.locked and not held.dropped and not self._stopped

    async def _call(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._begun[held] = begin = self._clock.seconds()
        held.begin()
        done = True
        try:
            waits = outcome(self._listener, messages)
            if waits is not None:
                await waits
        except (ConsumeLater, NotConsumed):
            done = False
        except Exception:
            done = False
            self._log.failure("the listener failed for message {id}", id=messages[0].message_id)
        finally:
            del self._begun[held]
        self._meters(messages[0].topic).consumed(len(messages), self._clock.seconds() - begin, done)
        try:
            if done:
                held.remove(messages)
                return
            again = False
            for message in messages:
                again = not await self._put_aside(held, message) or again
        finally:
            held.ended(self._clock.seconds())
        if again:
            await self._pauses.of(SUSPENSION)

    async def _put_aside(self, held: ProcessQueue, message: ReceivedMessage) -> bool:
        """Move a message that failed too often to the dead letters; return whether it was moved."""
        limit = self._settings.max_reconsume
        too_often = limit >= 0 and message.reconsume_times >= limit and self._settings.shares
        if too_often and await self._back.send_copy(message):
            held.remove([message])
            return True
        message.reconsume_times += 1
        return False
