"""
The pull consumer: pulls by offset, and the offsets of queues and groups.

Source: C{client/impl/consumer/PullAPIWrapper.java}, C{client/impl/MQClientAPIImpl.java}.
"""

from __future__ import annotations

from collections.abc import Coroutine
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
from twisted.internet.defer import Deferred

from smartgo.client.client import Client, header_of, succeeded
from smartgo.client.filters import Sql
from smartgo.client.internal.route import MASTER, TopicRoute
from smartgo.client.internal.subscription import EVERYTHING, subscription, wanted
from smartgo.client.internal.tracing import events_of
from smartgo.client.messages import ReceivedMessage, decode_messages
from smartgo.errors import CallFailed, NotConnected, PeerRefused
from smartgo.schema.bodies import CheckClientBody, MessageQueue, SubscriptionData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import (
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetResponse,
    QueryOffsetRequest,
    SearchOffsetRequest,
    UpdateOffsetRequest,
)
from smartgo.schema.headers.pull import PullRequest, PullResponse
from smartgo.schema.topics import check_group

COMMITS: Final = 0x1  # bits of a pull's sys flag
MAY_WAIT: Final = 0x2
SUBSCRIBES: Final = 0x4
LITE: Final = 0x10

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""RocketMQ's own name for who looks without being a member."""
BATCH: Final = 32
"""Messages of one pull."""
ANSWER: Final = 10.0  # seconds for the answer to a pull, beside the time that it may be held


class PullStatus(Enum):
    """
    The outcome of a pull.

    C{FOUND}: messages were found; fewer than the limit, or even none, may remain after the filter by tag. C{NO_NEW}:
    the queue has no message at this offset yet. C{NO_MATCH}: no message matches the filter; continue at C{next_offset}.
    C{OFFSET_MOVED}: the offset is outside of the queue; C{next_offset} is inside.
    """

    FOUND = 0
    NO_NEW = 19
    NO_MATCH = 20
    OFFSET_MOVED = 21


class PullResult(msgspec.Struct, frozen=True):
    """
    The result of a pull.

    @ivar status: the outcome.
    @ivar messages: the messages, in the order of the queue.
    @ivar next_offset: the offset of the next pull.
    @ivar min_offset: the offset of the first message in the queue; C{max_offset} is that of the next to come.
    @ivar broker_id: the id of the broker that the next pull should go to; 0 is the master.
    """

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    broker_id: int


T = TypeVar("T")

_STATUSES: Final = {status.value: status for status in PullStatus}


def pull_command(
    group: str,
    queue: MessageQueue,
    offset: int,
    wants: SubscriptionData,
    limit: int,
    hold: float,
    flags: int,
    commit: int = 0,
) -> Command:
    """
    Return the request for messages of a queue from an offset on.

    @param hold: seconds that the broker may wait for a message to come, where C{flags} have L{MAY_WAIT}.
    @param commit: where the group stands, where C{flags} have L{COMMITS}.
    """
    header = PullRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=limit,
        sys_flag=flags,
        commit_offset=commit,
        suspend_timeout_millis=round(hold * 1000),
        sub_version=wants.sub_version,
        subscription=wants.sub_string if flags & SUBSCRIBES else None,
        expression_type=wants.expression_type,
        bname=queue.broker_name,
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)


def pull_answer(answer: Command) -> tuple[PullStatus, PullResponse]:
    """
    Return the status of a pull response, and its header: the bounds of the queue and the next offset.

    @raise PeerRefused: the broker declined.
    @raise CallFailed: the answer is none to a pull.
    """
    status = _STATUSES.get(answer.code)
    if status is None:
        raise PeerRefused(answer.code, answer.remark or "")
    return status, header_of(PullResponse, answer)


