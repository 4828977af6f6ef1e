"""
Sends: the choice of the queue, attempts, time-outs, and the form of requests.

Source: C{client/impl/producer/DefaultMQProducerImpl.java}, C{client/latency/MQFaultStrategy.java} without its
penalties, which are off in Java too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.task import deferLater

from smartgo.client.client import Client
from smartgo.client.internal.route import NEW_TOPIC_QUEUES
from smartgo.client.messages import BODY_LIMIT, Message, SendResult, SendStatus, properties_text
from smartgo.errors import (
    BadHeader,
    CallFailed,
    CallTimedOut,
    MessageIllegal,
    NoQueueTakesMessages,
    NotConnected,
    PeerRefused,
)
from smartgo.schema import batch, properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.compression import COMPRESS_FROM, compress_body
from smartgo.schema.headers.messagerecall import RecallRequest, RecallResponse
from smartgo.schema.headers.send import SendRequestV2, SendResponse
from smartgo.schema.message import PREPARED
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.topics import RETRY_PREFIX, TEMPLATE_TOPIC, TOO_MANY_NEW

RETRIED: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Response codes after which another broker may do better."""

NEW_TOPIC_PAUSE: Final = 0.2
"""Seconds, on average, before a send is tried again that would create one topic too many."""

_STATUSES: Final = {status.value: status for status in SendStatus}
_PLAIN_ZLIB: Final = 0  # no bits for the method: clients before 5.0 know zlib alone


class Prepared:
    """A message, or a batch, ready to be sent to any queue, any number of times."""

    __slots__ = ("body", "born_ms", "code", "flag", "properties", "reconsume", "sys_flag", "topic", "unique_id")

    def __init__(self, client: Client, message: Message, compress_from: int, half_of: str | None = None) -> None:
        """
        @param compress_from: bodies of this many bytes are compressed.
        @param half_of: the producer group whose transaction the message is the half message of; C{None} for a message
            without a transaction.
        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it.
        """
        message.check()
        found = message.all_properties()
        if half_of is not None:
            if message.is_delayed:
                raise MessageIllegal("a message of a transaction cannot be delayed")
            found[properties.TRAN_MSG] = "true"
            found[properties.PGROUP] = half_of
        self.unique_id = found.setdefault(properties.UNIQ_KEY, client.unique_ids.next())
        self.reconsume: tuple[int, int | None] = (0, None)
        if message.topic.startswith(RETRY_PREFIX):
            limit = found.pop(properties.MAX_RECONSUME_TIMES, None)
            times = found.pop(properties.RECONSUME_TIME, "0")
            self.reconsume = (int(times), None if limit is None else int(limit))
        self.code = RequestCode.SEND_MESSAGE_V2
        self.topic = message.topic
        self.properties = properties_text(found)
        self.flag = message.flag
        sys_flag = 0 if half_of is None else PREPARED
        self.body, self.sys_flag = compress_body(message.body, sys_flag, _PLAIN_ZLIB, threshold=compress_from)
        self.born_ms = client.env.clock.wall_ms()

    @classmethod
    def batch(cls, client: Client, messages: Sequence[Message]) -> Prepared:
        """
        Prepare several messages of one topic as one request.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: there are none, too many, or such as cannot be in a batch.
        """
        if not 0 < len(messages) <= batch.COUNT_LIMIT:
            raise MessageIllegal(f"a batch has 1 to {batch.COUNT_LIMIT} messages, not {len(messages)}")
        first = messages[0]
        ids: list[str] = []
        items: list[tuple[int, bytes, bytes]] = []
        for message in messages:
            message.check()
            if message.topic != first.topic or message.wait != first.wait:
                raise MessageIllegal("the messages of a batch must have the same topic and the same value of wait")
            if message.is_delayed or message.topic.startswith(RETRY_PREFIX):
                raise MessageIllegal("a batch must not contain delayed messages or messages of a retry topic")
            found = message.all_properties()
            ids.append(found.setdefault(properties.UNIQ_KEY, client.unique_ids.next()))
            items.append((message.flag, message.body, properties_text(found).encode("utf-8", "replace")))
        body = batch.encode_items(items)
        if len(body) > BODY_LIMIT:
            raise MessageIllegal(f"batch of {len(body)} B exceeds the limit of {BODY_LIMIT} B")
        made = cls.__new__(cls)
        made.unique_id = ",".join(ids)
        made.reconsume = (0, None)
        made.code = RequestCode.SEND_BATCH_MESSAGE
        made.topic = first.topic
        made.properties = properties_text({} if first.wait else {properties.WAIT: "false"})
        made.flag = 0
        made.body, made.sys_flag = body, 0
        made.born_ms = client.env.clock.wall_ms()
        return made

    def request(self, group: str, queue: MessageQueue) -> Command:
        """Return a new request for one queue; each attempt needs its own, as it gets an opaque."""
        times, limit = self.reconsume
        header = SendRequestV2(
            producer_group=group,
            topic=self.topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=NEW_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_ms,
            flag=self.flag,
            properties=self.properties,
            reconsume_times=times,
            batch=self.code == RequestCode.SEND_BATCH_MESSAGE,
            max_reconsume_times=limit,
            bname=queue.broker_name,
        )
        return Command.request(self.code, header, self.body)


