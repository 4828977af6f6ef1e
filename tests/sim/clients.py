"""
The virtual clients of a simulation: processes of their own, which send, consume and administer with the public library.

Every call is recorded as it begins, and as it ends. A client process may be killed, or stopped and started again.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, DeferredList, succeed

from smartgo import (
    Admin,
    CallFailed,
    Client,
    ConsumeFromWhere,
    ConsumeLater,
    ConsumerSettings,
    Message,
    MessageQueue,
    PeerRefused,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    SendResult,
)
from tests.chaos.history import Commit, Dropped, Event, Fail, Info, Invoke, Ok, Stored
from tests.chaos.values import body_of, queue_name, read_of, value_of
from tests.sim.clock import after

if TYPE_CHECKING:
    from tests.sim.kernel import Life
    from tests.sim.workload import Workload

PLAIN: Final = "Plain"
ORDERS: Final = "Orders"
TIMED: Final = "Timed"
QUEUES: Final = 2
"""Queues of each topic at each broker."""
LEVELS: Final = (1.0, 5.0, 10.0, 20.0)
"""Seconds of the delay levels of the brokers."""

READERS: Final = "readers"
WATCHERS: Final = "watchers"
ORDERLY: Final = "orderly"
SESSIONS: Final = "sessions"

_PAUSE: Final = 0.5  # seconds before what was refused is tried again
_SLICE: Final = 5.0  # seconds that a pause may hold up the end of a process
_SLOW: Final = (0.05, 1.5)  # seconds that some messages take to be consumed
_LONG: Final = (5.0, 15.0)  # the same of few messages, while there may be faults
_REFUSALS: Final = 2  # times at most that consumers refuse one message


class VirtualClient:
    """
    One client process.

    @ivar name: of its machine, and its instance.
    @ivar client: of the process that runs; C{None} before the first.
    """

    def __init__(self, workload: Workload, name: str) -> None:
        self.name = name
        self.workload = workload
        self.chance = workload.streams.of(f"client {name}")
        self.client: Client | None = None
        self._past: list[object] = []  # what is left of dead processes must not be collected
        self._begins = 0
        self._number = 0
        self._ended: list[Deferred[None]] = []
        self._running = False
        self._producer: tuple[Client, Producer] | None = None

    # -- life ----------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Tell whether a process runs."""
        return self._life is not None

    @property
    def _life(self) -> Life | None:
        machine = self.workload.cluster.clients.get(self.name)
        return None if machine is None else machine.life

    def start(self) -> None:
        """Begin a process."""
        self._past.append((self.client, self._ended))
        env = self.workload.cluster.client_environment(self.name)
        self._begins += 1
        self._running = True
        self.client = Client(env, self.workload.cluster.registry_addresses, instance=f"{self.name}-{self._begins}")
        self._ended = [self._run(part) for part in self.parts(self.client)]

    def stop(self) -> Deferred[None]:
        """End the process in order: calls under way are waited for."""
        if not self.alive or self.client is None:
            return succeed(None)
        self._running = False
        return Deferred.fromCoroutine(self._stop(self.client))

    async def _stop(self, client: Client) -> None:
        life = self._life
        await DeferredList(self._ended)
        await client.stop()
        if self._life is life:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self._running = False
        self.workload.cluster.kill_client(self.name)

    def parts(self, client: Client) -> list[Coroutine[Any, Any, None]]:
        """Return what the process does, side by side."""
        raise NotImplementedError

    # -- for parts -------------------------------------------------------------------------------------------

    def _run(self, part: Coroutine[Any, Any, None]) -> Deferred[None]:
        return Deferred.fromCoroutine(part).addErrback(self.workload.broke)

    def tell(self, event: Event) -> None:
        """Record an event, which happens now."""
        self.workload.recorder.add(event)

    def going_on(self, client: Client) -> bool:
        """Return whether the process of this client is to go on."""
        return self._running and client is self.client

    def wait(self, client: Client, seconds: float) -> Deferred[None]:
        """Fire after a while."""
        return after(client.env.clock, seconds)

    async def pause(self, client: Client, seconds: float) -> None:
        """Wait for a while, less where the process is to end."""
        end = client.env.clock.seconds() + seconds
        while self.going_on(client) and (left := end - client.env.clock.seconds()) > 0:
            await self.wait(client, min(left, _SLICE))

    async def persist(self, client: Client, ask: Callable[[], Deferred[Any]]) -> Any:
        """Ask until there is an answer; C{None} where the process is to end meanwhile."""
        while self.going_on(client):
            try:
                return await ask()
            except CallFailed:
                await self.wait(client, _PAUSE)
        return None

    def value(self) -> str:
        """Return a new value."""
        self._number += 1
        return f"{self.name}-{self._number}"

    def body(self, value: str) -> bytes:
        """Return a body for a value: a short one mostly, at times one that is compressed."""
        size = self.chance.choice((20, 50, 100, 500, 1000, 2500, self.workload.longest))
        return body_of(value, min(size, self.workload.longest))


