"""
The assembly of a broker: store, tables, processors, ports, registration, in the order in which they start and stop.

Start: the store is opened and recovered, tables are loaded, what the store has and the tables lost is re-created,
delayed messages begin, the ports open, the registries are told. Stop is the other way round (reliability D14): no new
connections, requests in flight are answered, registries are told, offsets are saved, the store is flushed and closed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, gatherResults, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.admin import BrokerAdmin
from smartgo.broker.announce import Announcer
from smartgo.broker.announcement import Identity
from smartgo.broker.clientadmin import ClientAdmin
from smartgo.broker.consumers import ConsumerTable
from smartgo.broker.delay import DelayProgress, DelayQueues
from smartgo.broker.dlq import RetryTopics, SendBackProcessor
from smartgo.broker.groupadmin import GroupAdmin
from smartgo.broker.groups import GroupTable
from smartgo.broker.heartbeat import HeartbeatProcessor
from smartgo.broker.hold import PullHold
from smartgo.broker.livesettings import LiveSettings
from smartgo.broker.masteronly import MasterOnly
from smartgo.broker.offsetrequests import OffsetProcessor
from smartgo.broker.offsets import OffsetTable
from smartgo.broker.producers import ProducerTable
from smartgo.broker.progress import GroupProgress
from smartgo.broker.progressadmin import ProgressAdmin
from smartgo.broker.pull import PullProcessor
from smartgo.broker.query import QueryProcessor
from smartgo.broker.queueadmin import QueueAdmin
from smartgo.broker.queuestats import QueueStats
from smartgo.broker.rebalance import LockTable, RebalanceProcessor
from smartgo.broker.replication import Following, Leading, Replication
from smartgo.broker.replication import facts as replication_facts
from smartgo.broker.send import SendProcessor
from smartgo.broker.stats import BrokerStats
from smartgo.broker.terms import as_slave, durability, size_text, store_settings
from smartgo.broker.topicadmin import TopicAdmin
from smartgo.broker.topics import READ, WRITE, TopicTable
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.remoting.audience import Audience
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.counts import Counts
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.endpoints import endpoint
from smartgo.remoting.faults import Faults
from smartgo.remoting.interfaces import IConnectionListener, IPeer
from smartgo.remoting.limits import SERVER, Limits
from smartgo.remoting.rounds import Rounds
from smartgo.remoting.server import RemotingServer
from smartgo.remoting.tls import ClientTLS, ServerTLS
from smartgo.schema.delay import DelayLevels
from smartgo.schema.message import pack_host
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import SCHEDULE_TOPIC
from smartgo.store.messagestore import MessageStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile

_CHANGED: Final = "changedSettings.json"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  looked for, not bound


@implementer(IConnectionListener)
class _Connections:
    """Tells the tables of clients when a connection has ended."""

    def __init__(self, heartbeat: HeartbeatProcessor) -> None:
        self._heartbeat = heartbeat

    def active(self, peer: IPeer) -> None:
        """Nothing is known about it yet."""

    def connected(self, peer: IPeer) -> None:
        """Nothing is known about it yet."""

    def first_frame(self, peer: IPeer) -> None:
        """Heartbeats tell who it is."""

    def idle(self, peer: IPeer, seconds: float) -> None:
        """It is closed next."""

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """The other side ended it."""
        self._heartbeat.disconnected(peer)

    def closed(self, peer: IPeer) -> None:
        """We ended it."""
        self._heartbeat.disconnected(peer)

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Its end follows."""


def _nothing() -> None:
    """Where there is nothing to stop."""