class QueueCalls:
    """The requests of one group about queues; the routes of their topics must be known."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wants: SubscriptionData,
        limit: int,
        hold: float,
        timeout: float,
        commit: int | None = None,
        broker_id: int = MASTER,
        send_subscription: bool = False,
        lite: bool = False,
    ) -> PullResult:
        """
        Ask for messages of a queue from an offset on.

        @param limit: messages at most.
        @param hold: seconds that the broker may wait for a message to come; 0 for not at all.
        @param timeout: seconds for the answer.
        @param commit: where the group stands in this queue, which the broker notes down.
        @param broker_id: whom of the broker set to ask, best.
        @param send_subscription: send C{wants} along; else the broker knows it from a heartbeat.
        @param lite: mark the pull as one of a lite pull consumer.
        @raise PeerRefused: the broker declined.
        @raise CallFailed: it did not answer, or there is none.
        """
        found = self._client.routes.nearest_address(queue.broker_name, broker_id)
        if found is None:
            raise NotConnected(f"broker {queue.broker_name} has no known address now")
        address, broker_id = found
        flags = MAY_WAIT if hold else 0
        if commit is not None and broker_id == MASTER:
            flags |= COMMITS
        if send_subscription:
            flags |= SUBSCRIBES
        if lite:
            flags |= LITE
        command = pull_command(self._group, queue, offset, wants, limit, hold, flags, commit or 0)
        answer = await self._client.remoting.ask(address, command, timeout)
        status, place = pull_answer(answer)
        messages = []
        if status is PullStatus.FOUND:
            messages = wanted(decode_messages(answer.body, queue.broker_name), wants)
        return PullResult(
            status,
            messages,
            place.next_begin_offset,
            place.min_offset,
            place.max_offset,
            place.suggest_which_broker_id,
        )

    async def check(self, queue: MessageQueue, wants: SubscriptionData) -> None:
        """
        Have a broker check a subscription whose expression it is to evaluate.

        @raise PeerRefused: code 23, the expression is wrong; code 1, the broker has no such filters.
        @raise CallFailed: it did not answer.
        """
        body = CheckClientBody(client_id=self._client.id, group=self._group, subscription_data=wants)
        command = Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
        succeeded(await self._client.remoting.ask(self._address(queue), command))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the end of a queue: the offset that its next message will have. Raises as L{pull} does."""
        return await self._offset(
            queue, RequestCode.GET_MAX_OFFSET, MaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message still there. Raises as L{pull} does."""
        return await self._offset(
            queue, RequestCode.GET_MIN_OFFSET, MinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        )

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a wall clock time, in ms. Raises as L{pull} does."""
        header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, queue: MessageQueue) -> int | None:
        """
        Return the group's offset in a queue; C{None} if the broker has none.

        @raise CallFailed: it did not answer.
        """
        header = QueryOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except PeerRefused:
            return None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's offset in a queue; returns when the broker has stored it. Raises as L{pull} does."""
        command = Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, self._position(queue, offset))
        succeeded(await self._client.remoting.ask(self._address(queue), command))

    async def tell_commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit one way, without an answer. @raise CallFailed: there is no connection to the broker."""
        command = Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, self._position(queue, offset))
        await self._client.remoting.tell(self._address(queue), command)

    def keeper(self, queue: MessageQueue) -> str | None:
        """Return the address of the broker that stores the group's offset in a queue; C{None} if there is none."""
        found = self._client.routes.nearest_address(queue.broker_name)
        return None if found is None else found[0]

    def _position(self, queue: MessageQueue, offset: int) -> UpdateOffsetRequest:
        return UpdateOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        answer = await self._client.remoting.ask(self._address(queue), Command.request(code, header))
        return header_of(OffsetResponse, succeeded(answer)).offset

    def _address(self, queue: MessageQueue) -> str:
        address = self.keeper(queue)
        if address is None:
            raise NotConnected(f"broker {queue.broker_name} has no known address now")
        return address


