"""A registry and a broker on the reactor of this process, for tests that run on Twisted."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import deferLater
from zope.interface import implementer

from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.tables.topics import topic_config
from smartgo.cli.support.embedded import BrokerSurroundings, EmbeddedNode, configuration_of
from smartgo.client.messages import ReceivedMessage, received
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import CallFailed, SettingError
from smartgo.node.process import PortTaken
from smartgo.observer import Waiters
from smartgo.remoting.interfaces import Answer, IPeer
from smartgo.schema.command import Command
from smartgo.schema.record import decode
from smartgo.schema.topics import SCHEDULE_TOPIC, check_topic
from smartgo.store.interfaces import IArrivalListener
from smartgo.testing.faultrules import ActiveFault, FaultButtons, FaultHook, FaultRule
from smartgo.testing.movedclock import MovedClock, MovedEnvironment
from smartgo.testing.wire import BROKER_NAME, QUEUES

_NOT_RUNNING: Final = "the broker of the tests does not run"
_ATTEMPTS: Final = 5
"""Attempts to start on free ports: another process may take a port between the look and the use."""
_SETTLING: Final = 10.0
"""Seconds that what was due when the clock was moved has to be delivered in."""
_LOOK: Final = 0.005  # seconds between two looks at that
_READ: Final = 256  # queue units read at a time

_SETTINGS: Final = {
    "fastPort": "false",
    "brokerName": BROKER_NAME,
    "mappedFileSizeCommitLog": "16MiB",
    "mappedFileSizeConsumeQueue": "200000",
    "fileReservedTime": "87600",  # hours: a clock that was moved makes no message too old
    "transactionCheckInterval": "1000",  # ms
}


@implementer(IArrivalListener)
class _Arrivals:
    """
    Tells all who wait at each arrival of a message.

    @ivar count: the arrivals so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiters: Waiters[None] = Waiters()

    def next(self) -> Deferred[None]:
        """Return a Deferred that fires when a message arrives in any queue."""
        return self._waiters.wait()

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Tell who waits."""
        self.count += 1
        self._waiters.fire(None)


class InProcessBroker:
    """
    A registry and a broker on free ports of the loopback interface, with a temporary store, on a reactor.

    Use it on the reactor's thread: C{await broker.start()}, and C{await broker.stop()} in the end.

    @ivar registry: C{host:port} of the registry, which clients take; C{address}: of the broker. Empty before the start.
    @ivar directory: the temporary directory, which is removed in the end.
    @ivar faults: the faults that a test can ask for.
    """

    def __init__(self, env: IEnvironment, settings: Mapping[str, str] | None = None) -> None:
        """
        @param env: the environment of the reactor; its threads end with the broker only if nothing else uses them, so
            that whoever made it stops them.
        @param settings: settings of the broker and the registry, by name, as in a configuration file.
        """
        self._env = env
        self._settings = dict(settings or {})
        self._clock = MovedClock(env.clock)
        self._hook = FaultHook(env.clock, self._carry_out)
        self._node: EmbeddedNode | None = None
        self._ports: Sequence[int] = ()
        self._arrivals = _Arrivals()
        self.registry = self.address = self.directory = ""
        self.faults: FaultButtons[ActiveFault, None] = FaultButtons(self.add_fault, self._hook.clear)

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """
        Start on free ports; return when clients can connect.

        @raise SettingError: a setting is wrong, or the broker was started before.
        @raise SmartgoError: the broker cannot start.
        """
        if self.directory:
            raise SettingError("this broker was started already")
        self.directory = self._env.files.temporary_directory("smartgo-testing-")
        try:
            for _ in range(_ATTEMPTS - 1):
                self._ports = [self._env.network.free_port() for _ in range(3)]
                try:
                    return await self._start()
                except (PortTaken, CannotListenError):
                    continue
            await self._start()
        except BaseException:
            self._env.files.remove_tree(self.directory)
            self.directory = ""
            raise

    async def _start(self) -> None:
        flags = {
            **_SETTINGS,
            **self._settings,
            "registry.listenPort": str(self._ports[0]),
            "broker.listenPort": str(self._ports[1]),
            "haListenPort": str(self._ports[2]),
            "storePathRootDir": posixpath.join(self.directory, "store"),
            "kvConfigPath": posixpath.join(self.directory, "kvConfig.json"),
        }
        surroundings = BrokerSurroundings(MovedEnvironment(self._env, self._clock), (self._hook,))
        node = EmbeddedNode(
            self._env, configuration_of(self._env, flags), lambda _: None, fill_disk=True, surroundings=surroundings
        )
        try:
            await node.start()
        except BaseException:
            await node.stop()
            raise
        self._node = node
        self.registry, self.address = node.registry, node.broker
        self._open.store.subscribe(self._arrivals)

    async def _stop(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            self._hook.clear()
            await node.stop()

    async def stop(self) -> None:
        """End the broker, its faults and its store. Does nothing if it was not started, or has ended."""
        await self._stop()
        if self.directory:
            self._env.files.remove_tree(self.directory)
        self.directory = ""

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """
        Have the registry and the broker down for a while: C{async with broker.down()}.

        Nobody listens at their addresses, and connections end. Afterwards both are back there, with their store. Faults
        end; the clock can be moved meanwhile.

        @raise CallFailed: the broker does not run, or another process took a port meanwhile.
        """
        await self.go_down()
        try:
            yield
        finally:
            await self.come_back()

    async def go_down(self) -> None:
        """
        Do the first half of L{down}.

        @raise CallFailed: the broker does not run.
        """
        if self._node is None:
            raise CallFailed(_NOT_RUNNING)
        await self._stop()

    async def come_back(self) -> None:
        """
        Do the second half of L{down}; does nothing if the broker runs, or was stopped for good.

        @raise CallFailed: another process took a port meanwhile.
        """
        if self._node is None and self.directory:
            try:
                await self._start()
            except (PortTaken, CannotListenError) as error:
                raise CallFailed(f"the broker cannot come back: {error}") from None

    async def restart(self) -> None:
        """End the broker as an upgrade does, and start it with the same store at the same addresses; faults end."""
        await self._stop()
        await self._start()

    async def purge(self) -> None:
        """
        Remove all messages, topics, groups and faults, and take back the moves of the clock.

        The broker starts again with an empty store at the same addresses: clients lose their connections, and connect
        again.
        """
        await self._stop()
        self._env.files.remove_tree(posixpath.join(self.directory, "store"))
        self._clock.ahead = 0.0
        await self._start()

    @property
    def _open(self) -> OpenBroker:
        opened = None if self._node is None else self._node.opened
        if opened is None:
            raise CallFailed(_NOT_RUNNING)
        return opened

    # -- topics and messages ---------------------------------------------------------------------------------------

    async def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """
        Create a topic; return when clients can find it.

        @raise BadName: the name cannot be that of a topic.
        """
        check_topic(name)
        opened = self._open
        opened.topics.update(topic_config(name, queues, 6, 0))  # to be read and written
        told = opened.registries_informed()
        await opened.topics.save()
        if told is not None:
            await told

    async def messages(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[ReceivedMessage]:
        """
        Return the messages that are stored in a topic, queue by queue; none for an unknown topic.

        Messages whose delay is not over are not in their topic yet, and a committed transaction's are. The dead letters
        of a group are in the topic C{%DLQ%} and its name.

        @param at_least: wait until there are as many.
        @param timeout: seconds of real time for that.
        @raise CallFailed: there were fewer when the time was over.
        """
        clock = self._env.clock
        deadline = clock.seconds() + timeout
        while True:
            arrived = self._arrivals.count
            found = await self._stored(topic)
            if len(found) >= at_least:
                return found
            left = deadline - clock.seconds()
            if left <= 0:
                raise CallFailed(f"topic {topic} has {len(found)} of {at_least} messages after {timeout} s")
            if arrived == self._arrivals.count:
                await self._arrivals.next().addTimeout(left, clock, onTimeoutCancel=lambda result, _: None)

    async def records(self, topic: str) -> list[bytes]:
        """Return the records of the messages of a topic, as they are stored, queue by queue."""
        store = self._open.store
        found: list[bytes] = []
        for queue_id in sorted(queue for name, queue in store.queues() if name == topic):
            low, high = store.bounds(topic, queue_id)
            for begin in range(low, high, _READ):
                units = store.units(topic, queue_id, begin, min(_READ, high - begin))
                found += [bytes(await store.at(one.commitlog_offset, one.size)) for one in units if not one.is_filler]
        return found

    async def _stored(self, topic: str) -> list[ReceivedMessage]:
        return [received(decode(record), BROKER_NAME) for record in await self.records(topic)]

    def lag(self, group: str) -> int:
        """
        Return the number of messages that a group has not acknowledged, its retries included.

        Consumers commit their offsets every 5 s, and when they stop.
        """
        opened = self._open
        members = opened.consumers.get(group)
        topics = set(opened.offsets.topics_of(group)).union(() if members is None else members.subscriptions)
        behind = 0
        for topic, queue_id in opened.store.queues():
            if topic in topics:
                low, high = opened.store.bounds(topic, queue_id)
                behind += max(0, high - (opened.offsets.query(group, topic, queue_id) or low))
        return behind

    # -- faults ----------------------------------------------------------------------------------------------------

    def add_fault(self, rule: FaultRule) -> ActiveFault:
        """Let requests meet a fault from now on; C{faults} has a method for each."""
        return self._hook.add(rule)

    def _carry_out(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        return self._open.requests.dispatcher.carry_out(peer, request)

    # -- time ------------------------------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """
        Move the broker's wall clock forward; return when all messages that are due then are delivered to their topics.

        Delays, retries, timed messages and check-backs of transactions follow it. Connections, leases and the client's
        own clock do not. A broker that is down delivers what is due when it is back.

        @raise ValueError: C{seconds} is negative.
        @raise CallFailed: what is due was not delivered in 10 s.
        """
        self._clock.advance(seconds)
        if self._node is None and self.directory:
            return  # it is down: what is due is delivered when it is back
        deadline = self._env.clock.seconds() + _SETTLING
        await deferLater(self._env.clock, 0)
        while self._is_due():
            if self._env.clock.seconds() > deadline:
                raise CallFailed(f"messages that are due were not delivered within {_SETTLING} s")
            await deferLater(self._env.clock, _LOOK)

    def _is_due(self) -> bool:
        """Tell whether something is due that is not delivered, or check-backs are under way."""
        opened = self._open
        now_ms = self._clock.wall_ms()
        for level, offset in opened.delay.offsets.items():
            units = opened.store.units(SCHEDULE_TOPIC, level - 1, offset, 1)
            if units and units[0].tag_hash <= now_ms:
                return True
        timers = opened.store.timers
        if timers is not None and timers.next_between_ms is not None and timers.next_between_ms[0] <= now_ms:
            return True
        if opened.timed is not None and not opened.timed.idle:
            return True
        return opened.transactions is not None and not opened.transactions.idle
