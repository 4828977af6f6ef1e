"""Doubles of a connection, a store and a whole broker for the tests of tables and processors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, gatherResults, succeed
from zope.interface import implementer

from smartgo.broker.cluster.registration import Identity
from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.interfaces import IBroker
from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.producers import ProducerTable
from smartgo.broker.tables.progress import GroupProgress
from smartgo.broker.tables.topics import TopicTable
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.counts import Counts
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.slowturns import SlowTurns
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headerfields import Header
from smartgo.schema.message import pack_host
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment


@implementer(IPeer)
class FakePeer:
    """A connection that remembers what it was told."""

    def __init__(self, address: str = "192.0.2.7:40001", local_port: int = 10911) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self.host = pack_host(host.strip("[]"), int(port))
        self.local_ip = "192.0.2.1"
        self.local_port = local_port
        self.certificate_names: tuple[str, ...] = ()
        self.open = True
        self.told: list[Command] = []
        self.closed_because: list[str] = []

    def tell(self, command: Command) -> None:
        """Remember it."""
        self.told.append(command)

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """Nobody answers."""
        self.told.append(command)
        return Deferred()

    def close(self, reason: str) -> None:
        """Be closed."""
        self.open = False
        self.closed_because.append(reason)

    def notified(self) -> list[str]:
        """The groups that were told of (40) since the last call."""
        told, self.told = self.told, []
        assert all(one.code == 40 and one.is_one_way for one in told), told
        return [one.fields["consumerGroup"] for one in told]


class FakeStore:
    """
    Queues that have bounds and times, and nothing in them.

    @ivar stored: (topic, queue id) -> (first offset, [stored ms of each message]).
    @ivar far: the queues whose first message is far back.
    """

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], tuple[int, list[int]]] = {}
        self.far: set[tuple[str, int]] = set()
        self.asked: list[tuple[Any, ...]] = []
        self.deleted: list[str] = []

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset."""
        first, times = self.stored.get((topic, queue_id), (0, []))
        return first, first + len(times)

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> Deferred[int]:
        """A time, or -1."""
        first, times = self.stored.get((topic, queue_id), (0, []))
        return succeed(times[offset - first] if first <= offset < first + len(times) else -1)

    def stored_times(self, places: Sequence[tuple[str, int, int]]) -> Deferred[list[int]]:
        """Times, or -1."""
        return gatherResults([self.stored_ms(*place) for place in places])

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str | None = None) -> Deferred[int]:
        """The first at or after the time."""
        self.asked.append((topic, queue_id, timestamp_ms, boundary))
        first, times = self.stored.get((topic, queue_id), (0, []))
        return succeed(first + sum(one < timestamp_ms for one in times))

    def is_far_back(self, topic: str, queue_id: int, offset: int) -> bool:
        """As set."""
        return (topic, queue_id) in self.far

    def queues(self) -> Iterable[tuple[str, int]]:
        """Those that have something."""
        return list(self.stored)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether it has something."""
        return (topic, queue_id) in self.stored

    def last_at(self, topic: str, queue_id: int) -> int:
        """As if the log began with it."""
        return 0 if self.stored.get((topic, queue_id), (0, []))[1] else -1

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """Remember it."""
        self.deleted.append(topic)
        for key in [key for key in self.stored if key[0] == topic]:
            del self.stored[key]
        return succeed(None)


def configured(**changes: object) -> Configuration:
    """The defaults, but for settings of any table by the names of their attributes."""
    configuration = Configuration()
    for table in ("broker", "store", "limits"):
        fields = getattr(configuration, table).__struct_fields__
        ours = {name: changes.pop(name) for name in list(changes) if name in fields}
        replaced = msgspec.structs.replace(getattr(configuration, table), **ours)
        configuration = msgspec.structs.replace(configuration, **{table: replaced})
    if changes:
        raise AssertionError(f"no settings: {changes}")
    return configuration


def current(**changes: object) -> CurrentSettings:
    """As L{configured}, for a table."""
    return CurrentSettings(configured(**changes))


def change(settings: CurrentSettings, **changes: object) -> None:
    """Put other settings in force, the rest being the defaults."""
    settings.replace(configured(**changes))


@implementer(IBroker)
class FakeBroker:
    """
    A broker made of real tables and a L{FakeStore}, with no ports, no registries and no replication.

    Tables may be replaced before it is given to a processor.
    """

    def __init__(
        self,
        env: IEnvironment | None = None,
        *,
        sync: bool = False,
        slave: bool = False,
        may_notify: Callable[[str], bool] = lambda group: True,
        table_settings: CurrentSettings | None = None,
        **settings: object,
    ) -> None:
        """
        @param table_settings: what the tables read, where that differs from what processors read.
        @param settings: as L{configured} takes them.
        """
        self.env: IEnvironment = FakeEnvironment() if env is None else env
        clock = self.env.clock
        self.identity = Identity("DefaultCluster", "broker-a", int(slave), "192.0.2.1:10911", "192.0.2.1:10912")
        self.is_slave = slave
        self.access = None
        self.settings = LiveSettings(clock, configured(broker_name="broker-a", **settings))
        self.store_settings = StoreSettings(sync_flush=sync)
        now = self.settings.current if table_settings is None else table_settings
        self.fake_store = FakeStore()
        self.topics = TopicTable(clock, TableFile(self.env, "/c/topics.json"), now, sync=sync)
        self.groups = GroupTable(clock, TableFile(self.env, "/c/groups.json"), now, sync=sync)
        self.offsets = OffsetTable(clock)
        self.consumers = ConsumerTable(clock, may_notify)
        self.producers = ProducerTable(clock)
        self.long_polls = LongPollTable(clock, now)
        self.stats = BrokerStats(clock)
        store: Any = self.fake_store  # it lacks what no table and no administration asks for
        self.store = store
        self.group_progress = GroupProgress(
            clock, self.topics, self.offsets, self.consumers, store, self.stats, broker_name="broker-a"
        )
        self.delay: Any = FakeDelay()
        self.timed = None
        self.transactions = None
        self.spans = None
        self.runtime_info: Any = None
        self.replication: Any = None
        self.connections = 0
        self.connection_counts = Counts()
        self.registries_without_us = 0
        self.memory_budget = MemoryBudget(clock)
        self.slow_turns = SlowTurns(clock)
        self.informed: Deferred[None] | None = None

    def registries_informed(self) -> Deferred[None] | None:
        """As set."""
        return self.informed

    def is_without_master(self) -> bool:
        """Never."""
        return False


class FakeDelay:
    """The delivery offsets of delay levels, as set."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}


def request(code: int, header: Header | None = None, body: Any = b"", **fields: str) -> Command:
    """A request as it comes off the wire; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    sent = Command.request(code, header, data, fields or None)
    sent.opaque = 77
    return decode(encode(sent)[4:])


def received(answer: object) -> Command:
    """An answer as its reader sees it."""
    if isinstance(answer, list):
        answer = b"".join(bytes(one) for one in answer)
    frame = answer if isinstance(answer, bytes) else encode(answer)  # type: ignore[arg-type]
    command = decode(frame[4:])
    assert command.is_response
    assert command.opaque == 77
    return command


def body_of(answer: object) -> Any:
    """The JSON body of an answer."""
    return msgspec.json.decode(received(answer).body)