class SendingClient(VirtualClient):
    """
    A producer.

    @ivar attempts: requests that may be made of one send.
    """

    attempts = 3

    def parts(self, client: Client) -> list[Coroutine[Any, Any, None]]:
        """Send."""
        return [self._send(client)]

    async def _send(self, client: Client) -> None:
        producer = Producer(client, f"{self.name}-group", retries=self.attempts - 1)
        await producer.start()
        self._producer = client, producer
        under_way: list[Deferred[None]] = []
        while self.going_on(client):
            await self.pause(client, self.chance.expovariate(self.workload.rate))
            if not self.going_on(client):
                break
            sends = self.chance.randrange(2, 6) if self.chance.random() < 0.1 else 1  # some of them at once
            last = [self._run(self.send(producer)) for _ in range(sends)]
            if self.chance.random() < 0.7:
                await DeferredList(last)
            under_way = [one for one in [*under_way, *last] if not one.called]
        await DeferredList(under_way)

    async def send(self, producer: Producer) -> None:
        """Send something."""
        raise NotImplementedError

    def storm(self, sends: int, seconds: float) -> None:
        """Send often, besides what is sent anyway."""
        if self._producer is None:
            return
        client, producer = self._producer
        if self.alive and self.going_on(client):
            chance = self.workload.streams.of(f"storm {self.name}")
            for _ in range(sends):
                self._ended.append(self._run(self._send_later(client, producer, chance.uniform(0, seconds))))

    async def _send_later(self, client: Client, producer: Producer, seconds: float) -> None:
        await self.wait(client, seconds)
        await self.send(producer)

    def invoke(self, message: Message, **fields: Any) -> str:
        """Record that a send of a message begins, and return its value."""
        value = value_of(message.body)
        fields = {"attempts": self.attempts, "wait": message.wait, **fields}
        self.tell(Invoke(who=self.name, value=value, digest=zlib.crc32(message.body), **fields))
        return value

    async def outcome(self, values: list[str], sending: Deferred[SendResult], once: bool, later: bool = False) -> None:
        """
        Await the end of a send and record it.

        @param values: of its messages, in their order.
        @param once: whether one request is made of it.
        @param later: whether it is delivered later, to a place that its answer does not tell.
        """
        try:
            result = await sending
        except CallFailed as error:
            kind = Fail if once and isinstance(error, PeerRefused) else Info
            for value in values:
                self.tell(kind(who=self.name, value=value, why=str(error)))
            return
        code = result.status.value
        for part, value in enumerate(values):
            if later:
                self.tell(Ok(who=self.name, value=value, code=code, broker=result.queue.broker_name))
            else:
                queue, offset = queue_name(result.queue), result.queue_offset + part
                self.tell(Ok(who=self.name, value=value, code=code, queue=queue, offset=offset))


