"""The pull consumer for programs that block."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from smartgo.client import pullconsumer as twisted
from smartgo.client.filters import Sql
from smartgo.client.internal.subscription import EVERYTHING
from smartgo.client.pullconsumer import BATCH, PullResult
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import check_group
from smartgo.sync.client import Client


class PullConsumer:
    """
    A pull consumer: reads queues from offsets that the application chooses, at its own pace.

    It is no member of its group: it takes no part in rebalancing, and only L{commit} changes the group's offsets. It
    has no start and no stop, and works while its client does; any thread may call it.

    @ivar group: the group whose offsets are read and committed.
    """

    def __init__(self, client: Client, group: str) -> None:
        """
        @raise BadName: the group's name breaks the rules.
        """
        check_group(group)
        self.group = group
        self._client = client

    def __enter__(self) -> Self:
        """Return the consumer: it can stand in an C{with} beside those that need one."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing."""

    @property
    def _running(self) -> twisted.PullConsumer:
        return twisted.PullConsumer(self._client.inner, self.group)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """
        Return the queues of a topic, sorted.

        @raise PeerRefused: code 17, no broker has this topic.
        @raise CallFailed: no registry answers.
        """
        return self._client.wait(lambda: self._running.queues(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: str | Sql = EVERYTHING,
        limit: int = BATCH,
        hold: float = 0.0,
    ) -> PullResult:
        """
        Read messages of a queue from an offset on.

        @param expression: the tags to read: C{TagA || TagB}, or C{*} for all messages, or an SQL92 expression.
        @param limit: the maximum number of messages; brokers have limits of their own.
        @param hold: seconds that the broker may hold the pull until a message arrives (a long poll).
        @raise SubscriptionParseFailed: the expression names no tag.
        @raise PeerRefused: the broker declined.
        @raise CallFailed: it did not answer.
        """
        return self._client.wait(lambda: self._running.pull(queue, offset, expression, limit, hold))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the end of a queue: the offset that its next message will have. Fails as L{pull} does."""
        return self._client.wait(lambda: self._running.max_offset(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message still there. Fails as L{pull} does."""
        return self._client.wait(lambda: self._running.min_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """
        Return the offset of the message that was stored nearest to a time. Fails as L{pull} does.

        @param timestamp_ms: wall clock, in ms.
        """
        return self._client.wait(lambda: self._running.offset_at(queue, timestamp_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in a queue; C{None} if it has none. Fails if the broker does not answer."""
        return self._client.wait(lambda: self._running.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's offset in a queue: that of the message to read next. Fails as L{pull} does."""
        self._client.wait(lambda: self._running.commit(queue, offset))
