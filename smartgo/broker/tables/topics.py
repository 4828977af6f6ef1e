"""
The broker's topics: their settings, who may bring one about, and how they are kept.

Rules: docs/spec/broker#topics, reliability D15, L5, L18, B5, B6. A L{TopicConfig} in the table is never changed
in place but replaced, so that a snapshot can be written by another thread.

The file is L{smartgo.broker.tables.topicsfile}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.slices import in_slices
from smartgo.broker.tables.removedqueues import RemovedQueues
from smartgo.broker.tables.saving import Saving
from smartgo.broker.tables.topiclimits import TopicRoom, of_group
from smartgo.broker.tables.topicsfile import READ_TOPICS, TopicsFile, usable_topics
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused, TopicNotExist
from smartgo.observer import ObserverList
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from smartgo.schema.topics import (
    QUEUE_LIMIT,
    RETRY_PREFIX,
    SYSTEM_TOPICS,
    check_topic,
    is_system,
    queue_ids,
)
from smartgo.tablefile import TableFile

READ, WRITE, INHERIT = 4, 2, 1
"""Permission bits of a topic; the inherit bit makes it a template for others."""

_ASYNC_DELAY = 0.5  # seconds; with the write itself well below the 1.0 s of D15


class TopicTable:
    """
    All topics of one broker, by name.

    @ivar get: C{get(name)} returns the L{TopicConfig} or C{None}; a dict lookup, for the hot path.
    @ivar version: changes with every change of the table; registries compare it.
    @ivar room: how many topics there may be, and who may create how many.
    @ivar removed: queues that were taken away on purpose.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        file: TableFile | None = None,
        settings: CurrentSettings | None = None,
        *,
        fallback: TableFile | None = None,
        sync: bool = False,
        log_end: Callable[[], int] = lambda: 0,
    ) -> None:
        """
        @param file: C{topics.json}; C{None} keeps the table in memory alone.
        @param settings: how many topics and queues there may be (L18), now; without them, the defaults.
        @param fallback: C{topic.json}, read where C{file} holds nothing; never written.
        @param sync: a change counts only once it is durable (D15, SYNC_FLUSH).
        @param log_end: returns the physical offset at which the store's log ends.
        """
        self._clock = clock
        self._file = file
        self._fallback = fallback
        self._sync = sync
        self._settings = CurrentSettings() if settings is None else settings
        self.room = TopicRoom(clock, self._settings)
        self._table: dict[str, TopicConfig] = {}
        self.removed = RemovedQueues(log_end)
        self._system: set[str] = set(SYSTEM_TOPICS)
        self._unsaved: dict[str, int] = {}
        self._changes: ObserverList[[str]] = ObserverList("a change of the topic table")
        self._saving = Saving(clock, file, self._snapshot, 0.0 if sync else _ASYNC_DELAY, "topic table")
        self.version = DataVersion(timestamp=clock.wall_ms(), counter=0)
        self.get: Callable[[str], TopicConfig | None] = self._table.get

    @property
    def queue_limit(self) -> int:
        """The maximum number of queues of a topic."""
        return self._settings.limits.max_queues_per_topic

    @property
    def default_queues(self) -> int:
        """
        The number of queues of the template topic, and of a topic that is re-created from the files of its queues.
        """
        return self._settings.broker.default_topic_queue_nums

    # -- reading -------------------------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._table)

    def system_names(self) -> list[str]:
        """The names that no client may create, change or delete, sorted."""
        return sorted(self._system)

    def is_system(self, name: str) -> bool:
        """Tell whether a topic may not be created, changed or deleted by any client (B6)."""
        return name in self._system or is_system(name)

    def wrapper(self, only: Collection[str] | None = None) -> TopicConfigSerializeWrapper:
        """The table, or some topics of it, with the version: what is answered to 21 and sent to registries."""
        if only is None:
            table = dict(self._table)
        else:
            table = {name: self._table[name] for name in only if name in self._table}
        return TopicConfigSerializeWrapper(topic_config_table=table, data_version=self.version)

    def when_changed(self, callback: Callable[[str], None]) -> None:
        """Call C{callback(topic)} after every topic that is created, changed or deleted."""
        self._changes.add(callback)

    # -- creating and changing -----------------------------------------------------------------------------

    def create_for_send(
        self, topic: str, template: str | None, queue_nums: int, sys_flag: int, peer: IPeer
    ) -> TopicConfig:
        """
        Create an unknown topic that is sent to, or return the known one (docs/spec/broker#topics).

        @param template: the topic to take permission and filter type from; it must have the inherit bit.
        @param queue_nums: how many queues the sender would like; the template's number is the limit.
        @raise TopicNotExist: the template is unknown or no template, or no queue is asked for.
        @raise BadName: no topic may have this name.
        @raise RequestRefused: too many topics, or too many at once from this address (L18).
        """
        known = self._table.get(topic)
        if known is not None:
            return known
        check_topic(topic)
        model = self._table.get(template) if template else None
        queues = 0 if model is None else min(queue_nums, model.write_queue_nums, self.queue_limit)
        if model is None or not model.perm & INHERIT or queues <= 0:
            if topic.startswith(RETRY_PREFIX):
                self.room.admit_send(topic, peer)
                return self.create_for_group(topic, 1)
            raise TopicNotExist(f"topic[{topic}] not exist, apply first please!")
        self.room.admit_send(topic, peer)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=model.perm & ~INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        self._log.info(
            "topic {topic} created by a send of {peer}: {queues} queues", topic=topic, peer=peer.address, queues=queues
        )
        return self._put(config)

    def create_for_group(self, topic: str, queues: int, perm: int = READ | WRITE, sys_flag: int = 0) -> TopicConfig:
        """
        Create a retry or dead letter topic, or return the known one.

        @raise BadName: the group's name is too long to make a topic of it.
        @raise RequestRefused: there are too many such topics.
        """
        known = self._table.get(topic)
        if known is not None:
            return known
        check_topic(topic)
        self.room.admit_group(topic)
        return self._put(topic_config(topic, min(queues, QUEUE_LIMIT), perm, sys_flag))

    def create_system(self, name: str, queues: int, perm: int = READ | WRITE) -> TopicConfig:
        """Create a topic of the broker's own, or return the known one; clients may not change it from now on."""
        known = self._table.get(name)
        if known is not None and not self.is_system(name):
            self.room.count(name, -1)  # it was counted as others when the file was read
        self._system.add(name)
        if known is not None:
            return known
        check_topic(name)
        return self._put(topic_config(name, queues, perm, 0))

    def update(self, config: TopicConfig, peer: IPeer | None = None) -> None:
        """
        Create a topic, or replace all its settings, for an administrator.

        @param peer: who asks; C{None}: the broker itself.
        @raise BadName: no topic may have this name.
        @raise RequestRefused: a system topic, settings out of their ranges, or too many new topics.
        """
        self._check(config)
        if config.topic_name not in self._table:
            self.room.admit((config.topic_name,), peer)
        self._put(config)

    async def update_all(self, configs: Sequence[TopicConfig], peer: IPeer | None = None) -> None:
        """
        Create topics, or replace all their settings, for an administrator: all, or none where one cannot be.

        Other requests have their turn meanwhile; the limits are kept whatever they do.

        @raise BadName: as L{update}, as the next.
        @raise RequestRefused: nothing was changed.
        """
        await in_slices(self._clock, configs, self._check)
        new = dict.fromkeys(config.topic_name for config in configs if config.topic_name not in self._table)
        self.room.admit(new, peer)
        try:
            await in_slices(self._clock, configs, self._put)
        finally:
            for name in new:
                if name not in self._table:
                    self.room.explicit.pop(name, None)

    def _check(self, config: TopicConfig) -> None:
        name = config.topic_name
        check_topic(name)
        if self.is_system(name):
            raise RequestRefused(f"The topic[{name}] is conflict with system topic.")
        for what, count in ("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums):
            if not 0 <= count <= self.queue_limit:
                raise RequestRefused(f"{what} {count} of topic[{name}] is outside 0..{self.queue_limit}")
        if not 0 <= config.perm <= 15:
            raise RequestRefused(f"perm {config.perm} of topic[{name}] is outside 0..15")

    def delete(self, name: str) -> bool:
        """
        Forget a topic's settings; false where there are none. Its queues are the store's affair.

        @raise RequestRefused: a system topic.
        """
        if self.is_system(name):
            raise RequestRefused(f"The topic[{name}] is conflict with system topic.")
        config = self._table.pop(name, None)
        if config is None:
            return False
        self.room.count(name, -1)
        self.removed.remember(config)
        self._changed(name)
        return True

    def restore(self, config: TopicConfig) -> None:
        """Put into the table the settings of a topic that the broker itself has or needs; no limit refuses it."""
        self._put(config)

    def drop_empty(self, name: str, end_of: Callable[[str, int], int]) -> None:
        """
        Forget a topic into which nothing was ever stored, if there is one.

        @param end_of: the next offset of a queue (topic, queue id).
        """
        config = self._table.get(name)
        if config is None or self.is_system(name) or name in self.removed:
            return
        queues = max(config.read_queue_nums, config.write_queue_nums)
        if not any(end_of(name, queue_id) for queue_id in queue_ids(queues)):
            del self._table[name]
            self.room.count(name, -1)
            self._changed(name)

    def apply_order(self, ordered: Collection[str]) -> None:
        """Mark these topics as ordered and all others as not, as a registry's ORDER_TOPIC_CONFIG says."""
        turned = [config for name, config in self._table.items() if config.order != (name in ordered)]
        for config in turned:
            self._table[config.topic_name] = msgspec.structs.replace(config, order=not config.order)
        if turned:
            self._bump()

    def renew(self) -> None:
        """
        Give the table a new version although no topic changed.

        Registries take over nothing of a version that they know; what they are told about topics depends on the
        broker's permission too.
        """
        self._bump()

    def replace_all(self, version: DataVersion, table: Mapping[str, TopicConfig]) -> None:
        """Become a copy of a master's table, version included; names that are not allowed are left out."""
        self._table.clear()
        self.removed.clear()  # what was taken away on purpose is the master's affair now
        self._fill(table)
        self.version = version
        self._saving.changed()

    # -- at start ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """
        Read the file; without one the table stays empty.

        @raise smartgo.errors.BrokenTable: there is one, and neither it nor its backup can be read.
        """
        saved = None if self._file is None else self._file.load(READ_TOPICS)
        if saved is None and self._fallback is not None:
            saved = self._fallback.load(READ_TOPICS)
        if saved is not None:
            self._fill(saved.topic_config_table)
            self.version = saved.data_version
            self.removed.load(saved.removed_queue_table, saved.removed_at_table)
            self.room.explicit.update((name, None) for name in saved.explicit_topic_list if self._counts(name))

    def keep_within_log(self) -> None:
        """Correct the log ends of removed queues after a power failure cut the log."""
        if self.removed.keep_within_log():
            self._saving.changed()

    # -- durability ----------------------------------------------------------------------------------------

    def durable(self, topic: str | None = None) -> Deferred[None] | None:
        """
        Wait for what has to be on disk before a code 0; C{None}: nothing. Under SYNC_FLUSH, ask before the answer to
        every send of C{topic}, not of the one that created it alone: another may overtake the save.

        @param topic: whose settings; C{None}: everybody's.
        @raise ServiceNotAvailable: through the Deferred: the table could not be saved.
        """
        if not self._sync or not self._unsaved:
            return None
        generation = self._saving.generation if topic is None else self._unsaved.get(topic, 0)
        waiter = self._saving.wait(generation)
        if waiter is None and self._saving.saved == self._saving.generation:
            self._unsaved.clear()
        return waiter

    @property
    def is_durable(self) -> bool:
        """Tell whether L{durable} would return C{None} for each topic."""
        if self._unsaved and self._saving.saved == self._saving.generation:
            self._unsaved.clear()
        return not self._sync or not self._unsaved

    def save(self) -> Deferred[None]:
        """Save now what is not saved; fires when it is. @raise ServiceNotAvailable: through the Deferred."""
        return self._saving.save()

    def stop(self) -> Deferred[None]:
        """Set no more timers and save what is not saved; fires and fails as L{save}."""
        return self._saving.stop()

    # -- inside --------------------------------------------------------------------------------------------

    def _snapshot(self) -> TopicsFile:
        return TopicsFile(
            self._table, self.version, self.removed.counts(), self.removed.places(), list(self.room.explicit)
        )

    def _fill(self, table: Mapping[str, TopicConfig]) -> None:
        self._table.update(usable_topics(table))
        self.room.clear()
        for name in self._table:
            if not self.is_system(name):
                self.room.count(name, 1)

    def _counts(self, name: str) -> bool:
        return name in self._table and not of_group(name) and not self.is_system(name)

    def _put(self, config: TopicConfig) -> TopicConfig:
        name = config.topic_name
        old = self._table.get(name)
        if old is None:
            if not self.is_system(name):
                self.room.count(name, 1)
        elif max(old.read_queue_nums, old.write_queue_nums) > max(config.read_queue_nums, config.write_queue_nums):
            self.removed.remember(old)
        self.removed.settle(config)
        self._table[name] = config
        self._changed(name)
        return config

    def _changed(self, name: str) -> None:
        self._bump()
        if self._sync and self._saving.saved != self._saving.generation:
            self._unsaved[name] = self._saving.generation
        self._changes.tell(name)

    def _bump(self) -> None:
        self.version = DataVersion(timestamp=self._clock.wall_ms(), counter=self.version.counter + 1)
        self._saving.changed()


def topic_config(name: str, queues: int, perm: int, sys_flag: int) -> TopicConfig:
    """Return settings with as many queues to read as to write."""
    return TopicConfig(
        topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
    )
