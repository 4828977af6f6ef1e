"""
The workload of a simulation: its virtual clients, what must go on when the faults are over, and the final read.

A run calls L{Workload.start}, lets time pass under faults, then L{Workload.settle} and L{Workload.final_read}; the
history that the recorder then holds goes to the checker.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from smartgo import Admin, CallFailed, Client, Message, MessageQueue, Producer, SmartgoError, lag_of
from tests.chaos.finalread import FinalReader
from tests.chaos.history import Group, Info, Invoke, Ok, Read, Recorder, Stuck, broker_of
from tests.chaos.values import body_of, queue_name
from tests.sim.clients import (
    LEVELS,
    ORDERLY,
    ORDERS,
    PLAIN,
    QUEUES,
    READERS,
    TIMED,
    WATCHERS,
    BatchSender,
    ConsumingClient,
    OrderlyClient,
    OrderSender,
    PlainSender,
    SendingClient,
    TimedSender,
    ToolClient,
    VirtualClient,
    WatchingClient,
)
from tests.sim.clock import after
from tests.sim.cluster import Cluster
from tests.sim.seeds import Streams

SETTLED: Final = 60.0
"""Seconds after the last fault within which sends must succeed, and consumers have consumed all (reliability T3)."""

RATE: Final = 0.15
"""Sends a second of each producer."""

_PAUSE: Final = 0.5  # seconds before what was refused is tried again
_DISTURBED: Final = 150.0  # seconds between two ends of a client's process, on average
_PROMPT: Final = 1.0  # seconds in which a send must be acknowledged when there are no faults
_SPREAD: Final = 0.02  # seconds in which the sends of a burst begin
_SOON: Final = 5.0  # seconds in which a message must be delivered then
_COPIED: Final = 15.0  # seconds in which slaves have copied their masters' tables: deleted topics are gone there, too
_COMMITTED: Final = 15.0  # seconds in which a broker knows that what was consumed in time is consumed
_BURSTS: Final = 2
_AT_ONCE: Final = 2  # sends to each queue in a burst
_STOPPED: Final = 30.0  # seconds in which a client must end
_LONGEST: Final = 6000  # bytes of a body, where a file of the log has room for some of them

_GROUPS: Final = {READERS: (PLAIN, TIMED), WATCHERS: (PLAIN,), ORDERLY: (ORDERS,)}
_SENDERS: Final = frozenset({"plain", "order", "batch", "timed"})


class Workload:
    """
    The clients of a cluster.

    @ivar clients: the client processes by name; they may be killed, stopped and started.
    @ivar topics: all that were created, or were to be.
    @ivar refuses: whether consumers refuse messages at times.
    @ivar rate: sends a second of each producer.
    @ivar longest: bytes of the longest body.
    @ivar broken: failures of the clients themselves: bugs, of the product or of the workload.
    """

    def __init__(self, cluster: Cluster, streams: Streams, recorder: Recorder, rate: float = RATE) -> None:
        """@param rate: sends a second of each producer."""
        self.cluster = cluster
        self.streams = streams
        self.recorder = recorder
        self.rate = rate
        self.longest = min(_LONGEST, cluster.profile.log_file_size // 4)
        self.topics = [PLAIN, ORDERS, TIMED]
        self.broker_names = sorted({node.broker for node in cluster.brokers.values()})
        self.refuses = True
        self.broken: list[Failure] = []
        self._due = 0.0
        self._disturbing: list[Deferred[None]] = []
        self._operator: Client | None = None
        makers: list[tuple[str, Callable[[Workload, str], VirtualClient]]] = [
            ("plain", PlainSender),
            ("order", OrderSender),
            ("batch", BatchSender),
            ("timed", TimedSender),
            ("reader-0", ConsumingClient),
            ("reader-1", ConsumingClient),
            ("watcher", WatchingClient),
            ("orderly-0", OrderlyClient),
            ("orderly-1", OrderlyClient),
            ("tool", ToolClient),
        ]
        self.clients = {name: maker(self, name) for name, maker in makers}
        self._environment = cluster.client_environment("operator")

    # -- for clients -----------------------------------------------------------------------------------------

    def broke(self, failure: Failure) -> None:
        """Remember a bug."""
        self.broken.append(failure)

    def storm(self, sends: int, seconds: float) -> None:
        """Let every producer send so often within some seconds, besides what it sends anyway."""
        for virtual in self.clients.values():
            if isinstance(virtual, SendingClient):
                virtual.storm(sends, seconds)

    def due_at(self, delay: float) -> None:
        """Remember that a message will be due so many seconds from now."""
        self._due = max(self._due, self.recorder.now + delay)

    # -- a run ------------------------------------------------------------------------------------------------

    def start(self) -> Deferred[None]:
        """Create the topics, then start all clients; fires when that is done."""
        return self._do(self._start())

    async def _start(self) -> None:
        self._operator = client = Client(self._environment, self.cluster.registry_addresses, instance="operator")
        await self._create_topics(client, math.inf)
        for group, topics in _GROUPS.items():
            self.recorder.add(Group(group=group, topics=list(topics), orderly=group == ORDERLY))
        for virtual in self.clients.values():
            virtual.start()
        if self.cluster.profile.kinds:
            self._disturbing = [self._do(self._disturb(name)) for name in self.clients]

    async def _disturb(self, name: str) -> None:
        """Kill a client's process, or stop it, and start it again, now and then."""
        chance = self.streams.of(f"disturb {name}")
        virtual = self.clients[name]
        while True:
            due = self.recorder.now + chance.expovariate(1 / _DISTURBED)
            while self.recorder.now < due:
                await self._wait(min(due - self.recorder.now, 1.0))
                if not self.refuses:  # the faults are over
                    return
            if chance.random() < 0.5:
                virtual.kill()
            else:
                await self._stop([virtual])
            await self._wait(chance.choice((0.1, 5.0, 20.0)))
            if not virtual.alive:
                virtual.start()

    async def _create_topics(self, client: Client, deadline: float) -> None:
        """Create the topics at all brokers; again where a broker has lost them."""
        admin = Admin(client)
        for topic in (PLAIN, ORDERS, TIMED):
            while self.recorder.now < deadline:
                try:
                    if len(await admin.topics.create(topic, QUEUES)) == len(self.broker_names):
                        break
                except SmartgoError:
                    pass
                await self._wait(_PAUSE)

    def settle(self) -> Deferred[None]:
        """
        Check that all goes on, now that the faults are over; fires when the clients have ended.

        Sends to every queue must succeed and groups must consume everything within L{SETTLED} seconds. Then, in quiet,
        every send must be acknowledged and delivered at once. What is not so is recorded as L{Stuck}.
        """
        return self._do(self._settle())

    async def _settle(self) -> None:
        assert self._operator is not None
        client = self._operator
        self.refuses = False
        await DeferredList(self._disturbing)
        for virtual in self.clients.values():
            if not virtual.alive:
                virtual.start()
        deadline = self.recorder.now + SETTLED
        creating = self._do(self._create_topics(client, deadline))
        producer = Producer(client, "operator-group", retries=0)
        await producer.start()
        queues = [
            MessageQueue(topic, broker, number)
            for topic in (PLAIN, ORDERS, TIMED)
            for broker in self.broker_names
            for number in range(QUEUES)
        ]
        await DeferredList([self._do(self._probe(producer, queue, deadline)) for queue in queues])
        await creating
        await self._stop([virtual for name, virtual in self.clients.items() if name in _SENDERS])
        await self._wait(max(self._due, deadline) - self.recorder.now)
        admin = Admin(client)
        begun = self.recorder.now
        for group in (READERS, WATCHERS, ORDERLY):
            await self._drained(admin, group, begun + _COMMITTED)
        for number in range(_BURSTS):
            await self._burst(producer, queues, f"burst-{number}", timed=number > 0)
        await self._stop(list(self.clients.values()))
        await self._wait(_COPIED)

    async def _probe(self, producer: Producer, queue: MessageQueue, deadline: float) -> None:
        """Send to a queue until that succeeds."""
        number = 0
        why = ""
        while self.recorder.now < deadline:
            number += 1
            why = await self._send(producer, queue, f"probe-{queue_name(queue)}-{number}")
            if not why:
                return
            await self._wait(_PAUSE)
        self.recorder.add(Stuck(text=f"{SETTLED:g} s after the faults no send to {queue_name(queue)} succeeds: {why}"))

    async def _send(self, producer: Producer, queue: MessageQueue, value: str, delay: float = 0.0) -> str:
        """Send to a queue and record that; return why it was not acknowledged with code 0, empty if it was."""
        body = body_of(value, 20)
        self.recorder.add(Invoke(who="operator", value=value, digest=zlib.crc32(body), delay=delay))
        level = LEVELS.index(delay) + 1 if delay in LEVELS else 0
        message = Message(topic=queue.topic, body=body, delay_level=level, delay=0.0 if level else delay)
        try:
            result = await producer.send_to(message, queue)
        except CallFailed as error:
            self.recorder.add(Info(who="operator", value=value, why=str(error)))
            return str(error)
        code, place, offset = result.status.value, queue_name(result.queue), result.queue_offset
        if delay:
            self.recorder.add(Ok(who="operator", value=value, code=code, broker=queue.broker_name))
        else:
            self.recorder.add(Ok(who="operator", value=value, code=code, queue=place, offset=offset))
        return result.status.name if code else ""

    async def _burst(self, producer: Producer, queues: list[MessageQueue], name: str, timed: bool) -> None:
        """
        Send to every queue at almost the same moment, then nothing: all must be acknowledged and delivered soon.

        @param timed: send delayed messages too.
        """
        first = len(self.recorder.events)
        sends: list[tuple[str, MessageQueue, float]] = []
        for queue in queues:
            for number in range(_AT_ONCE):
                sends.append((f"{name}-{queue_name(queue)}-{number}", queue, 0.0))
            if timed and queue.topic == TIMED:
                sends += [(f"{name}-{queue_name(queue)}-{delay}", queue, delay) for delay in (LEVELS[0], 1.5)]
        chance = self.streams.of(name)
        for value, queue, delay in sends:
            self._do(self._send_soon(producer, queue, value, delay, chance.uniform(0, _SPREAD)))
        await self._wait(max(delay for _, _, delay in sends) + _SOON)
        seen = {
            (event.group, event.value)
            for event in self.recorder.events[first:]
            if isinstance(event, Read) and event.group and not event.failed
        }
        for value, queue, _ in sends:
            for group, topics in _GROUPS.items():
                if queue.topic in topics and (group, value) not in seen:
                    self.recorder.add(
                        Stuck(text=f"in quiet, group {group} was not given {value} within {_SOON:g} s of its time")
                    )

    async def _send_soon(self, producer: Producer, queue: MessageQueue, value: str, delay: float, after: float) -> None:
        await self._wait(after)
        begun = self.recorder.now
        why = await self._send(producer, queue, value, delay)
        took = self.recorder.now - begun
        if why or took > _PROMPT:
            said = why or "acknowledged"
            self.recorder.add(Stuck(text=f"in quiet, a send to {queue_name(queue)} took {took:.3f} s: {said}"))

    async def _drained(self, admin: Admin, group: str, deadline: float) -> None:
        """Wait until a group has consumed everything."""
        why = ""
        while self.recorder.now < deadline:
            try:
                lag = lag_of(await admin.groups.progress(group))
            except CallFailed as error:
                why = str(error)
            else:
                if not lag:
                    return
                why = f"a lag of {lag}"
            await self._wait(2)
        self.recorder.add(Stuck(text=f"group {group} has not consumed everything after {SETTLED:g} s: {why}"))

    def final_read(self) -> Deferred[None]:
        """Read every queue of every replica twice; all servers run, without faults."""
        return self._do(self._final_read())

    async def _final_read(self) -> None:
        assert self._operator is not None
        reader = FinalReader(self._operator, self.recorder.add, lambda: self.recorder.now)
        queues = {
            f"{topic}@{broker}:{number}"
            for topic in self.topics
            for broker in self.broker_names
            for number in range(QUEUES if topic in (PLAIN, ORDERS, TIMED) else 1)
        }
        queues |= {event.queue for event in self.recorder.events if isinstance(event, Ok) and event.queue}
        for name, node in self.cluster.brokers.items():
            its = sorted(queue for queue in queues if broker_of(queue) == node.broker)
            await reader.read(name, node.address, its, whole=node.whole)
        await self._operator.stop()

    # -- parts ------------------------------------------------------------------------------------------------

    def _do(self, part: Coroutine[Any, Any, None]) -> Deferred[None]:
        return Deferred.fromCoroutine(part).addErrback(self.broke)

    def _wait(self, seconds: float) -> Deferred[None]:
        return after(self._environment.clock, max(seconds, 0.0))

    async def _stop(self, clients: list[VirtualClient]) -> None:
        """Stop clients in order; record those that do not end."""
        stopping: Deferred[Any] = DeferredList([virtual.stop() for virtual in clients])
        over: Deferred[Any] = self._wait(_STOPPED)
        await DeferredList([stopping, over], fireOnOneCallback=True)
        over.addErrback(lambda _: None)
        over.cancel()
        for virtual in clients:
            if virtual.alive:
                self.recorder.add(Stuck(text=f"the client {virtual.name} did not end within {_STOPPED:g} s"))
