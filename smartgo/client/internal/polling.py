"""
The parts of a lite pull consumer: the pulls of a queue, and offsets that are committed only when the program says so.

Source: C{client/impl/consumer/DefaultLitePullConsumerImpl.java}, C{AssignedMessageQueue.java}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.offsets import IOffsetStore
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.internal.pulling import TIMEOUT, Pulling
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import PullResult
from smartgo.schema.bodies import MessageQueue, SubscriptionData

HOLD: Final = 20.0
"""Seconds that the broker may wait for a message to come."""


class Puller(Protocol):
    """The consumer of pulls, as they see it."""

    pauses: Pauses

    def hindrance(self, held: ProcessQueue) -> Deferred[None] | None:
        """Return what to wait for before a queue is pulled again; C{None} for nothing."""

    def arrived(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take note of messages that a pull brought."""

    def moved(self, held: ProcessQueue, offset: int) -> None:
        """Go on at an offset that the queue has."""


class LitePulling(Pulling):
    """The pulls of one queue of a lite pull consumer: each with its subscription, and none with an offset to commit."""

    def __init__(
        self,
        member: Membership,
        held: ProcessQueue,
        wants: SubscriptionData,
        meters: TopicMeters,
        puller: Puller,
    ) -> None:
        super().__init__(member, held, wants, puller.pauses, meters, puller.arrived, puller.moved)
        self._puller = puller

    def _hindrance(self) -> Deferred[None] | None:
        return super()._hindrance() or self._puller.hindrance(self.held)

    async def _ask(self) -> PullResult:
        held = self.held
        return await self._calls.pull(
            held.queue,
            held.next_offset,
            self._wants,
            self._settings.pull_batch,
            HOLD,
            TIMEOUT,
            broker_id=held.broker_id,
            send_subscription=True,
            lite=True,
        )


@implementer(IOffsetStore)
class PolledOffsets:
    """
    The offsets of a group whose member commits when it wants to.

    @ivar polled: by queue, the offset behind the messages that the program was given.
    """

    def __init__(self, store: IOffsetStore) -> None:
        """
        @param store: where committed offsets are kept.
        """
        self._store = store
        self.polled: dict[MessageQueue, int] = {}

    def load(self) -> None:
        """Read the offsets of this machine."""
        self._store.load()

    def read(self, queue: MessageQueue) -> Deferred[int | None]:
        """Return the committed offset of a queue."""
        return self._store.read(queue)

    def known(self, queue: MessageQueue) -> int | None:
        """Return the offset that was committed last."""
        return self._store.known(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Do nothing: that messages were taken from a queue does not commit them."""

    def commit(self, offsets: dict[MessageQueue, int]) -> None:
        """Set offsets that the next L{persist} saves."""
        for queue, offset in offsets.items():
            self._store.update(queue, offset)

    def persist(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """Save the offsets that were committed."""
        return self._store.persist(queues)

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue that is no longer assigned."""
        self.polled.pop(queue, None)
        self._store.forget(queue)


def timed_out(result: object, _: float) -> None:
    """
    End a wait that took too long without a result.

    @raise CancelledError: it was ended by something else.
    """
    if isinstance(result, Failure):
        result.trap(CancelledError)
