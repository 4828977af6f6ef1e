"""
The clients of a run, each a process of its own: our client library sends and reads, and records what it sees.

Run as C{python -m tests.chaos.workload PLAN}, PLAN being a L{Load} or a L{FinalRead} as JSON. Events come out as lines
on standard output. A line on standard input ends a load: sends under way are waited for, readers end.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, Union

import msgspec
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime, IReadDescriptor
from twisted.internet.task import deferLater, react
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.client.pullconsumer import (
    PullConsumer,
    PullStatus,
)
from smartgo.env.real import RealEnvironment
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import ConsumeFromWhere, MessageQueue
from tests.chaos import history
from tests.chaos.finalread import FinalReader
from tests.chaos.history import Commit, Event, Fail, Info, Invoke, Ok, Stored
from tests.chaos.values import body_of, queue_name, read_of

_UNTIRING: Final = 1_000_000  # bytes from which bodies would be compressed
_PAUSE: Final = 0.2  # seconds before a reader that was refused tries again
_COMMIT_EVERY: Final = 1.0  # seconds
_PATIENCE: Final = 60.0  # seconds that the final read goes on trying at one queue


class Load(msgspec.Struct, kw_only=True, tag="load"):
    """
    Producers and consumers.

    @ivar begun: when the run began, by the machine's monotonic clock.
    @ivar label: begins every value, so that several loads of a run send different ones.
    @ivar producers: how many sends are under way at once.
    @ivar rate: sends a second, all producers together; 0 for as many as are answered.
    @ivar size: bytes of a body.
    @ivar attempts: requests of one send at most.
    @ivar timeout: seconds for one send, all its attempts together.
    @ivar group: of a push consumer; empty for none.
    @ivar readers: of a group that reads each queue in sessions and commits; empty for none.
    @ivar limit: sends in all; 0 for no end.
    """

    begun: float
    registries: str
    topic: str
    label: str = "m"
    producers: int = 4
    rate: float = 100
    size: int = 512
    attempts: int = 3
    timeout: float = 3.0
    group: str = ""
    readers: str = ""
    limit: int = 0


class FinalRead(msgspec.Struct, kw_only=True, tag="final"):
    """
    Every queue of one replica, twice, asked of it and nobody else.

    @ivar address: C{host:port} of its main port.
    @ivar whole: whether it is to have its queues from the first message on.
    """

    begun: float
    replica: str
    address: str
    queues: list[str]
    whole: bool = True


@implementer(IReadDescriptor)
class _Input:
    """
    Fires for the first bytes, or the end, of standard input.

    Twisted's own StandardIO is of no use: it makes standard output non-blocking, and events were lost by it.
    """

    def __init__(self, reactor: Any) -> None:
        self.ended: Deferred[None] = Deferred()
        self._reactor = reactor
        reactor.addReader(self)

    def fileno(self) -> int:
        """Standard input."""
        return 0

    def logPrefix(self) -> str:
        """For Twisted's log."""
        return "input"

    def doRead(self) -> None:
        """Hear the word, once."""
        self._reactor.removeReader(self)
        self._end()

    def connectionLost(self, reason: Failure) -> None:
        """Hear that the other end is closed."""
        self._end()

    def _end(self) -> None:
        if not self.ended.called:
            self.ended.callback(None)


class _Work:
    """
    The common part of all clients: the reactor, a clock that counts from the run's begin, and the record of events.
    """

    def __init__(self, reactor: Any, begun: float) -> None:
        self.reactor: IReactorTime = reactor
        self.env = RealEnvironment(reactor)
        self._begun = begun
        self.running = True

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._begun, 6)

    def tell(self, event: Event) -> None:
        """Write one event down."""
        sys.stdout.buffer.write(history.encode(event))
        sys.stdout.buffer.flush()

    def wait(self, seconds: float) -> Deferred[None]:
        """Fire after a while."""
        done: Deferred[None] = deferLater(self.reactor, max(seconds, 0), lambda: None)
        return done


