"""Who answers which request to a broker, and what of that can be changed while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from smartgo.broker.cluster.advertisedaddress import AdvertisedAddress
from smartgo.broker.figures.queuestats import QueueStats
from smartgo.broker.processors.brokeradmin import BrokerAdmin
from smartgo.broker.processors.clientadmin import ClientAdmin
from smartgo.broker.processors.groupadmin import GroupAdmin
from smartgo.broker.processors.heartbeat import HeartbeatProcessor
from smartgo.broker.processors.masteronly import MasterOnly
from smartgo.broker.processors.offsets import OffsetProcessor
from smartgo.broker.processors.progressadmin import ProgressAdmin
from smartgo.broker.processors.pull import PullProcessor
from smartgo.broker.processors.query import QueryProcessor
from smartgo.broker.processors.queueadmin import QueueAdmin
from smartgo.broker.processors.queuelocks import LockTable, RebalanceProcessor
from smartgo.broker.processors.send import SendProcessor
from smartgo.broker.processors.sendback import RetryTopics, SendBackProcessor
from smartgo.broker.processors.topicadmin import TopicAdmin
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.tables.brokertables import BrokerTables
from smartgo.broker.tables.topics import READ, WRITE
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.memorybudget import MemoryBudget
from smartgo.remoting.buglog import BugLog
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IRequestProcessor


class Requests:
    """
    The processors of one broker.

    @ivar dispatcher: of the main port; C{fast} that of the second port, where nothing is pulled.
    @ivar heartbeat: hears when a connection ends, and is stopped with the broker.
    """

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        parts: BrokerTables,
        place: AdvertisedAddress,
        settings: LiveSettings,
        facts: Callable[[], dict[str, str]],
        more: Sequence[IRequestProcessor],
        deserted: Callable[[], bool],
        told: Callable[[], Deferred[None] | None],
        budget: MemoryBudget,
    ) -> None:
        """
        @param settings: what is in force, and how to change it.
        @param facts: what the store adds to the runtime information.
        @param more: processors of replication.
        @param deserted: whether this is a slave whose master is away.
        @param told: fires when the registries have heard of all changes of topics; C{None} where they have.
        @param budget: counts what clients make the broker keep.
        """
        config, limits = configuration.broker, configuration.limits
        clock, slave = env.clock, config.is_slave
        store, topics, groups, offsets = parts.store, parts.topics, parts.groups, parts.offsets
        consumers, producers, stats = parts.consumers, parts.producers, parts.stats
        readable, writable = bool(config.broker_permission & READ), bool(config.broker_permission & WRITE)
        retries = RetryTopics(topics, groups)
        self._parts = parts
        self._settings = settings
        self.heartbeat = HeartbeatProcessor(
            clock, producers, consumers, groups, topics, slave=slave, groups_a_peer=limits.max_groups_per_connection
        )
        self._send = SendProcessor(
            store,
            topics,
            retries,
            stats,
            env.random,
            parts.settings.delay_levels,
            cluster=config.broker_cluster_name,
            broker=place.address,
            store_host=place.store_host,
            writable=writable,
            region=config.region_id,
            trace_on=config.trace_on,
            sync=parts.settings.sync_flush or config.broker_role == "SYNC_MASTER",
        )
        self._pull = PullProcessor(
            clock,
            store,
            topics,
            groups,
            offsets,
            consumers,
            parts.hold,
            stats,
            broker=place.address,
            broker_name=config.broker_name,
            store_host=place.store_host,
            readable=readable,
            slave_read=config.slave_read_enable,
            long_polling=config.long_polling_enable,
            short_polling=config.short_polling_time_mills,
            slave=slave,
            correct=not slave or configuration.store.offset_check_in_slave,
            deserted=deserted,
        )
        self._send_back = SendBackProcessor(
            store,
            groups,
            retries,
            stats,
            env.random,
            parts.settings.delay_levels,
            broker=place.address,
            store_host=place.store_host,
            writable=writable,
        )
        takers = [MasterOnly(config.broker_name, place.address)] if slave else [self._send, self._send_back]
        processors = [
            *takers,
            *more,
            self._pull,
            OffsetProcessor(offsets, topics, groups, store, limits.max_groups),
            QueryProcessor(
                store,
                consumers,
                broker_name=config.broker_name,
                limit=configuration.store.max_msgs_num_batch,
                unique_limit=configuration.store.default_query_max_num,
            ),
            self.heartbeat,
            RebalanceProcessor(LockTable(clock, budget, limit=limits.max_queue_locks), topics, config.broker_name),
            TopicAdmin(
                topics, offsets, consumers, store, stats, broker_name=config.broker_name, slave=slave, told=told
            ),
            GroupAdmin(groups, offsets, consumers, producers, stats, slave=slave),
            ProgressAdmin(
                parts.group_progress,
                topics,
                groups,
                offsets,
                store,
                lambda: parts.delay.offsets,
                address=place.address,
                group_limit=limits.max_groups,
                slave=slave,
            ),
            ClientAdmin(topics, offsets, consumers, store, parts.group_progress, slave=slave),
            QueueAdmin(topics, consumers, store, slave=slave),
            BrokerAdmin(stats, settings, QueueStats(clock, topics, store), (facts,)),
        ]
        faults = BugLog()
        self.dispatcher = Dispatcher(processors, faults=faults)
        self.fast = Dispatcher(processors, without=PullProcessor.codes, faults=faults)

    def follow_settings(self) -> None:
        """Let those settings be changed at run time whose followers can take a new value."""
        follow, topics, hold = self._settings.follow, self._parts.topics, self._parts.hold
        follow("autoCreateTopicEnable", topics.set_auto_create)
        follow("shortPollingTimeMills", self._set_short_polling)
        follow("notifyConsumerIdsChangedEnable", lambda value: None)  # looked up where it is needed
        simple: tuple[tuple[str, object, str], ...] = (
            ("autoCreateSubscriptionGroup", self._parts.groups, "auto_create"),
            ("longPollingEnable", self._pull, "long_polling"),
            ("longPollingMaxTimeMills", hold, "longest"),
            ("traceOn", self._send, "trace_on"),
            ("maxTopics", topics.room, "limit"),
            ("maxQueuesPerTopic", topics, "queue_limit"),
            ("maxHeldPulls", hold, "limit"),
            ("maxHeldPullsPerConnection", hold, "peer_limit"),
        )
        for name, part, attribute in simple:
            follow(name, partial(setattr, part, attribute))

    def _set_short_polling(self, seconds: float) -> None:
        self._pull.short_polling = self._parts.hold.short = seconds

    def permit(self, permission: int) -> None:
        """Take sends and pulls from now on, or not."""
        self._send.writable = self._send_back.writable = bool(permission & WRITE)
        self._pull.readable = bool(permission & READ)
