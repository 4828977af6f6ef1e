"""What a broker keeps: the message store, the tables beside it, and who is connected."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial

from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.stages.delaydelivery import DelayDelivery, DelayProgress
from smartgo.broker.tables.adoption import adopt_destination
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groupexpiry import GroupExpiry
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.producers import ProducerTable
from smartgo.broker.tables.progress import GroupProgress
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IEnvironment
from smartgo.store.messagestore import MessageStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile


class BrokerTables:
    """
    The parts of one broker that requests are about.

    @ivar tables: the files that are read at the start, each with what reads it.
    """

    def __init__(
        self,
        env: IEnvironment,
        settings: CurrentSettings,
        store_settings: StoreSettings,
    ) -> None:
        config, limits = settings.broker, settings.limits
        clock, slave, sync = env.clock, config.is_slave, store_settings.sync_flush
        root = settings.store.store_path_root_dir
        self._settings = settings

        def file(name: str) -> TableFile:
            return TableFile(env, posixpath.join(root, "config", name))

        topics_file, groups_file = file("topics.json"), file("subscriptionGroup.json")
        offsets_file, progress_file = file("consumerOffset.json"), file("delayOffset.json")
        self.store = MessageStore(env, root, store_settings)
        self.stats = BrokerStats(clock, config.broker_cluster_name)
        self.topics = TopicTable(
            clock,
            topics_file,
            settings,
            fallback=file("topic.json"),
            sync=sync,
            log_end=lambda: self.store.log_bounds()[1],
        )
        self.groups = GroupTable(clock, groups_file, settings, sync=sync, slave=slave)
        self.offsets = OffsetTable(
            clock,
            offsets_file,
            interval=config.flush_consumer_offset_interval,
            slave=slave,
            limit=limits.max_offsets,
        )
        self.consumers = ConsumerTable(clock, self._may_notify, limits.max_groups, limits.subscriptions_max_size)
        self.producers = ProducerTable(clock, limits.max_groups)
        self.group_expiry = GroupExpiry(clock, self.groups, self.topics, self.offsets, self.consumers, self.store)
        self.long_polls = LongPollTable(clock, settings)
        self.progress = DelayProgress(clock, self.store, progress_file, settings.store.flush_delay_offset_interval)
        self.delay = DelayDelivery(
            clock,
            self.store,
            store_settings.delay_levels,
            self.progress.changed,
            partial(adopt_destination, self.topics),
        )
        self.progress.offsets = self.delay.offsets
        self.store.subscribe(self.long_polls)
        self.group_progress = GroupProgress(
            clock, self.topics, self.offsets, self.consumers, self.store, self.stats, config.broker_name
        )
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (topics_file, self.topics.load),
            (groups_file, self.groups.load),
            (offsets_file, self.offsets.load),
            (progress_file, self.progress.load),
        ]

    def _may_notify(self, group: str) -> bool:
        """Tell whether members of a group are told at once when one joins or leaves."""
        if not self._settings.broker.notify_consumer_ids_changed_enable:
            return False
        config = self.groups.get(group)
        return config is None or config.notify_consumer_ids_changed_enable