class Sender:
    """
    The sends of one producer group.

    @ivar group: the group.
    """

    def __init__(
        self, client: Client, group: str, timeout: float = 3.0, retries: int = 2, compress_from: int = COMPRESS_FROM
    ) -> None:
        """
        @param timeout: seconds for a send, all its attempts together.
        @param retries: attempts after the first.
        @param compress_from: bodies of this many bytes are compressed by zlib.
        """
        self.group = group
        self._client = client
        self._timeout = timeout
        self._retries = retries
        self._compress_from = compress_from
        self._turns: dict[str, int] = {}

    def prepare(self, message: Message) -> Prepared:
        """
        Prepare a message for sending.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it.
        """
        return Prepared(self._client, message, self._compress_from)

    def prepare_half(self, message: Message) -> Prepared:
        """
        Prepare a message as the half message of a transaction of the group.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it, or it is delayed.
        """
        return Prepared(self._client, message, self._compress_from, self.group)

    def deadline(self, timeout: float | None) -> float:
        """Return the deadline of a send that begins now."""
        now: float = self._client.env.clock.seconds()
        return now + (self._timeout if timeout is None else timeout)

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

    async def send(self, prepared: Prepared, deadline: float) -> SendResult:
        """
        Send to the next queue; after a failure that another broker may not have, retry at another broker.

        @raise PeerRefused: the broker declined, for a reason that is the same everywhere, or the last one asked did.
        @raise CallFailed: the last broker asked did not answer, or there was no time for one.
        """
        queues = await self.queues(prepared.topic)
        failure: CallFailed = CallTimedOut(f"send to {prepared.topic}", self._timeout)
        failed = ""
        attempt = 0
        while attempt <= self._retries:
            if attempt and self._client.env.clock.seconds() >= deadline:
                break
            queue = self._choose(prepared.topic, queues, failed)
            try:
                return await self.send_to(prepared, queue, deadline)
            except PeerRefused as error:
                if error.code not in RETRIED:
                    raise
                if error.remark.endswith(TOO_MANY_NEW) and await self._may_create_soon(deadline):
                    continue
                if error.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                    self._client.routes.doubt()
                failure = error
            except CallFailed as error:
                self._client.routes.doubt()
                failure = error
            failed = queue.broker_name
            attempt += 1
        raise failure

    async def _may_create_soon(self, deadline: float) -> bool:
        """Wait for a broker that lets an address create so many topics a second; C{False} if there is no time left."""
        clock = self._client.env.clock
        pause = NEW_TOPIC_PAUSE * (0.5 + self._client.env.random.fraction())
        if clock.seconds() + pause + NEW_TOPIC_PAUSE >= deadline:  # the answer needs time, too
            return False
        await deferLater(clock, pause)
        return True

    async def send_to(self, prepared: Prepared, queue: MessageQueue, deadline: float) -> SendResult:
        """
        Send to one queue, in one attempt.

        @raise PeerRefused: the broker declined.
        @raise CallFailed: it did not answer.
        """
        left = deadline - self._client.env.clock.seconds()
        if left <= 0:
            raise CallTimedOut(f"send to {prepared.topic}", self._timeout)
        command = prepared.request(self.group, queue)
        answer = await self._client.remoting.ask(self._address(queue), command, left)
        status = _STATUSES.get(answer.code)
        if status is None:
            raise PeerRefused(answer.code, answer.remark or "")
        try:
            header = answer.read(SendResponse)
        except BadHeader as error:
            raise CallFailed(f"the answer to a send cannot be read: {error}") from None
        stored = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
        return SendResult(status, prepared.unique_id, header.msg_id, stored, header.queue_offset, header.recall_handle)

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
        left = deadline - self._client.env.clock.seconds()
        if left <= 0:
            raise CallTimedOut(f"recall of a message of {parsed.topic}", self._timeout)
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
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if queue.broker_name != failed:
                self._turns[topic] = (turn + step + 1) % len(queues)
                return queue
        self._turns[topic] = (turn + 1) % len(queues)
        return queues[turn % len(queues)]
