"""
The pulls of one queue of a push consumer, one after another as long as the queue is assigned to it.

Source: C{client/impl/consumer/DefaultMQPushConsumerImpl.java}, C{pullMessage}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import PullResult, PullStatus
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import SubscriptionData
from smartgo.schema.codes import ResponseCode

HOLD: Final = 15.0  # seconds that the broker may wait for a message to come
TIMEOUT: Final = 30.0  # seconds for the answer to a pull
FLOW_CONTROL: Final = 0.02  # seconds before the next pull when the broker has too much to do
FAILURE: Final = 3.0  # seconds before the next pull after a failure
LOCK_WAIT: Final = 1.0  # seconds between two looks for a lost lock

_UNKNOWN_TO_BROKER: Final = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)


class Pulling:
    """
    The pulls of one queue.

    @ivar held: what they brought and is not consumed yet.
    """

    _log = Logger()

    def __init__(
        self,
        member: Membership,
        held: ProcessQueue,
        wants: SubscriptionData,
        pauses: Pauses,
        meters: TopicMeters,
        arrived: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        moved: Callable[[ProcessQueue, int], None],
    ) -> None:
        """
        @param arrived: called with what a pull brought, which is in C{held} by then.
        @param moved: called with where to go on when the queue does not have the offset pulled for; nothing more is
            pulled then.
        """
        self.held = held
        self._client = member.client
        self._outages = member.client.outages
        self._clock = member.client.env.clock
        self._wants = wants
        self._settings = member.settings
        self._calls = member.calls
        self._offsets = member.offsets
        self._pauses = pauses
        self._meters = meters
        self._arrived = arrived
        self._moved = moved
        self._stopped = False
        self._work: Deferred[None] | None = None

    def start(self) -> None:
        """Start pulling."""
        self._work = Deferred.fromCoroutine(self._run())
        self._work.addErrback(self._ended)

    def stop(self) -> None:
        """Stop pulling; the messages held stay."""
        self._stopped = True
        work, self._work = self._work, None
        if work is not None:
            work.cancel()

    def _ended(self, failure: Failure) -> None:
        if not (self._stopped and failure.check(CancelledError)):
            self._log.failure("pulling from {queue} has stopped", failure, queue=self.held.queue)

    async def _run(self) -> None:
        held = self.held
        while not (self._stopped or held.dropped or self._pauses.ended):
            hindrance = self._hindrance()
            if hindrance is not None:
                await hindrance
            else:
                pause = await self._pull()
                if pause:
                    await self._pauses.of(pause)

    def _hindrance(self) -> Deferred[None] | None:
        """Return what to wait for before the next pull; C{None} for nothing."""
        if self.held.full is not None:
            return self.held.room()
        if self._settings.locks and not self.held.lock_holds(self._clock.seconds()):
            return self._pauses.of(LOCK_WAIT)
        return None

    async def _pull(self) -> float:
        """Pull once; return how long to wait before the next pull, in seconds."""
        held = self.held
        begin = self._clock.seconds()
        try:
            result = await self._ask()
        except PeerRefused as refusal:
            return self._refused(refusal)
        except CallFailed as error:
            self._outages.failed(held.queue.broker_name, error)
            self._client.routes.doubt()
            return FAILURE
        if self._outages.down:
            self._outages.answered(held.queue.broker_name)
        if self._stopped or held.dropped:
            return 0.0
        held.pulled_at = now = self._clock.seconds()
        return self._take(result, now - begin)

    async def _ask(self) -> PullResult:
        """Send the pull; raises as L{QueueCalls.pull<smartgo.client.pullconsumer.QueueCalls.pull>} does."""
        held = self.held
        return await self._calls.pull(
            held.queue,
            held.next_offset,
            self._wants,
            self._settings.pull_batch,
            HOLD,
            TIMEOUT,
            commit=self._to_commit(),
            broker_id=held.broker_id,
        )

    def _to_commit(self) -> int | None:
        """Return the offset to commit with a pull, if the broker stores offsets."""
        held = self.held
        if not self._settings.shares:
            return None
        self._offsets.update(held.queue, held.commit_offset)
        return held.commit_offset

    def _take(self, result: PullResult, seconds: float) -> float:
        held = self.held
        if result.status is PullStatus.OFFSET_MOVED:
            self._log.warn(
                "{queue} has no offset {offset}: going on at {next}",
                queue=held.queue,
                offset=held.next_offset,
                next=result.next_offset,
            )
            self._stopped = True
            # What is held and not consumed yet is dropped with the queue: it is pulled again.
            self._moved(held, max(result.min_offset, min(result.next_offset, held.commit_offset)))
            return 0.0
        progress = result.next_offset != held.next_offset
        held.next_offset = result.next_offset
        held.broker_id = result.broker_id
        if result.messages:
            held.put(result.messages)
            self._meters.pulls.add(len(result.messages), seconds)
            self._arrived(held, result.messages)
        # A broker that does not hold pulls, or cannot hold any more of them, is not to be asked in a circle.
        return 0.0 if progress or seconds >= FLOW_CONTROL else FLOW_CONTROL

    def _refused(self, refusal: PeerRefused) -> float:
        if refusal.code == ResponseCode.FLOW_CONTROL:
            return FLOW_CONTROL
        if refusal.code in _UNKNOWN_TO_BROKER:
            # The broker began anew and has forgotten what we want.
            self._log.info("{queue}: the broker asks for a heartbeat: {error}", queue=self.held.queue, error=refusal)
            self._client.heartbeat()
        else:
            self._log.warn("{queue}: a pull is refused: {error}", queue=self.held.queue, error=refusal)
        return FAILURE