class _Loaded(_Work):
    """A L{Load} at work."""

    def __init__(self, reactor: Any, plan: Load) -> None:
        super().__init__(reactor, plan.begun)
        self.plan = plan
        self.client = Client(self.env, plan.registries, instance=plan.label)
        self._number = 0
        self._next = 0.0

    async def run(self, ended: Deferred[None]) -> None:
        """Send and read until told to end."""
        plan = self.plan
        ended.addCallback(lambda _: setattr(self, "running", False))
        producer = Producer(
            self.client, f"{plan.label}-producers", plan.timeout, plan.attempts - 1, compress_from=_UNTIRING
        )
        await producer.start()
        parts: list[Coroutine[Any, Any, None]] = []
        if plan.group:
            settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
            consumer = PushConsumer(self.client, plan.group, self._consumed, settings)
            consumer.subscribe(plan.topic)
            await consumer.start()
        if plan.readers:
            reader = PullConsumer(self.client, plan.readers)
            parts += [self._read(reader, queue) for queue in await self._persist(lambda: reader.queues(plan.topic))]
        self._next = self.env.clock.seconds()
        parts += [self._send(producer, f"{plan.label}p{number}") for number in range(plan.producers)]
        await DeferredList([Deferred.fromCoroutine(part) for part in parts], fireOnOneErrback=True)
        await self.client.stop()

    async def _persist(self, ask: Callable[[], Deferred[Any]]) -> Any:
        while True:
            try:
                return await ask()
            except CallFailed:
                await self.wait(_PAUSE)

    async def _send(self, producer: Producer, who: str) -> None:
        plan = self.plan
        while self.running and (not plan.limit or self._number < plan.limit):
            value = f"{plan.label}-{self._number}"
            self._number += 1
            if plan.rate:
                self._next = max(self._next + 1 / plan.rate, self.env.clock.seconds() - 1)
                await self.wait(self._next - self.env.clock.seconds())
            body = body_of(value, plan.size)
            self.tell(Invoke(t=self.now, who=who, value=value, digest=zlib.crc32(body), attempts=plan.attempts))
            try:
                result = await producer.send(Message(topic=plan.topic, body=body))
            except PeerRefused as error:
                # an attempt before the refused one may have been stored
                kind = Fail if plan.attempts == 1 else Info
                self.tell(kind(t=self.now, who=who, value=value, why=f"{error.code} {error}"))
                await self.wait(_PAUSE)
            except CallFailed as error:
                self.tell(Info(t=self.now, who=who, value=value, why=str(error)))
                await self.wait(_PAUSE)
            else:
                place = queue_name(result.queue)
                code = result.status.value
                self.tell(Ok(t=self.now, who=who, value=value, code=code, queue=place, offset=result.queue_offset))

    def _consumed(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            self._seen(message, self.plan.group, "")

    def _seen(self, message: ReceivedMessage, who: str, session: str) -> None:
        self.tell(read_of(message, self.now, who, session))

    async def _read(self, reader: PullConsumer, queue: MessageQueue) -> None:
        """Read one queue from its begin on, and commit how far; after a failure go on where it was."""
        name = queue_name(queue)
        at = committed = 0
        session = 1
        due = self.now + _COMMIT_EVERY
        while self.running:
            try:
                result = await reader.pull(queue, at, hold=1)
                for message in result.messages:
                    self._seen(message, f"{reader.group} {name}", str(session))
                if result.status is PullStatus.OFFSET_MOVED:
                    session += 1
                at = result.next_offset
                if self.now >= due and at != committed:
                    self.tell(Commit(t=self.now, who=reader.group, group=reader.group, queue=name, offset=at))
                    await reader.commit(queue, at)
                    committed = at
                    due = self.now + _COMMIT_EVERY
                    stored = await reader.committed(queue)
                    if stored is not None:
                        self.tell(Stored(t=self.now, who=reader.group, group=reader.group, queue=name, offset=stored))
            except CallFailed:
                await self.wait(_PAUSE)


class _FinallyRead(_Work):
    """A L{FinalRead} at work."""

    def __init__(self, reactor: Any, plan: FinalRead) -> None:
        super().__init__(reactor, plan.begun)
        self.plan = plan
        self.client = Client(self.env, plan.address)

    async def run(self, ended: Deferred[None]) -> None:
        """Read all queues, twice; a queue that cannot be read leaves no bounds."""
        plan = self.plan
        reader = FinalReader(self.client, self.tell, lambda: self.now)
        await reader.read(plan.replica, plan.address, plan.queues, plan.whole)
        await self.client.stop()


def _main(reactor: Any, plan: str) -> Deferred[None]:
    parsed = msgspec.json.decode(plan, type=Union[Load, FinalRead])  # noqa: UP007  msgspec wants the union as a value
    commands = _Input(reactor)
    work = _Loaded(reactor, parsed) if isinstance(parsed, Load) else _FinallyRead(reactor, parsed)
    return Deferred.fromCoroutine(work.run(commands.ended))


if __name__ == "__main__":
    react(_main, sys.argv[1:])
