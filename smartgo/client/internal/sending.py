"""
Sends: the choice of the queue, attempts, time-outs, and the form of requests.

Source: C{client/impl/producer/DefaultMQProducerImpl.java}, C{client/latency/MQFaultStrategy.java}.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.client.client import Client
from smartgo.client.internal.events import Attempt, Events
from smartgo.client.internal.prepared import Prepared
from smartgo.client.internal.sendanswer import RETRIED, read_answer
from smartgo.client.internal.slowbrokers import SlowBrokers
from smartgo.client.messages import Message, SendResult, SendStatus
from smartgo.errors import (
    CallFailed,
    CallTimedOut,
    NoQueueTakesMessages,
    NotConnected,
    PeerRefused,
)
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.compression import COMPRESS_FROM
from smartgo.schema.headers.messagerecall import RecallRequest, RecallResponse
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.topics import TOO_MANY_NEW

_LASTING: Final = RETRIED - {
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.GO_AWAY,
}
"""Of these, those that a pause does not change at the same broker."""

RETRY_PAUSE: Final = 0.1
"""Seconds: half of the longest pause before the first repetition at the same broker."""

NEW_TOPIC_PAUSE: Final = 0.2
"""Seconds, on average, before a send is tried again that would create one topic too many."""

T = TypeVar("T")


class _Tried(NamedTuple):
    """A first attempt of a send: its queue, when it began, and the deadline of the send, in seconds of the clock."""

    prepared: Prepared
    queue: MessageQueue
    begin: float
    deadline: float


class Sender:
    """
    The sends of one producer group.

    @ivar group: the group.
    @ivar timeout: seconds for a send, all its attempts together.
    @ivar slow: the brokers to leave out; C{None} where none is.
    @ivar retries_not_ok: whether a message that is stored less durably than it should be is sent again, elsewhere.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        timeout: float = 3.0,
        retries: int = 2,
        compress_from: int = COMPRESS_FROM,
        events: Events | None = None,
    ) -> None:
        """
        @param timeout: seconds for a send, all its attempts together.
        @param retries: attempts after the first.
        @param compress_from: bodies of this many bytes are compressed by zlib.
        @param events: the client's listeners, if they are to hear of the sends.
        """
        self.group = group
        self._client = client
        self._clock = client.env.clock
        self.timeout = timeout
        self._retries = retries
        self._compress_from = compress_from
        self._events = events or None
        self._turns: dict[str, int] = {}
        self.slow: SlowBrokers | None = None
        self.retries_not_ok = False

    def prepare(self, message: Message) -> Prepared:
        """
        Prepare a message for sending.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it.
        """
        return Prepared(self._client, message, self._compress_from, self.group, self._events)

    def prepare_batch(self, messages: Sequence[Message]) -> Prepared:
        """
        Prepare several messages of one topic as one request.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: there are none, too many, or such as cannot be in a batch.
        """
        return Prepared.batch(self._client, messages, self.group, self._events)

    def prepare_half(self, message: Message) -> Prepared:
        """
        Prepare a message as the half message of a transaction of the group.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it, or it is delayed.
        """
        return Prepared(self._client, message, self._compress_from, self.group, self._events, half=True)

    def deadline(self, timeout: float | None) -> float:
        """Return the deadline of a send that begins now."""
        now: float = self._clock.seconds()
        return now + (self.timeout if timeout is None else timeout)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """
        Return the queues that messages of a topic may be sent to.

        @raise NoQueueTakesMessages: there are none.
        @raise CallFailed: no registry answers.
        """
        route = await self._client.routes.find_for_sending(topic)
        if not route.publish:
            raise NoQueueTakesMessages(topic)
        return route.publish

    async def queues_for(self, prepared: Prepared) -> tuple[MessageQueue, ...]:
        """Return the queues that a prepared message may be sent to. Raises as L{queues} does."""
        return await self._told(prepared, self.queues(prepared.topic), False)

    async def chosen(
        self, prepared: Prepared, choose: Callable[[tuple[MessageQueue, ...]], MessageQueue]
    ) -> MessageQueue:
        """Return the queue that a function chooses for a prepared message. Raises as L{queues} does, and as it does."""

        async def choice() -> MessageQueue:
            return choose(await self.queues(prepared.topic))

        return await self._told(prepared, choice(), False)

    def send(self, prepared: Prepared, deadline: float) -> Deferred[SendResult]:
        """
        Send to the next queue; after a failure that another broker may not have, retry at another broker.

        @raise PeerRefused: through the Deferred: the broker declined, for a reason that is the same everywhere, or the
            last one asked did.
        @raise CallFailed: through the Deferred: the last broker asked did not answer, or there was no time for one.
        """
        if prepared.sending is not None:
            return Deferred.fromCoroutine(self._told(prepared, self._send(prepared, deadline)))
        route = self._client.routes.known_for_sending(prepared.topic)
        if route is None or not route.publish or self.retries_not_ok:
            return Deferred.fromCoroutine(self._send(prepared, deadline))
        # Nearly all sends need one attempt, which takes no coroutine.
        tried = _Tried(prepared, self._choose(prepared.topic, route.publish, ""), self._clock.seconds(), deadline)
        try:
            _, waiter = self._ask(prepared, tried.queue, deadline, tried.begin)
        except CallFailed as error:
            return self._retry(error, tried)
        return waiter.addCallbacks(self._answered, self._not_answered, callbackArgs=(tried,), errbackArgs=(tried,))

    def _answered(self, answer: Command, tried: _Tried) -> SendResult | Deferred[SendResult]:
        """Take the answer to a first attempt."""
        try:
            result, _ = read_answer(answer, tried.prepared, tried.queue)
        except CallFailed as error:
            return self._retry(error, tried)
        self._note(tried.queue, tried.begin, failed=False)
        return result

    def _not_answered(self, failure: Failure, tried: _Tried) -> Failure | Deferred[SendResult]:
        error = failure.value
        return self._retry(error, tried) if isinstance(error, CallFailed) else failure

    def _retry(self, error: CallFailed, tried: _Tried) -> Deferred[SendResult]:
        """Go on after a first attempt that failed."""
        return Deferred.fromCoroutine(self._send(tried.prepared, tried.deadline, (tried, error)))

    async def _told(self, prepared: Prepared, work: Coroutine[Any, Any, T], whole: bool = True) -> T:
        """Tell the listeners when work on a send has failed, or if it is the C{whole} send, has ended."""
        sending, events = prepared.sending, self._events
        try:
            result = await work
        except BaseException as error:
            if sending is not None and events is not None:
                events.send_ended(sending, error)
            raise
        if whole and sending is not None and events is not None:
            events.send_ended(sending, None)
        return result

    async def _send(
        self, prepared: Prepared, deadline: float, first: tuple[_Tried, CallFailed] | None = None
    ) -> SendResult:
        """
        Make all attempts of a send.

        @param first: a first attempt that has failed already, and its error.
        """
        queues = await self.queues(prepared.topic)
        failure: CallFailed = CallTimedOut(f"send to {prepared.topic}", self.timeout)
        stored: SendResult | None = None
        failed = ""
        attempt = 0
        while attempt <= self._retries:
            if attempt and self._clock.seconds() >= deadline:
                break
            try:
                if first is not None:
                    (tried, error), first = first, None
                    queue, begin = tried.queue, tried.begin
                    raise error
                queue = self._choose(prepared.topic, queues, failed)
                begin = self._clock.seconds()
                result = await self._send_to(prepared, queue, deadline)
                self._note(queue, begin, failed=False)
                if result.status is SendStatus.SEND_OK or not self.retries_not_ok or attempt == self._retries:
                    return result
                stored = result
            except PeerRefused as error:
                self._note(queue, begin, failed=True)
                if error.code not in RETRIED:
                    if stored is not None:
                        return stored
                    raise
                if error.remark.endswith(TOO_MANY_NEW) and await self._may_create_soon(deadline):
                    continue
                if error.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                    self._client.routes.doubt()
                failure = error
            except CallFailed as error:
                self._note(queue, begin, failed=True)
                self._client.routes.doubt()
                failure = error
            failed = queue.broker_name
            attempt += 1
            lasts = isinstance(failure, PeerRefused) and failure.code in _LASTING
            if attempt <= self._retries and not lasts and all(one.broker_name == failed for one in queues):
                await self._pause(attempt, deadline)
        if stored is not None:
            return stored
        raise failure

    def _note(self, queue: MessageQueue, begin: float, failed: bool) -> None:
        """Take note of how long a broker took, or that it failed. @param begin: clock at the start of the attempt."""
        if self.slow is None:
            return
        now = self._clock.seconds()
        if failed:
            self.slow.failed(queue.broker_name, now)
        else:
            self.slow.answered(queue.broker_name, now - begin, now)

    async def _pause(self, attempt: int, deadline: float) -> None:
        """Wait before the only broker is asked again: longer each time, and no longer than half of what is left."""
        clock = self._clock
        pause = RETRY_PAUSE * 2**attempt * (0.5 + self._client.env.random.fraction() / 2)
        await self._client.pauses.of(max(0.0, min(pause, (deadline - clock.seconds()) / 2)))

    async def _may_create_soon(self, deadline: float) -> bool:
        """Wait for a broker that lets an address create so many topics a second; C{False} if there is no time left."""
        clock = self._clock
        pause = NEW_TOPIC_PAUSE * (0.5 + self._client.env.random.fraction())
        if clock.seconds() + pause + NEW_TOPIC_PAUSE >= deadline:  # the answer needs time, too
            return False
        await self._client.pauses.of(pause)
        return True

    async def send_to(self, prepared: Prepared, queue: MessageQueue, deadline: float) -> SendResult:
        """
        Send to one queue, in one attempt.

        @raise PeerRefused: the broker declined.
        @raise CallFailed: it did not answer.
        """
        if prepared.sending is None:
            return await self._send_to(prepared, queue, deadline)
        return await self._told(prepared, self._send_to(prepared, queue, deadline))

    async def _send_to(self, prepared: Prepared, queue: MessageQueue, deadline: float) -> SendResult:
        clock = self._clock
        begin = clock.seconds()
        sending = prepared.sending
        begun_ms = 0 if sending is None else clock.wall_ms()
        address, waiter = self._ask(prepared, queue, deadline, begin)
        answer = await waiter
        result, header = read_answer(answer, prepared, queue)
        if sending is not None and self._events is not None:
            self._events.send_answered(
                sending, Attempt(result.queue, address, begun_ms, clock.seconds() - begin, result, header)
            )
        return result

    def _ask(
        self, prepared: Prepared, queue: MessageQueue, deadline: float, now: float
    ) -> tuple[str, Deferred[Command]]:
        """
        Send the request of an attempt; return the address of the broker, and the Deferred of its answer.

        @raise CallTimedOut: there is no time left.
        @raise NotConnected: the queue's broker has no master now.
        """
        left = deadline - now
        if left <= 0:
            raise CallTimedOut(f"send to {prepared.topic}", self.timeout)
        address = self._address(queue)
        return address, self._client.remoting.ask(address, prepared.request(self.group, queue), left)

    async def recall_message(self, handle: str, deadline: float) -> str:
        """
        Ask the broker that has a timed message to drop it.

        @return: the unique id of the message.
        @raise IllegalOperation: it is no handle.
        @raise PeerRefused: the broker declined.
        @raise CallFailed: it did not answer.
        """
        parsed = RecallHandle.parse(handle)
        await self._client.routes.find_for_sending(parsed.topic)  # the broker's address comes with the route
        left = deadline - self._clock.seconds()
        if left <= 0:
            raise CallTimedOut(f"recall of a message of {parsed.topic}", self.timeout)
        header = RecallRequest(topic=parsed.topic, recall_handle=handle, producer_group=self.group)
        address = self._address(MessageQueue(parsed.topic, parsed.broker_name, 0))
        answer = await self._client.remoting.ask(address, Command.request(RequestCode.RECALL_MESSAGE, header), left)
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "")
        return answer.read(RecallResponse).msg_id

    async def tell(self, prepared: Prepared, queue: MessageQueue | None = None) -> None:
        """
        Send one way, without an answer.

        @raise CallFailed: there is no way to the broker.
        """
        if prepared.sending is None:
            await self._tell(prepared, queue)
        else:
            await self._told(prepared, self._tell(prepared, queue))

    async def _tell(self, prepared: Prepared, queue: MessageQueue | None) -> None:
        if queue is None:
            queue = self._choose(prepared.topic, await self.queues(prepared.topic), "")
        await self._client.remoting.tell(self._address(queue), prepared.request(self.group, queue))

    def _address(self, queue: MessageQueue) -> str:
        address = self._client.routes.address(queue.broker_name)
        if address is None:
            raise NotConnected(f"broker {queue.broker_name} has no master now")
        return address

    def _choose(self, topic: str, queues: Sequence[MessageQueue], failed: str) -> MessageQueue:
        """Return the next queue, round robin from a random start; of a broker that did not fail, if there is one."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._client.env.random.below(len(queues))
        avoided = self._avoided(queues)
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if queue.broker_name != failed and queue.broker_name not in avoided:
                self._turns[topic] = (turn + step + 1) % len(queues)
                return queue
        self._turns[topic] = (turn + 1) % len(queues)
        return queues[turn % len(queues)]

    def _avoided(self, queues: Sequence[MessageQueue]) -> frozenset[str]:
        """Return the brokers to leave out: those that were slow or failed lately; none if that leaves no other."""
        if self.slow is None:
            return frozenset()
        now = self._clock.seconds()
        names = {one.broker_name for one in queues}
        avoided = frozenset(one for one in names if self.slow.avoids(one, now))
        return frozenset() if avoided == names else avoided