class PlainSender(SendingClient):
    """Sends to any queue, with and without waiting, one way at times."""

    async def send(self, producer: Producer) -> None:
        """Send one message."""
        value = self.value()
        keys = [f"key-{self.chance.randrange(20)}"] if self.chance.random() < 0.5 else []
        tag = self.chance.choice(("", "red", "green"))
        message = Message(topic=PLAIN, body=self.body(value), tag=tag, keys=keys, wait=self.chance.random() < 0.9)
        if self.chance.random() < 0.05:
            self.invoke(message, attempts=1, wait=False)
            try:
                await producer.send_one_way(message)
            except CallFailed as error:
                self.tell(Info(who=self.name, value=value, why=str(error)))
            return
        self.invoke(message)
        await self.outcome([value], producer.send(message), once=False)


class OrderSender(SendingClient):
    """Sends the steps of orders, each order to a queue of its own."""

    attempts = 1

    async def send(self, producer: Producer) -> None:
        """Send a step of an order."""
        value = self.value()
        message = Message(topic=ORDERS, body=self.body(value))
        self.invoke(message)
        order = self.chance.randrange(100)
        await self.outcome([value], producer.send_by(message, _queue_of_order, order), once=True)


def _queue_of_order(queues: Any, message: Message, order: int) -> MessageQueue:
    found: MessageQueue = queues[order % len(queues)]
    return found


class BatchSender(SendingClient):
    """Sends batches."""

    async def send(self, producer: Producer) -> None:
        """Send a batch."""
        many = self.chance.random() < 0.15
        values = [self.value() for _ in range(self.chance.randrange(10, 30) if many else self.chance.randrange(1, 5))]
        messages = [Message(topic=PLAIN, body=body_of(value, self.chance.randrange(20, 300))) for value in values]
        for part, message in enumerate(messages):
            self.invoke(message, batch=values[0], part=part)
        await self.outcome(values, producer.send_batch(messages), once=False)


class TimedSender(SendingClient):
    """Sends messages that are delivered later, by a level or to the millisecond."""

    async def send(self, producer: Producer) -> None:
        """Send one message."""
        value = self.value()
        level = self.chance.randrange(len(LEVELS) + 1)
        delay = LEVELS[level - 1] if level else round(self.chance.uniform(0.5, LEVELS[-1]), 3)
        if level:
            message = Message(topic=TIMED, body=self.body(value), delay_level=level)
        else:
            message = Message(topic=TIMED, body=self.body(value), delay=delay)
        self.invoke(message, delay=delay, timed=not level)
        self.workload.due_at(delay)
        await self.outcome([value], producer.send(message), once=False, later=True)


class ConsumingClient(VirtualClient):
    """
    A push consumer, which refuses messages at times, so that they come again.

    @ivar topics: what it subscribes to.
    """

    group = READERS
    topics: tuple[str, ...] = (PLAIN, TIMED)
    orderly = False

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._refused: Counter[str] = Counter()

    def parts(self, client: Client) -> list[Coroutine[Any, Any, None]]:
        """Consume."""
        return [self._consume(client)]

    async def _consume(self, client: Client) -> None:
        while self.going_on(client):
            settings = ConsumerSettings(
                begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, orderly=self.orderly, batch=1, concurrency=4
            )
            consumer = PushConsumer(client, self.group, lambda got: self._given(client, got), settings)
            for topic in self.topics:
                consumer.subscribe(topic)
            try:
                await consumer.start()
                return
            except CallFailed:  # no registry answers
                await self.wait(client, _PAUSE)

    def _given(self, client: Client, messages: list[ReceivedMessage]) -> Deferred[None] | None:
        values = [value_of(message.body) for message in messages]
        refuses = (
            self.workload.refuses
            and self.chance.random() < 0.04
            and all(self._refused[value] < _REFUSALS for value in values)
        )
        slow = not self.orderly and not refuses and self.chance.random() < 0.1
        self._seen(messages, failed=refuses or slow)
        if refuses:
            self._refused.update(values)
            raise ConsumeLater(1)
        if not slow:
            return None
        long = self.workload.refuses and self.chance.random() < 0.2
        waiting = self.wait(client, self.chance.uniform(*(_LONG if long else _SLOW)))
        return waiting.addCallback(lambda _: self._seen(messages, failed=False))

    def _seen(self, messages: list[ReceivedMessage], failed: bool) -> None:
        for message in messages:
            self.tell(read_of(message, 0.0, f"{self.group} {self.name}", group=self.group, failed=failed))