class Broker(Service):
    """
    One broker.

    @ivar ready: fires with this once clients can connect and every registry was told, or fails with why not.
    @ivar tables: the files that are read at the start, each with what reads it.
    @ivar store, topics, groups, offsets, consumers, producers, stats, group_progress: its parts, for those built on it.
    @ivar settings: what is in force, and how to change it.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        tls: ServerTLS | None = None,
        client_tls: ClientTLS | None = None,
        limits: Limits = SERVER,
        rounds: Rounds | None = None,
        on_store_failed: Callable[[str], None] = lambda reason: None,
        settings: StoreSettings | None = None,
    ) -> None:
        """
        @param tls: certificate and key of the ports, loaded.
        @param client_tls: how registries are spoken to, where that is by TLS.
        @param limits: what connections may take.
        @param rounds: timers of connections, shared with others of the process.
        @param on_store_failed: called once when the store fails for good and C{onStoreError} is C{exit}.
        @param settings: of the store, in place of those that the configuration stands for.
        @raise SettingError: the configuration is of no use on this machine.
        """
        self._env = env
        self._configuration = configuration
        self._tls = tls
        self._limits = limits
        self._on_store_failed = on_store_failed
        self._slave = configuration.broker.is_slave
        settings = settings or store_settings(configuration.store)
        self._settings_of_store = as_slave(settings, configuration.ha.ha_ack_mode) if self._slave else settings
        self._rounds = rounds or Rounds(env.clock)
        self._dialled = Audience()
        self._client = RemotingClient(env, listener=self._dialled, tls=client_tls, rounds=self._rounds)
        self._server: RemotingServer | None = None
        self._opened = False
        self._earliest_ms = -1
        self._earliest_of = -1  # the physical offset that it was asked of
        self._announcing = False
        self.ready: Deferred[Broker] = Deferred()
        self._stopping: Deferred[None] = Deferred()
        self._starting: Deferred[None] = succeed(None)
        config = configuration.broker
        self.address = f"{self._advertised(config.broker_ip1)}:{config.listen_port}"
        self._store_host = self._packed(self.address)
        self._ha_address = f"{self._advertised(config.broker_ip2)}:{configuration.ha_port}"
        self._changed = TableFile(env, posixpath.join(configuration.store.store_path_root_dir, "config", _CHANGED))
        self.settings = LiveSettings(env.clock, configuration, self._settled(), self._changed)
        self._build()

    # -- who we are ------------------------------------------------------------------------------------------

    def _advertised(self, address: str) -> str:
        """The address that clients are told: as configured, else the one that faces the registry."""
        if address and address not in _WILDCARDS:
            return address
        registries = self._configuration.broker.namesrv_addr
        host, _, port = (registries[0] if registries else "192.0.2.1:9876").rpartition(":")
        found: str = self._env.host.address_towards(host, int(port))
        return found

    def _packed(self, address: str) -> bytes:
        host, _, port = address.rpartition(":")
        try:
            return pack_host(host, int(port))
        except ValueError:
            pass
        try:
            return pack_host(self._env.host.resolve(host), int(port))
        except OSError:
            raise SettingError(f"brokerIP1={host}: no such host") from None

    def _settled(self) -> dict[str, str]:
        """What became of settings that were left open, and what tools ask for by RocketMQ's names alone."""
        return {
            "brokerIP1": self.address.rpartition(":")[0],
            "brokerIP2": self._ha_address.rpartition(":")[0],
            "haListenPort": str(self._configuration.ha_port),
            "filterServerNums": "0",
            "useTLS": str(self._configuration.tls.client_enable).lower(),
        }

    # -- what we are made of ---------------------------------------------------------------------------------

    def _build(self) -> None:
        env, configuration = self._env, self._configuration
        config, limits = configuration.broker, configuration.limits
        clock = env.clock
        slave = self._slave
        settings = self._settings_of_store
        sync = settings.sync_flush
        root = configuration.store.store_path_root_dir
        self._tables = posixpath.join(root, "config")

        def file(name: str) -> TableFile:
            return TableFile(env, posixpath.join(self._tables, name))

        topics_file, groups_file = file("topics.json"), file("subscriptionGroup.json")
        offsets_file, progress_file = file("consumerOffset.json"), file("delayOffset.json")
        self.store = MessageStore(env, root, settings)
        self.store.when_failed(self._store_failed)
        self.stats = BrokerStats(clock, config.broker_cluster_name)
        self.topics = TopicTable(
            clock,
            topics_file,
            fallback=file("topic.json"),
            sync=sync,
            limit=limits.max_topics,
            per_second=limits.max_topics_per_second,
            queue_limit=limits.max_queues_per_topic,
            default_queues=config.default_topic_queue_nums,
        )
        self.groups = GroupTable(
            clock,
            groups_file,
            sync=sync,
            auto_create=config.auto_create_subscription_group,
            limit=limits.max_groups,
            slave=slave,
        )
        self.offsets = OffsetTable(clock, offsets_file, interval=config.flush_consumer_offset_interval, slave=slave)
        self.consumers = ConsumerTable(clock, self._may_notify, limits.max_groups)
        self.producers = ProducerTable(clock, limits.max_groups)
        self.hold = PullHold(clock, limits.max_held_pulls, limits.max_held_pulls_per_connection)
        self.progress = DelayProgress(clock, self.store, progress_file, configuration.store.flush_delay_offset_interval)
        self.delay = DelayQueues(clock, self.store, settings.delay_levels, self.progress.changed)
        self.progress.offsets = self.delay.offsets
        self.store.subscribe(self.hold)
        following: Following | None = None
        if slave:
            following = Following(
                env,
                configuration,
                self.store,
                self._client.ask,
                self.topics,
                self.groups,
                self.offsets,
                self.delay.offsets,
                self.progress.changed,
                self.address,
                self._seek_master,
            )
            self.replication: Replication = following
        else:
            self.store.subscribe(self.delay)
            self.replication = Leading(env, configuration, self.store, self._rounds.complaints)
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (topics_file, self.topics.load),
            (groups_file, self.groups.load),
            (offsets_file, self.offsets.load),
            (progress_file, self.progress.load),
            (self._changed, self.settings.load),
        ]
        self.group_progress = GroupProgress(
            clock, self.topics, self.offsets, self.consumers, self.store, self.stats, config.broker_name
        )
        self._heartbeat = HeartbeatProcessor(
            clock, self.producers, self.consumers, self.groups, self.topics, slave=slave
        )
        readable, writable = bool(config.broker_permission & READ), bool(config.broker_permission & WRITE)
        retries = RetryTopics(self.topics, self.groups)
        self._send = SendProcessor(
            self.store,
            self.topics,
            retries,
            self.stats,
            env.random,
            settings.delay_levels,
            cluster=config.broker_cluster_name,
            broker=self.address,
            store_host=self._store_host,
            writable=writable,
            region=config.region_id,
            trace_on=config.trace_on,
            sync=sync or config.broker_role == "SYNC_MASTER",
        )
        self._pull = PullProcessor(
            clock,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.consumers,
            self.hold,
            self.stats,
            broker=self.address,
            broker_name=config.broker_name,
            store_host=self._store_host,
            readable=readable,
            slave_read=config.slave_read_enable,
            long_polling=config.long_polling_enable,
            short_polling=config.short_polling_time_mills,
            slave=slave,
            correct=not slave or configuration.store.offset_check_in_slave,
            deserted=lambda: following is not None and following.deserted,
        )
        self._send_back = SendBackProcessor(
            self.store,
            self.groups,
            retries,
            self.stats,
            env.random,
            settings.delay_levels,
            broker=self.address,
            store_host=self._store_host,
            writable=writable,
        )
        takers = [MasterOnly(config.broker_name, self.address)] if slave else [self._send, self._send_back]
        processors = [
            *takers,
            *self.replication.processors,
            self._pull,
            OffsetProcessor(self.offsets, self.topics, self.store, limits.max_groups),
            QueryProcessor(
                self.store,
                self.consumers,
                broker_name=config.broker_name,
                limit=configuration.store.max_msgs_num_batch,
                unique_limit=configuration.store.default_query_max_num,
            ),
            self._heartbeat,
            RebalanceProcessor(LockTable(clock), self.topics),
            TopicAdmin(
                self.topics,
                self.offsets,
                self.consumers,
                self.store,
                self.stats,
                broker_name=config.broker_name,
                slave=slave,
            ),
            GroupAdmin(self.groups, self.offsets, self.consumers, self.producers, self.stats, slave=slave),
            ProgressAdmin(
                self.group_progress,
                self.topics,
                self.groups,
                self.offsets,
                self.store,
                lambda: self.delay.offsets,
                address=self.address,
                group_limit=limits.max_groups,
                slave=slave,
            ),
            ClientAdmin(self.topics, self.offsets, self.consumers, self.store, self.group_progress, slave=slave),
            QueueAdmin(self.topics, self.consumers, self.store, slave=slave),
            BrokerAdmin(self.stats, self.settings, QueueStats(clock, self.topics, self.store), (self._facts,)),
        ]
        faults = Faults()
        self._dispatcher = Dispatcher(processors, faults=faults)
        self._fast = Dispatcher(processors, without=PullProcessor.codes, faults=faults)
        self._announcer = Announcer(
            clock,
            self._client.ask,
            self.topics,
            lambda: config.namesrv_addr,
            Identity(
                config.broker_cluster_name,
                config.broker_name,
                config.broker_id,
                self.address,
                self._ha_address,
                config.advertised_addresses,
            ),
            period=config.register_name_server_period,
            timeout=config.register_broker_timeout_mills,
            force=config.force_register,
            compressed=config.compressed_register,
            permission=lambda: self.settings.configuration.broker.broker_permission,
            fraction=env.random.fraction,
            on_registered=self.replication.registered,
            on_standing=self.store.hold_back,
        )
        self._dialled.add(self._announcer.listener)
        self._rounds.when_stood_still(self._announcer.stood_still)
        self._follow_settings()

    def _follow_settings(self) -> None:
        """Let those settings be changed at run time whose followers can take a new value."""
        follow = self.settings.follow
        follow("autoCreateTopicEnable", self.topics.set_auto_create)
        follow("notifyConsumerIdsChangedEnable", lambda value: None)  # looked up where it is needed
        simple: tuple[tuple[str, object, str], ...] = (
            ("autoCreateSubscriptionGroup", self.groups, "auto_create"),
            ("longPollingEnable", self._pull, "long_polling"),
            ("shortPollingTimeMills", self._pull, "short_polling"),
            ("traceOn", self._send, "trace_on"),
            ("maxTopics", self.topics, "limit"),
            ("maxQueuesPerTopic", self.topics, "queue_limit"),
            ("maxHeldPulls", self.hold, "limit"),
            ("maxHeldPullsPerConnection", self.hold, "peer_limit"),
        )
        for name, part, attribute in simple:
            follow(name, partial(setattr, part, attribute))
        follow("brokerPermission", self._permit)

    def _permit(self, permission: int) -> None:
        """Take sends and pulls from now on, or not; registries are told at once, so that clients go elsewhere."""
        self._send.writable = self._send_back.writable = bool(permission & WRITE)
        self._pull.readable = bool(permission & READ)
        if self._announcing:
            self.topics.renew()
            self._announcer.register()

    def _seek_master(self) -> None:
        """Register anew: the answers say who the master is."""
        self._announcer.register()

    def _facts(self) -> dict[str, str]:
        """What the store adds to the runtime information (28)."""
        first, end = self.store.log_bounds()
        config = self._configuration.store
        total, free = self.disk_usage()
        used = str(round(1 - free / total, 4)) if total else "0.0"
        facts = {
            "earliestMessageTimeStamp": str(self.earliest_ms),
            "commitLogMinOffset": str(first),
            "commitLogMaxOffset": str(end),
            "commitLogDiskRatio": used,
            f"commitLogDiskRatio_{config.store_path_commit_log}": used,
            "consumeQueueDiskRatio": used,
            "commitLogDirCapacity": f"Total : {size_text(total)}, Free : {size_text(free)}.",
            "remainHowManyDataToFlush": size_text(end - self.store.flushed),
            **replication_facts(self.replication.now(), end),
        }
        for level, offset in self.delay.offsets.items():
            end_offset = self.store.bounds(SCHEDULE_TOPIC, level - 1)[1]
            if end_offset:
                facts[f"scheduleMessageOffset_{level}"] = f"{offset},{end_offset}"
        return facts

    @property
    def opened(self) -> bool:
        """Whether the store is recovered, so that it can be asked; it stays so at the stop."""
        return self._opened

    def disk_usage(self) -> tuple[int, int]:
        """Total and free bytes of the store's file system."""
        total, free = self._env.files.usage(self._configuration.store.store_path_root_dir)
        return total, free

    @property
    def earliest_ms(self) -> int:
        """When the log's first message was stored, in ms; -1 while that is not known, which this has looked up."""
        first, end = self.store.log_bounds()
        if first < end and first != self._earliest_of:
            self._earliest_of = first
            self.store.at(first).addCallbacks(self._note_earliest, lambda failure: None)
        return self._earliest_ms

    @property
    def connections(self) -> int:
        """How many connections there are to its ports."""
        return 0 if self._server is None else len(self._server.connections)

    @property
    def registries_without_us(self) -> int:
        """How many registries did not take the last registration that they were asked to take."""
        return self._announcer.without_us

    @property
    def connection_counts(self) -> Counts | None:
        """What happened to connections since the ports were opened; C{None} before."""
        return None if self._server is None else self._server.rounds.counts

    def _note_earliest(self, record: bytes) -> None:
        self._earliest_ms = decode_record(record).stored_ms

    def _may_notify(self, group: str) -> bool:
        if not self.settings.configuration.broker.notify_consumer_ids_changed_enable:
            return False
        config = self.groups.get(group)
        return config is None or config.notify_consumer_ids_changed_enable

    # -- start -----------------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to start; see C{ready}."""
        super().startService()
        self._starting = Deferred.fromCoroutine(self._start()).addCallbacks(self._started, self._not_started)

    def _is_stopping(self) -> bool:
        return self._stopping.called

    def _started(self, _: object) -> None:
        if not self._is_stopping():
            self.ready.callback(self)

    def _not_started(self, failure: Failure) -> None:
        if not self._is_stopping():
            self.ready.errback(failure)

    async def _start(self) -> None:
        configuration = self._configuration
        config = configuration.broker
        await self.store.open()
        self._opened = True
        if self._is_stopping():
            return
        self.store.startService()
        self._env.files.make_directories(self._tables)
        self.settings.load()
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        if self._slave:
            self.delay.offsets.update(self.progress.load())
        else:
            await self._start_as_master()
        if self._is_stopping():
            return
        self.settings.begin()
        await self._listen()
        self._announcer.startService()
        self._announcing = True
        if config.namesrv_addr:
            first: list[Deferred[Any]] = [self._announcer.first_round, self._stopping]
            await DeferredList(first, fireOnOneCallback=True)
        promised = durability(configuration.store, config.broker_role, configuration.ha.ha_ack_mode)
        self._log.info("durability: {durability}", durability=promised)
        self._log.info(
            "broker {name} is ready at {address}, store {root}",
            name=config.broker_name,
            address=self.address,
            root=configuration.store.store_path_root_dir,
        )

    async def _start_as_master(self) -> None:
        """Bring about what a master always has; a slave has what its master has."""
        config = self._configuration.broker
        self.topics.create_built_in(
            config.broker_cluster_name,
            config.broker_name,
            auto_create=self.settings.configuration.broker.auto_create_topic_enable,
            cluster_topic=config.cluster_topic_enable,
            broker_topic=config.broker_topic_enable,
            trace_topic=config.msg_trace_topic_name if config.trace_topic_enable else None,
            delay_levels=DelayLevels.parse(self._configuration.store.message_delay_level).highest,
        )
        self.groups.create_built_in()
        for topic in self.topics.adopt(self.store.queues()):
            await self.store.delete_topic(topic)
        self.delay.start(self.progress.load())

    async def _listen(self) -> None:
        config = self._configuration.broker
        listener = _Connections(self._heartbeat)
        server = RemotingServer(
            self._env,
            endpoint(config.bind_address, config.listen_port),
            self._dispatcher,
            listener,
            self._limits,
            self._tls,
        )
        if config.fast_listen_port is not None:
            server.add_door(endpoint(config.bind_address, config.fast_listen_port), self._fast)
        server.rounds.when_stood_still(self._announcer.stood_still)
        self._server = server
        await server.open()
        await self.replication.open()

    # -- stop ------------------------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """Stop in order; fires when nothing is left, whatever went wrong on the way."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        if not self._is_stopping():
            self._stopping.callback(None)
        if not self._opened:  # recovery may take long: it is given up, and the next start begins it anew
            await self._step("the store", self.store.stopService)
        await self._starting
        self.delay.stop()
        # Side by side: a registry that is slow must not eat up the time of the requests in flight.
        farewell = self._step("the registries", self._announcer.stopService if self._announcing else _nothing)
        ports = self._step("the ports", _nothing if self._server is None else self._server.stopService)
        await gatherResults([Deferred.fromCoroutine(farewell), Deferred.fromCoroutine(ports)])
        self.hold.stop()
        self._heartbeat.stop()
        # Side by side: a master that is slow to answer must not keep its slave from stopping.
        replication = self._step("replication", self.replication.stop if self._opened else _nothing)
        client = self._step("the client", self._client.stop)
        await gatherResults([Deferred.fromCoroutine(replication), Deferred.fromCoroutine(client)])
        if not self._opened:
            await self._step("the store", self.store.stopService)
            return
        await self._step("the delivery positions", self.progress.stop)
        for what, table in (("topics", self.topics), ("groups", self.groups), ("consumer offsets", self.offsets)):
            await self._step(f"the {what}", table.stop)
        await self._step("the store", self.store.stopService)

    async def _step(self, what: str, stop: Callable[[], object]) -> None:
        """Stop one part; its failure is logged and does not keep the others from stopping."""
        try:
            await maybeDeferred(stop)
        except Exception:
            self._log.failure("{what}: not stopped in order", what=what)

    def _store_failed(self, reason: str) -> None:
        self._log.critical("the store takes no more messages: {reason}", reason=reason)
        if self._configuration.store.on_store_error == "exit":
            self._on_store_failed(reason)
