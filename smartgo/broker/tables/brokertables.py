"""The broker's state beside the message store: its tables, connected clients, and the work on the store."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial

from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.stages.delaydelivery import TURN, DelayDelivery, DelayProgress, read_progress
from smartgo.broker.stages.timerdelivery import TimerDelivery
from smartgo.broker.stages.timerroll import TimerRoll, warn_of_undelivered
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
from smartgo.schema.message import NewMessage
from smartgo.store.interfaces import Appended
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile


class BrokerTables:
    """
    The tables of one broker, and who is connected; all of it works before the store is open.

    @ivar tables: the files that are read at the start, each with what reads it.
    @ivar progress_file: C{delayOffset.json}.
    """

    def __init__(
        self,
        env: IEnvironment,
        settings: CurrentSettings,
        store_settings: StoreSettings,
        log_end: Callable[[], int],
    ) -> None:
        """@param log_end: returns the physical offset at which the log of the store, which is open then, ends."""
        config, limits = settings.broker, settings.limits
        clock, slave, sync = env.clock, config.is_slave, store_settings.sync_flush
        root = settings.store.store_path_root_dir
        self._settings = settings

        def file(name: str) -> TableFile:
            return TableFile(env, posixpath.join(root, "config", name))

        topics_file, groups_file = file("topics.json"), file("subscriptionGroup.json")
        offsets_file = file("consumerOffset.json")
        self.progress_file = file("delayOffset.json")
        self.stats = BrokerStats(clock, config.broker_cluster_name)
        self.topics = TopicTable(
            clock,
            topics_file,
            settings,
            fallback=file("topic.json"),
            sync=sync,
            log_end=log_end,
        )
        self.groups = GroupTable(clock, groups_file, settings, sync=sync, slave=slave)
        self.offsets = OffsetTable(
            clock,
            offsets_file,
            interval=0.0 if env.buggify("offsets.save-at-once") else config.flush_consumer_offset_interval,
            slave=slave,
            limit=limits.max_offsets,
        )
        self.consumers = ConsumerTable(clock, self._may_notify, limits.max_groups, limits.subscriptions_max_size)
        self.producers = ProducerTable(clock, limits.max_groups)
        self.long_polls = LongPollTable(clock, settings, env.buggify)
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (topics_file, self.topics.load),
            (groups_file, self.groups.load),
            (offsets_file, self.offsets.load),
            (self.progress_file, partial(read_progress, self.progress_file)),
        ]

    def _may_notify(self, group: str) -> bool:
        """Tell whether members of a group are told at once when one joins or leaves."""
        if not self._settings.broker.notify_consumer_ids_changed_enable:
            return False
        config = self.groups.get(group)
        return config is None or config.notify_consumer_ids_changed_enable


def _timed_message_delivered(tables: BrokerTables, message: NewMessage, appended: Appended) -> None:
    """Make the queue readable that a timed message was delivered to, and count it."""
    adopt_destination(tables.topics, message.topic, message.queue_id, appended.offset)
    tables.stats.stored(message.topic, 1, appended.end - appended.offset)


class StoreWork:
    """
    The broker's background work on its open store.

    @ivar timed: C{None} where the store has no timer log.
    """

    def __init__(
        self,
        env: IEnvironment,
        settings: CurrentSettings,
        store_settings: StoreSettings,
        tables: BrokerTables,
        store: OpenStore,
    ) -> None:
        clock = env.clock
        self.group_expiry = GroupExpiry(clock, tables.groups, tables.topics, tables.offsets, tables.consumers, store)
        self.progress = DelayProgress(clock, store, tables.progress_file, settings.store.flush_delay_offset_interval)
        self.delay = DelayDelivery(
            clock,
            store,
            store_settings.delay_levels,
            self.progress.changed,
            partial(adopt_destination, tables.topics),
            1 if env.buggify("delay.one-a-turn") else TURN,
        )
        self.progress.offsets = self.delay.offsets
        self.timed: TimerDelivery | None = None
        self.roll: TimerRoll | None = None
        if store.timers is not None:
            self.roll = TimerRoll(clock, store, store.timers)
            store.cleaner.needs.append(self.roll)
            self.timed = TimerDelivery(clock, store, store.timers, partial(_timed_message_delivered, tables))
        else:
            warn_of_undelivered(store)
        store.subscribe(tables.long_polls)
        self.group_progress = GroupProgress(
            clock, tables.topics, tables.offsets, tables.consumers, store, tables.stats, settings.broker.broker_name
        )
        store.cleaner.expiry.listeners.append(self.group_progress.unread_removals.expired)
