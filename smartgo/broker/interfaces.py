"""Interfaces between the broker and its request processors, send stages, REST API and gateways."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from smartgo.auth.connections import AccessControl
from smartgo.broker.cluster.registration import Identity
from smartgo.broker.cluster.replicationstate import Replication
from smartgo.broker.figures.runtimeinfo import RuntimeInfo
from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.send import Send
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.spans.sink import SpanSink
from smartgo.broker.stages.delaydelivery import DelayDelivery
from smartgo.broker.stages.timerdelivery import TimerDelivery
from smartgo.broker.stages.transactions import Transactions
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.producers import ProducerTable
from smartgo.broker.tables.progress import GroupProgress
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IEnvironment
from smartgo.net.counts import Counts
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.slowturns import SlowTurns
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.progress import RecoveredSoFar
from smartgo.store.settings import StoreSettings


class IBroker(Interface):
    """
    One broker of this process, whose store is open. Everything is asked on the reactor thread; no attribute is ever
    set from outside.
    """

    env = cast(IEnvironment, Attribute("Clock, random numbers, files, network and threads."))
    identity = cast(Identity, Attribute("Cluster, broker name, broker id and addresses, as registries are told."))
    is_slave = cast(bool, Attribute("Whether the role is SLAVE: tables and log are copies of a master's."))
    settings = cast(LiveSettings, Attribute("The settings: C{current} to read them, C{change} to change them."))
    access = cast("AccessControl | None", Attribute("The permissions of clients; C{None} where access control is off."))
    store_settings = cast(StoreSettings, Attribute("The settings of the store, which never change."))

    store = cast(OpenStore, Attribute("The messages."))
    topics = cast(TopicTable, Attribute("All topics."))
    groups = cast(GroupTable, Attribute("All consumer groups."))
    offsets = cast(OffsetTable, Attribute("How far groups have consumed."))
    consumers = cast(ConsumerTable, Attribute("The connected consumers, by group."))
    producers = cast(ProducerTable, Attribute("The connected producers, by group."))
    long_polls = cast(LongPollTable, Attribute("The pulls that wait for messages."))
    delay = cast(DelayDelivery, Attribute("The delivery of delayed messages."))
    timed = cast(
        "TimerDelivery | None", Attribute("The delivery of timed messages; C{None} on a slave, or if disabled.")
    )
    transactions = cast("Transactions | None", Attribute("The undecided transactions; C{None} on a slave."))
    stats = cast(BrokerStats, Attribute("Counters of topics, groups and queues."))
    group_progress = cast(GroupProgress, Attribute("What groups consume, and their lag."))
    spans = cast("SpanSink | None", Attribute("Makes OpenTelemetry spans; C{None} where none are made."))
    runtime_info = cast(RuntimeInfo, Attribute("Figures of the store and of replication."))
    replication = cast(Replication, Attribute("The connections to slaves, or to the master."))

    connections = cast(int, Attribute("How many connections there are to the broker's ports."))
    connection_counts = cast(Counts, Attribute("What happened to the connections to the broker's ports."))
    registries_without_us = cast(int, Attribute("How many registries did not take the last registration."))
    memory_budget = cast(MemoryBudget, Attribute("The memory that peers may make this process keep."))
    slow_turns = cast(SlowTurns, Attribute("What held the reactor of this process up."))

    def registries_informed() -> Deferred[None] | None:
        """Wait until the registries know all changes of topics; C{None} where they do. Never fails."""

    def is_without_master() -> bool:
        """Tell whether this is a slave that does not follow its master's log just now."""


class IBrokerService(Interface):
    """The life of one broker of this process; its settings are there from the beginning."""

    settings = cast(LiveSettings, Attribute("The settings: C{current} to read them, C{change} to change them."))
    opened = cast(
        "IBroker | None", Attribute("The broker, from the moment that its store is open; C{None} before that.")
    )
    recovered_so_far = cast(
        "RecoveredSoFar | None", Attribute("How far the recovery of the store is; C{None} where none reads the log.")
    )


class ISendStage(Interface):
    """
    One step that a message which is not plain passes between the checks of a send and the store.

    A plain message passes no stage: its topic is known and no retry topic, it is no half message, and it has no
    property that a stage names.
    """

    properties = cast("frozenset[str]", Attribute("The names of properties that make a message pass the stages."))

    def apply(send: Send) -> Send:
        """
        Return the message as the next stage, and at last the store, shall have it; called once a message.

        @raise smartgo.errors.RequestRefused: the message is not stored; this is the answer.
        """
