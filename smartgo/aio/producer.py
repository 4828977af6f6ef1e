"""The producer for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from smartgo.aio.client import Client
from smartgo.aio.futures import future_of
from smartgo.client import producer as twisted
from smartgo.client.client import Client as TwistedClient
from smartgo.client.messages import Message, ReceivedMessage, SendResult
from smartgo.errors import CallFailed
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.compression import COMPRESS_FROM
from smartgo.schema.topics import check_group

T = TypeVar("T")


class Producer:
    """
    A producer: sends messages as a member of a producer group.

    Use it between L{start} and L{stop}, or inside C{async with}. A send that fails may have stored the message all the
    same, if only the answer was lost; so may one whose task was cancelled. Consumers must expect duplicates.

    @ivar group: the name of the group.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        timeout: float = 3.0,
        retries: int = 2,
        compress_from: int = COMPRESS_FROM,
        avoid_slow_brokers: bool = False,
        retry_when_not_ok: bool = False,
    ) -> None:
        """
        @param timeout: seconds for a send with all its attempts.
        @param retries: attempts after the first, at another broker if there is one.
        @param compress_from: the size in bytes from which bodies are compressed by zlib.
        @param avoid_slow_brokers: leave out brokers that were slow or failed, for 30 s to 10 min, while there are
            others (RocketMQ's C{sendLatencyFaultEnable}).
        @param retry_when_not_ok: send a message again, to another broker if there is one, that was stored less durably
            than it should be (RocketMQ's C{retryAnotherBrokerWhenNotStoreOK}): consumers get it twice.
        @raise BadName: the group's name breaks the rules.
        """
        check_group(group)
        self.group = group
        self._client = client
        self._options = (timeout, retries, compress_from, avoid_slow_brokers, retry_when_not_ok)
        self._producer: twisted.Producer | None = None

    async def start(self) -> None:
        """
        Join the group. Brokers get a heartbeat as soon as their addresses are known, and every 30 s.

        @raise smartgo.errors.SettingError: the client has a producer of this group already.
        """
        producer = self._make(self._client.inner)
        started = producer.start()
        self._producer = producer
        await future_of(started)

    async def stop(self) -> None:
        """Leave the group; returns when the brokers have answered. Sends in flight continue. Idempotent."""
        if self._producer is not None:
            await future_of(self._producer.stop())

    async def __aenter__(self) -> Self:
        """Start. @raise SettingError: as L{start}."""
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    def _make(self, client: TwistedClient) -> twisted.Producer:
        """Return the producer for Twisted, which was not started."""
        return twisted.Producer(client, self.group, *self._options)

    @property
    def _running(self) -> twisted.Producer:
        if self._producer is None:
            raise CallFailed(f"the producer of group {self.group} is not running")
        return self._producer

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """
        Return the queues that messages of a topic may be sent to; for a topic that its first send creates, those that
        it will have.

        @raise PeerRefused: code 17, there is no such topic and sends may not create it.
        @raise CallFailed: no registry answers.
        """
        return await future_of(self._running.queues(topic))

    async def send(self, message: Message, timeout: float | None = None) -> SendResult:
        """
        Send a message to the next queue of its topic; if that fails, retry at another broker.

        @param timeout: seconds for all attempts together; C{None} for the producer's.
        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: the message breaks a limit or a rule.
        @raise PeerRefused: the broker declined, with its code and remark.
        @raise CallFailed: no broker answered in time.
        """
        return await future_of(self._running.send(message, timeout))

    async def send_to(self, message: Message, queue: MessageQueue, timeout: float | None = None) -> SendResult:
        """Send a message to a given queue, in one attempt; fails as L{send} does."""
        return await future_of(self._running.send_to(message, queue, timeout))

    async def send_by(
        self,
        message: Message,
        selector: Callable[[Sequence[MessageQueue], Message, T], MessageQueue],
        argument: T,
        timeout: float | None = None,
    ) -> SendResult:
        """
        Send a message to the queue that C{selector(queues, message, argument)} returns, in one attempt; fails as
        L{send} does.

        Messages that belong together, such as those of one order, should go to one queue: they are consumed in the
        order of their sends.
        """
        return await future_of(self._running.send_by(message, selector, argument, timeout))

    async def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """
        Send several messages of one topic as a batch: all of them are stored side by side in one queue, or none.

        @param queue: the queue; C{None} for the next one, with the retries of L{send}.
        @raise MessageIllegal: the messages cannot be in one batch.
        """
        return await future_of(self._running.send_batch(messages, queue, timeout))

    async def send_one_way(self, message: Message, queue: MessageQueue | None = None) -> None:
        """
        Send a message without waiting for an answer: returns when the message was handed to the network.

        @param queue: the queue; C{None} for the next one.
        """
        await future_of(self._running.send_one_way(message, queue))

    async def request(self, message: Message, timeout: float | None = None) -> ReceivedMessage:
        """
        Send a request, and return the reply that a consumer of its topic sends by L{reply}. It can be cancelled.

        @param timeout: seconds for the request and its reply; C{None} for the producer's.
        @raise ReplyTimedOut: the request was stored, and no reply arrived in time.
        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: the message breaks a limit or a rule, or is delayed.
        @raise PeerRefused: the broker declined the request.
        @raise CallFailed: no broker took the request in time.
        """
        return await future_of(self._running.request(message, timeout))

    async def reply(self, request: ReceivedMessage, body: bytes, timeout: float | None = None) -> SendResult:
        """
        Send the reply to a request that a consumer received, by the broker that had the request.

        @param body: 1 byte to L{BODY_LIMIT<smartgo.client.messages.BODY_LIMIT>}.
        @param timeout: seconds; C{None} for the producer's.
        @raise MessageIllegal: the message is no request, or the body breaks a limit.
        @raise PeerRefused: code 1, the client that asked is not connected any more.
        @raise CallFailed: the broker did not answer in time.
        """
        return await future_of(self._running.reply(request, body, timeout))

    async def recall(self, handle: str, timeout: float | None = None) -> str:
        """
        Recall a message with a delivery time that was not delivered yet: the broker drops it when it is due.

        The answer does not tell whether the broker has the message still. One that is due within milliseconds may be
        delivered all the same.

        @param handle: C{recall_handle} of the result of its send.
        @param timeout: seconds; C{None} for the producer's.
        @return: the message's unique id.
        @raise IllegalOperation: it is no handle.
        @raise PeerRefused: the broker declined, as with code 604 where the time is past.
        @raise CallFailed: the broker did not answer in time.
        """
        return await future_of(self._running.recall(handle, timeout))
