"""What a broker keeps: the message store, the tables beside it, and who is connected."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial

from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.stages.delay import DelayProgress, DelayQueues
from smartgo.broker.tables.adoption import adopt_destination
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groupexpiry import GroupExpiry
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.producers import ProducerTable
from smartgo.broker.tables.progress import GroupProgress
from smartgo.broker.tables.topics import TopicTable
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.store.messagestore import MessageStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile


class BrokerTables:
    """
    The parts of one broker that requests are about.

    @ivar settings: of the store.
    @ivar tables: the files that are read at the start, each with what reads it.
    """

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        settings: StoreSettings,
        may_notify: Callable[[str], bool],
    ) -> None:
        """@param may_notify: whether members of a group are told at once when one joins or leaves."""
        config, limits = configuration.broker, configuration.limits
        clock, slave = env.clock, config.is_slave
        root = configuration.store.store_path_root_dir
        self.settings = settings

        def file(name: str) -> TableFile:
            return TableFile(env, posixpath.join(root, "config", name))

        topics_file, groups_file = file("topics.json"), file("subscriptionGroup.json")
        offsets_file, progress_file = file("consumerOffset.json"), file("delayOffset.json")
        self.store = MessageStore(env, root, settings)
        self.stats = BrokerStats(clock, config.broker_cluster_name)
        self.topics = TopicTable(
            clock,
            topics_file,
            fallback=file("topic.json"),
            sync=settings.sync_flush,
            limit=limits.max_topics,
            per_second=limits.max_topics_per_second,
            group_limit=2 * limits.max_groups,
            queue_limit=limits.max_queues_per_topic,
            default_queues=config.default_topic_queue_nums,
            log_end=lambda: self.store.log_bounds()[1],
        )
        self.groups = GroupTable(
            clock,
            groups_file,
            sync=settings.sync_flush,
            auto_create=config.auto_create_subscription_group,
            limit=limits.max_groups,
            per_second=limits.max_groups_per_second,
            slave=slave,
        )
        self.offsets = OffsetTable(
            clock,
            offsets_file,
            interval=config.flush_consumer_offset_interval,
            slave=slave,
            limit=limits.max_offsets,
        )
        self.consumers = ConsumerTable(clock, may_notify, limits.max_groups, limits.subscriptions_max_size)
        self.producers = ProducerTable(clock, limits.max_groups)
        self.group_expiry = GroupExpiry(clock, self.groups, self.topics, self.offsets, self.consumers, self.store)
        self.hold = LongPollTable(
            clock,
            limits.max_held_pulls,
            limits.max_held_pulls_per_connection,
            longest=config.long_polling_max_time_mills,
            short=config.short_polling_time_mills,
        )
        self.progress = DelayProgress(clock, self.store, progress_file, configuration.store.flush_delay_offset_interval)
        self.delay = DelayQueues(
            clock,
            self.store,
            settings.delay_levels,
            self.progress.changed,
            partial(adopt_destination, self.topics),
        )
        self.progress.offsets = self.delay.offsets
        self.store.subscribe(self.hold)
        self.group_progress = GroupProgress(
            clock, self.topics, self.offsets, self.consumers, self.store, self.stats, config.broker_name
        )
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (topics_file, self.topics.load),
            (groups_file, self.groups.load),
            (offsets_file, self.offsets.load),
            (progress_file, self.progress.load),
        ]
