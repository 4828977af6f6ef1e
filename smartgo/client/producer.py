"""
Sending messages.

A producer belongs to a group; brokers know its members by their heartbeats. See C{docs/client.rst} for an example.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger

from smartgo.client.client import Client
from smartgo.client.internal.replies import reply_message, request_message
from smartgo.client.internal.sending import Sender
from smartgo.client.internal.slowbrokers import SlowBrokers
from smartgo.client.internal.tracing import events_of
from smartgo.client.messages import Message, ReceivedMessage, SendResult
from smartgo.errors import CallFailed
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.compression import COMPRESS_FROM
from smartgo.schema.headers.transaction import CheckTransactionRequest
from smartgo.schema.topics import check_group

T = TypeVar("T")


class Producer:
    """
    A producer: sends messages as a member of a producer group.

    Use it between L{start} and L{stop}, on the reactor thread. A send that fails may have stored the message all the
    same, if only the answer was lost. Consumers must expect duplicates.

    @ivar group: the name of the group.
    """

    _log = Logger()

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
        self._sender = Sender(client, group, timeout, retries, compress_from, events_of(client))
        self._sender.slow = SlowBrokers() if avoid_slow_brokers else None
        self._sender.retries_not_ok = retry_when_not_ok
        self._running = False

    def start(self) -> Deferred[None]:
        """
        Join the group. Brokers get a heartbeat as soon as their addresses are known, and every 30 s.

        @raise smartgo.errors.SettingError: the client has a producer of this group already.
        """
        self._client.join(producer=self)
        self._running = True
        return self._client.heartbeat()

    def stop(self) -> Deferred[None]:
        """Leave the group; fires when the brokers have answered. Sends in flight continue. Idempotent."""
        if not self._running:
            return succeed(None)
        self._running = False
        return self._client.leave(producer=self.group)

    def queues(self, topic: str) -> Deferred[tuple[MessageQueue, ...]]:
        """
        Return the queues that messages of a topic may be sent to; for a topic that its first send creates, those that
        it will have.

        @raise PeerRefused: through the Deferred: code 17, there is no such topic and sends may not create it.
        @raise CallFailed: through the Deferred: no registry answers.
        """
        return self._run(self._sender.queues(topic))

    def send(self, message: Message, timeout: float | None = None) -> Deferred[SendResult]:
        """
        Send a message to the next queue of its topic; if that fails, retry at another broker.

        @param timeout: seconds for all attempts together; C{None} for the producer's.
        @raise BadName: through the Deferred: the topic's name breaks the rules.
        @raise MessageIllegal: through the Deferred: the message breaks a limit or a rule.
        @raise PeerRefused: through the Deferred: the broker declined, with its code and remark.
        @raise CallFailed: through the Deferred: no broker answered in time.
        """
        return maybeDeferred(self._send, message, timeout)

    def _send(self, message: Message, timeout: float | None) -> Deferred[SendResult]:
        self._check_running()
        return self._sender.send(self._sender.prepare(message), self._sender.deadline(timeout))

    def send_to(self, message: Message, queue: MessageQueue, timeout: float | None = None) -> Deferred[SendResult]:
        """Send a message to a given queue, in one attempt; fails as L{send} does."""
        return self._run(self._send_to(message, queue, timeout))

    async def _send_to(self, message: Message, queue: MessageQueue, timeout: float | None) -> SendResult:
        deadline = self._sender.deadline(timeout)
        prepared = self._sender.prepare(message)
        await self._sender.queues_for(prepared)  # the broker's address comes with the route
        return await self._sender.send_to(prepared, queue, deadline)

    def send_by(
        self,
        message: Message,
        selector: Callable[[Sequence[MessageQueue], Message, T], MessageQueue],
        argument: T,
        timeout: float | None = None,
    ) -> Deferred[SendResult]:
        """
        Send a message to the queue that C{selector(queues, message, argument)} returns, in one attempt; fails as
        L{send} does.

        Messages that belong together, such as those of one order, should go to one queue: they are consumed in the
        order of their sends.
        """
        return self._run(self._send_by(message, selector, argument, timeout))

    async def _send_by(
        self,
        message: Message,
        selector: Callable[[Sequence[MessageQueue], Message, T], MessageQueue],
        argument: T,
        timeout: float | None,
    ) -> SendResult:
        deadline = self._sender.deadline(timeout)
        prepared = self._sender.prepare(message)
        queue = await self._sender.chosen(prepared, lambda queues: selector(queues, message, argument))
        return await self._sender.send_to(prepared, queue, deadline)

    def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None = None, timeout: float | None = None
    ) -> Deferred[SendResult]:
        """
        Send several messages of one topic as a batch: all of them are stored side by side in one queue, or none.

        @param queue: the queue; C{None} for the next one, with the retries of L{send}.
        @raise MessageIllegal: through the Deferred: the messages cannot be in one batch.
        """
        return self._run(self._send_batch(messages, queue, timeout))

    async def _send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout: float | None
    ) -> SendResult:
        deadline = self._sender.deadline(timeout)
        prepared = self._sender.prepare_batch(messages)
        if queue is None:
            return await self._sender.send(prepared, deadline)
        await self._sender.queues_for(prepared)
        return await self._sender.send_to(prepared, queue, deadline)

    def send_one_way(self, message: Message, queue: MessageQueue | None = None) -> Deferred[None]:
        """
        Send a message without waiting for an answer: fires when the message was handed to the network.

        @param queue: the queue; C{None} for the next one.
        """
        return self._run(self._send_one_way(message, queue))

    async def _send_one_way(self, message: Message, queue: MessageQueue | None) -> None:
        prepared = self._sender.prepare(message)
        if queue is not None:
            await self._sender.queues_for(prepared)
        await self._sender.tell(prepared, queue)

    def request(self, message: Message, timeout: float | None = None) -> Deferred[ReceivedMessage]:
        """
        Send a request, and fire with the reply that a consumer of its topic sends by L{reply}. It can be cancelled.

        @param timeout: seconds for the request and its reply; C{None} for the producer's.
        @raise ReplyTimedOut: through the Deferred: the request was stored, and no reply arrived in time.
        @raise BadName: through the Deferred: the topic's name breaks the rules.
        @raise MessageIllegal: through the Deferred: the message breaks a limit or a rule, or is delayed.
        @raise PeerRefused: through the Deferred: the broker declined the request.
        @raise CallFailed: through the Deferred: no broker took the request in time.
        """
        return self._run(self._request(message, timeout))

    async def _request(self, message: Message, timeout: float | None) -> ReceivedMessage:
        seconds = self._sender.timeout if timeout is None else timeout
        deadline = self._sender.deadline(timeout)
        if self._client.routes.known(message.topic) is None:
            await self._sender.queues(message.topic)
            await self._client.heartbeat()  # the broker has to know this client as a producer
        correlation_id = str(UUID(bytes=self._client.env.random.token(16), version=4))
        prepared = self._sender.prepare(request_message(message, correlation_id, self._client.id, seconds))
        reply = self._client.replies.expect(correlation_id, message.topic, deadline, seconds)
        sending = self._sender.send(prepared, deadline)
        sending.addCallbacks(reply.stored, reply.fail)
        return await reply.waits

    def reply(self, request: ReceivedMessage, body: bytes, timeout: float | None = None) -> Deferred[SendResult]:
        """
        Send the reply to a request that a consumer received, by the broker that had the request.

        @param body: 1 byte to L{BODY_LIMIT<smartgo.client.messages.BODY_LIMIT>}.
        @param timeout: seconds; C{None} for the producer's.
        @raise MessageIllegal: through the Deferred: the message is no request, or the body breaks a limit.
        @raise PeerRefused: through the Deferred: code 1, the client that asked is not connected any more.
        @raise CallFailed: through the Deferred: the broker did not answer in time.
        """
        return self._run(self._reply(request, body, timeout))

    async def _reply(self, request: ReceivedMessage, body: bytes, timeout: float | None) -> SendResult:
        deadline = self._sender.deadline(timeout)
        prepared = self._sender.prepare(reply_message(request, body))
        for queue in await self._sender.queues_for(prepared):
            if queue.broker_name == request.queue.broker_name:
                return await self._sender.send_to(prepared, queue, deadline)
        return await self._sender.send(prepared, deadline)

    def recall(self, handle: str, timeout: float | None = None) -> Deferred[str]:
        """
        Recall a message with a delivery time that was not delivered yet: the broker drops it when it is due.

        The answer does not tell whether the broker has the message still. One that is due within milliseconds may be
        delivered all the same.

        @param handle: C{recall_handle} of the result of its send.
        @param timeout: seconds; C{None} for the producer's.
        @return: fires with the message's unique id.
        @raise IllegalOperation: through the Deferred: it is no handle.
        @raise PeerRefused: through the Deferred: the broker declined, as with code 604 where the time is past.
        @raise CallFailed: through the Deferred: the broker did not answer in time.
        """
        return self._run(self._recall_message(handle, timeout))

    async def _recall_message(self, handle: str, timeout: float | None) -> str:
        return await self._sender.recall_message(handle, self._sender.deadline(timeout))

    def check_back(self, address: str, request: CheckTransactionRequest, half: ReceivedMessage) -> None:
        """
        Leave the check-back of a transaction without an answer: only a
        L{TransactionProducer<smartgo.client.transactions.TransactionProducer>} has one. The client calls this.
        """
        self._log.warn(
            "broker {address} asks what became of transaction {id}, and the producer of group {group} is no "
            "TransactionProducer: the transaction stays undecided",
            address=address,
            id=half.message_id,
            group=self.group,
        )

    def _run(self, work: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(self._checked(work))

    async def _checked(self, work: Coroutine[Deferred[Any], Any, T]) -> T:
        try:
            self._check_running()
        except CallFailed:
            work.close()
            raise
        return await work

    def _check_running(self) -> None:
        """@raise CallFailed: the producer does not run."""
        if not self._running:
            raise CallFailed(f"the producer of group {self.group} is not running")