class WatchingClient(ConsumingClient):
    """The one member of a second group, which reads the same queues."""

    group = WATCHERS
    topics = (PLAIN,)


class OrderlyClient(ConsumingClient):
    """A member of the orderly group."""

    group = ORDERLY
    topics = (ORDERS,)
    orderly = True


class ToolClient(VirtualClient):
    """Administers: reads queues in sessions and commits how far, asks for positions, creates and deletes topics."""

    def parts(self, client: Client) -> list[Coroutine[Any, Any, None]]:
        """Read, ask, create and delete."""
        return [self._read_all(client), self._ask_positions(client), self._brief_topics(client)]

    async def _read_all(self, client: Client) -> None:
        reader = PullConsumer(client, SESSIONS)
        queues = await self.persist(client, lambda: reader.queues(PLAIN))
        await DeferredList([self._run(self._read(client, reader, queue)) for queue in queues or ()])

    async def _read(self, client: Client, reader: PullConsumer, queue: MessageQueue) -> None:
        """Read one queue from where the group is, and commit how far."""
        name = queue_name(queue)
        session = self._begins * 1000
        at = await self.persist(client, lambda: reader.committed(queue)) or 0
        while self.going_on(client):
            await self.wait(client, self.chance.uniform(0.5, 4.0))
            try:
                result = await reader.pull(queue, at, hold=5.0)
                for message in result.messages:
                    self.tell(read_of(message, 0.0, f"{reader.group} {name}", str(session)))
                if result.status is PullStatus.OFFSET_MOVED:
                    session += 1
                at = result.next_offset
                self.tell(Commit(who=self.name, group=reader.group, queue=name, offset=at))
                await reader.commit(queue, at)
            except CallFailed:
                continue

    async def _ask_positions(self, client: Client) -> None:
        while self.going_on(client):
            await self.wait(client, self.chance.uniform(3, 9))
            group, topics = self.chance.choice(((READERS, (PLAIN, TIMED)), (ORDERLY, (ORDERS,)), (SESSIONS, (PLAIN,))))
            asking = PullConsumer(client, group)
            queue = MessageQueue(
                topic=self.chance.choice(topics),
                broker_name=self.chance.choice(self.workload.broker_names),
                queue_id=self.chance.randrange(QUEUES),
            )
            try:
                at = await asking.committed(queue)
            except CallFailed:
                continue
            if at is not None:
                self.tell(Stored(who=self.name, group=group, queue=queue_name(queue), offset=at))

    async def _brief_topics(self, client: Client) -> None:
        """Create a topic, send to it, and delete it, again and again; a name is used once."""
        admin = Admin(client)
        producer = Producer(client, f"{self.name}-group", retries=0)
        await producer.start()
        while self.going_on(client):
            await self.pause(client, self.chance.expovariate(1 / 40))
            if not self.going_on(client):
                break
            topic = f"Brief-{self._begins}-{self.value()}"
            self.workload.topics.append(topic)
            try:
                await admin.topics.create(topic, 1)
                for _ in range(self.chance.randrange(4)):
                    await self._send_brief(producer, topic)
            except CallFailed:
                pass  # a part of it may have been done
            begun = self.workload.recorder.now
            certain = False
            self.tell(Dropped(who=self.name, topic=topic, begun=begun, certain=False))  # it may be killed
            try:
                certain = len(await admin.topics.delete(topic)) == len(self.workload.broker_names)
            except CallFailed:
                pass
            self.tell(Dropped(who=self.name, topic=topic, begun=begun, certain=certain))

    async def _send_brief(self, producer: Producer, topic: str) -> None:
        value = self.value()
        body = self.body(value)
        self.tell(Invoke(who=self.name, value=value, digest=zlib.crc32(body)))
        try:
            result = await producer.send(Message(topic=topic, body=body))
        except CallFailed as error:
            self.tell(Info(who=self.name, value=value, why=str(error)))
        else:
            code, queue = result.status.value, queue_name(result.queue)
            self.tell(Ok(who=self.name, value=value, code=code, queue=queue, offset=result.queue_offset))