class PullConsumer:
    """
    A pull consumer: reads queues from offsets that the application chooses, at its own pace.

    It is no member of its group: it takes no part in rebalancing, and only L{commit} changes the group's offsets.

    @ivar group: the group whose offsets are read and committed.
    """

    def __init__(self, client: Client, group: str) -> None:
        """
        @raise BadName: the group's name breaks the rules.
        """
        check_group(group)
        self.group = group
        self._client = client
        self._events = events_of(client)
        self._calls = QueueCalls(client, group)

    def queues(self, topic: str) -> Deferred[tuple[MessageQueue, ...]]:
        """
        Return the queues of a topic, sorted.

        @raise PeerRefused: through the Deferred: code 17, no broker has this topic.
        @raise CallFailed: through the Deferred: no registry answers.
        """
        return self._route(topic).addCallback(lambda route: route.subscribe)

    def _route(self, topic: str) -> Deferred[TopicRoute]:
        """Return the route of a topic, and keep the routes fresh from now on: this consumer is no member of a group."""
        self._client.routes.start()
        return self._client.routes.find(topic)

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: str | Sql = EVERYTHING,
        limit: int = BATCH,
        hold: float = 0.0,
    ) -> Deferred[PullResult]:
        """
        Read messages of a queue from an offset on. The Deferred can be cancelled.

        @param expression: the tags to read: C{TagA || TagB}, or C{*} for all messages, or an SQL92 expression.
        @param limit: the maximum number of messages; brokers have limits of their own.
        @param hold: seconds that the broker may hold the pull until a message arrives (a long poll).
        @raise SubscriptionParseFailed: through the Deferred: the expression names no tag.
        @raise PeerRefused: through the Deferred: the broker declined.
        @raise CallFailed: through the Deferred: it did not answer.
        """
        return Deferred.fromCoroutine(self._pull(queue, offset, expression, limit, hold))

    async def _pull(
        self, queue: MessageQueue, offset: int, expression: str | Sql, limit: int, hold: float
    ) -> PullResult:
        wants = subscription(queue.topic, expression, self._client.env.clock.wall_ms())
        await self._route(queue.topic)
        timeout = hold + ANSWER
        begin = self._client.env.clock.seconds()
        try:
            result = await self._calls.pull(queue, offset, wants, limit, hold, timeout, send_subscription=True)
        except PeerRefused:
            raise
        except CallFailed:
            self._client.routes.doubt()
            raise
        if result.messages and self._events:
            seconds = self._client.env.clock.seconds() - begin
            self._events.received(self.group, queue, result.messages, seconds)
        return result

    def max_offset(self, queue: MessageQueue) -> Deferred[int]:
        """Return the end of a queue: the offset that its next message will have. Fails as L{pull} does."""
        return self._with_route(queue, self._calls.max_offset(queue))

    def min_offset(self, queue: MessageQueue) -> Deferred[int]:
        """Return the offset of the first message still there. Fails as L{pull} does."""
        return self._with_route(queue, self._calls.min_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> Deferred[int]:
        """
        Return the offset of the message that was stored nearest to a time. Fails as L{pull} does.

        @param timestamp_ms: wall clock, in ms.
        """
        return self._with_route(queue, self._calls.offset_at(queue, timestamp_ms))

    def committed(self, queue: MessageQueue) -> Deferred[int | None]:
        """Return the group's offset in a queue; C{None} if it has none. Fails if the broker does not answer."""
        return self._with_route(queue, self._calls.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> Deferred[None]:
        """Commit the group's offset in a queue: that of the message to read next. Fails as L{pull} does."""
        return self._with_route(queue, self._calls.commit(queue, offset))

    def _with_route(self, queue: MessageQueue, call: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(self._await_route(queue, call))

    async def _await_route(self, queue: MessageQueue, call: Coroutine[Deferred[Any], Any, T]) -> T:
        try:
            await self._route(queue.topic)
        except BaseException:
            call.close()
            raise
        return await call
