"""Hands over the messages of a topic as they arrive, without a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from smartgo.cli.support.reading import QueuePosition, TopicReader
from smartgo.cli.support.session import ClusterSession, pause
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import BATCH, TOOLS_GROUP, PullConsumer, PullStatus
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode

HOLD: Final = 10.0  # seconds that a broker may hold a pull (long polling)
PAUSE: Final = 1.0  # seconds before a retry
LOOK: Final = 2.0  # seconds between two looks for queues that are new
_BUSY: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL)
"""Response codes by which a broker that starts or is busy declines for now."""


class TopicFollower:
    """
    Follows all queues of a topic at once, those included that registries name later: of a broker that is back, or new.

    A broker that does not answer is called again every second; a line of the log says so, and another one when it
    answers again.
    """

    def __init__(
        self,
        session: ClusterSession,
        topic: str,
        begin: QueuePosition,
        tags: str,
        take: Callable[[ReceivedMessage], bool],
    ) -> None:
        """
        @param begin: where to start in each queue. C{last} is, in a queue that is found later, the time of the start.
        @param tags: the expression to filter by.
        @param take: called with each message; returns whether to continue.
        """
        self._client = session.client
        self._clock = session.env.clock
        self._topic = topic
        self._begin = begin
        self._tags = tags
        self._take = take
        self._reader = TopicReader(session, topic)
        self._puller = PullConsumer(session.client, TOOLS_GROUP)
        self._loops: dict[MessageQueue, Deferred[None]] = {}
        self._ended: Deferred[None] = Deferred()

    async def run(self) -> None:
        """
        Follow the queues until C{take} wants no more messages.

        @raise PeerRefused: a broker refused; with code 17 at the start, there is no such topic.
        @raise CallFailed: no registry answers at the start.
        """
        started = QueuePosition("time", self._clock.wall_ms())
        later = started if self._begin.kind == "last" else self._begin
        for queue in await self._puller.queues(self._topic):
            self._follow(queue, self._begin, later)
        routes = self._client.routes
        routes.want(self._topic, self)
        routes.start()

        def look() -> None:
            known = routes.known(self._topic)
            for queue in () if known is None else known.subscribe:
                if queue not in self._loops:
                    self._follow(queue, later, later)

        looking = LoopingCall(look)
        looking.clock = self._clock
        looking.start(LOOK, now=False)
        try:
            await self._ended
        finally:
            looking.stop()
            for loop in self._loops.values():
                loop.cancel()

    def _follow(self, queue: MessageQueue, begin: QueuePosition, later: QueuePosition) -> None:
        self._loops[queue] = Deferred.fromCoroutine(self._pull(queue, begin, later)).addErrback(self._fail)

    def _fail(self, failure: Failure) -> None:
        if not self._ended.called:
            self._ended.errback(failure)

    async def _pull(self, queue: MessageQueue, begin: QueuePosition, later: QueuePosition) -> None:
        """Hand over the messages of one queue; C{later} is the start if its broker does not answer at first."""
        at: int | None = None
        while True:
            began = self._clock.seconds()
            if self._client.routes.known(self._topic) is None:
                await pause(self._clock, PAUSE)  # all brokers of the topic are gone, and may come back
                continue
            try:
                if at is None:
                    at = (await self._reader.readable(self._reader.span(queue, begin))).begin
                result = await self._reader.readable(self._puller.pull(queue, at, self._tags, BATCH, HOLD))
            except CallFailed as error:
                if isinstance(error, PeerRefused) and error.code not in _BUSY:
                    raise
                begin = later if at is None else begin
                self._client.outages.failed(queue.broker_name, error)
                self._client.routes.doubt()
                await pause(self._clock, PAUSE)
                continue
            self._client.outages.answered(queue.broker_name)
            for message in result.messages:
                if self._ended.called:
                    return
                if not self._take(message):
                    self._ended.callback(None)
                    return
            moved = result.next_offset != at
            at = result.next_offset
            if result.status is PullStatus.NO_NEW and not moved and self._clock.seconds() - began < PAUSE:
                await pause(self._clock, PAUSE)  # do not poll in a busy loop a broker that has no long polling
