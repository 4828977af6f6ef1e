"""
Subscription groups: the settings of each consumer group, and how they are kept.

Rules: docs/spec/broker#groups, reliability D15, L18. A L{SubscriptionGroupConfig} in the table is never changed
in place but replaced. The file is RocketMQ's C{subscriptionGroup.json}. One member is smartgo's own, and RocketMQ
ignores it: C{unusedGroupList} names the groups that were created by their first use and hold nothing so far
(L{smartgo.broker.tables.groupexpiry}).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.slices import in_slices
from smartgo.broker.tables.grouplimits import GroupRoom
from smartgo.broker.tables.saving import Saving
from smartgo.env.interfaces import IClock
from smartgo.errors import GroupNotExist, RequestRefused
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from smartgo.schema.topics import check_group, is_group
from smartgo.tablefile import TableFile, holding

BUILT_IN = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
INTERNAL_PREFIX = "CID_RMQ_SYS_"
"""Groups of the broker's own: they may always be created."""

_ASYNC_DELAY = 0.5  # seconds; with the write itself well below the 1.0 s of D15
_LOGGED_AT_ONCE = 100  # new groups; and then one a second


class _GroupsFile(SubscriptionGroupWrapper):
    """The content of C{subscriptionGroup.json}."""

    unused_group_list: list[str] = msgspec.field(default_factory=list)


_READ = holding(_GroupsFile.decode, "subscriptionGroupTable", "tables")


class Unused:
    """
    A group that was created by its first use, and holds nothing but default settings so far.

    @ivar since: when that was, in seconds of the monotonic clock, or when the broker was started.
    @ivar alone_since: when it had a member last, as far as is known.
    """

    __slots__ = ("alone_since", "since")

    def __init__(self, since: float) -> None:
        self.since = self.alone_since = since


class GroupTable:
    """
    All subscription groups of one broker, by name.

    @ivar get: C{get(name)} returns the L{SubscriptionGroupConfig} or C{None}, and never creates; a dict lookup.
    @ivar version: changes with every change of the table; slaves compare it.
    @ivar unused: groups that were created so and hold nothing yet; read it, do not change it.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        file: TableFile | None = None,
        settings: CurrentSettings | None = None,
        *,
        sync: bool = False,
        slave: bool = False,
    ) -> None:
        """
        @param file: C{subscriptionGroup.json}; C{None} keeps the table in memory alone.
        @param settings: how many groups there may be (L18), and whether their first use creates them; without them, the
            defaults.
        @param sync: changes by an administrator are durable before they are answered (D15, SYNC_FLUSH).
        @param slave: the table is a copy of a master's: what is used first here does not come into it.
        """
        self._clock = clock
        self._file = file
        self._sync = sync
        self._slave = slave
        self._settings = CurrentSettings() if settings is None else settings
        self._room = GroupRoom(clock, self._settings)
        self._log_rate = TokenBuckets(1.0, _LOGGED_AT_ONCE)
        self._when_unused: Callable[[], object] = lambda: None
        self._coming = 0  # groups of lists that are being created
        self.unused: dict[str, Unused] = {}
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._saving = Saving(clock, file, self._snapshot, 0.0 if sync else _ASYNC_DELAY, "group table")
        self.version = DataVersion(timestamp=clock.wall_ms(), counter=0)
        self.get: Callable[[str], SubscriptionGroupConfig | None] = self._table.get

    @property
    def auto_create(self) -> bool:
        """Tell whether the first use of a group creates it."""
        return self._settings.broker.auto_create_subscription_group

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def names(self) -> list[str]:
        """Return the names of all groups, sorted."""
        return sorted(self._table)

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The table with its version: what is answered to 201."""
        return SubscriptionGroupWrapper(subscription_group_table=dict(self._table), data_version=self.version)

    def when_unused(self, callback: Callable[[], object]) -> None:
        """Call C{callback} whenever the first use of a group has created it."""
        self._when_unused = callback

    def find(self, name: str, peer: IPeer | None = None) -> SubscriptionGroupConfig:
        """
        Return a group's settings, those of a new one where it may be created on the fly (a slave leaves that to its
        master, and keeps nothing).

        @param peer: who uses it; C{None}: the broker itself.
        @raise GroupNotExist: unknown, and groups are not created on the fly.
        @raise BadName: unknown, and no group may have this name.
        @raise RequestRefused: unknown, and there are as many groups as there may be, in all or of this address.
        """
        known = self._table.get(name)
        if known is not None:
            return known
        if not self.auto_create and not name.startswith(INTERNAL_PREFIX):
            raise GroupNotExist(f"subscription group [{name}] does not exist")
        check_group(name)
        config = SubscriptionGroupConfig(group_name=name)
        if self._slave:
            return config
        self._room.admit_use(name, len(self._table) + self._coming, peer)
        if self._log_rate.take("", self._clock.seconds()):
            self._log.info("group {group} created; there are {count} groups", group=name, count=len(self._table) + 1)
        self.unused[name] = Unused(self._clock.seconds())
        self._put(config)
        self._when_unused()
        return config

    def keep(self, name: str) -> None:
        """Keep a group that its first use created, from now on without a condition."""
        if self.unused.pop(name, None) is not None:
            self._saving.changed()

    def update(self, config: SubscriptionGroupConfig, peer: IPeer | None = None) -> None:
        """
        Create a group, or replace all its settings, for an administrator.

        @param peer: who asks; C{None}: the broker itself.
        @raise BadName: no group may have this name.
        @raise RequestRefused: settings out of their ranges, or too many new groups.
        """
        self._check(config)
        if config.group_name not in self._table:
            self._room.admit((config.group_name,), len(self._table) + self._coming, peer)
        self._settle(config)

    async def update_all(self, configs: Sequence[SubscriptionGroupConfig], peer: IPeer | None = None) -> None:
        """
        Create groups, or replace all their settings, for an administrator: all, or none where one cannot be.

        Other requests have their turn meanwhile.

        @raise BadName: as L{update}, as the next.
        @raise RequestRefused: nothing was changed.
        """
        await in_slices(self._clock, configs, self._check)
        new = dict.fromkeys(config.group_name for config in configs if config.group_name not in self._table)
        self._room.admit(new, len(self._table) + self._coming, peer)
        self._coming += len(new)
        try:
            await in_slices(self._clock, configs, self._settle)
        finally:
            self._coming -= len(new)

    def _check(self, config: SubscriptionGroupConfig) -> None:
        name = config.group_name
        check_group(name)
        if not 0 <= config.retry_queue_nums <= 1024:
            raise RequestRefused(f"retryQueueNums {config.retry_queue_nums} of group[{name}] is outside 0..1024")

    def _settle(self, config: SubscriptionGroupConfig) -> None:
        """Put the settings that an administrator wants into the table."""
        self._room.release(config.group_name)
        self.unused.pop(config.group_name, None)
        self._put(config)

    def delete(self, name: str) -> bool:
        """Forget a group's settings; false where there are none."""
        if self._table.pop(name, None) is None:
            return False
        self._room.release(name)
        self.unused.pop(name, None)
        self._bump()
        return True

    def set_consume_enabled(self, name: str, enabled: bool) -> None:
        """Allow or forbid a group to consume; leave an unknown group alone."""
        known = self._table.get(name)
        if known is not None and known.consume_enable != enabled:
            self._put(msgspec.structs.replace(known, consume_enable=enabled))

    def replace_all(self, version: DataVersion, table: Mapping[str, SubscriptionGroupConfig]) -> None:
        """Become a copy of a master's table, version included; names that are not allowed are left out."""
        self._table.clear()
        self._room.clear()
        self.unused.clear()  # what is of use is the master's affair
        self._fill(table)
        self.version = version
        self._saving.changed()

    def load(self) -> None:
        """
        Read the file; without one the table stays empty.

        @raise smartgo.errors.BrokenTable: there is one, and neither it nor its backup can be read.
        """
        saved = None if self._file is None else self._file.load(_READ)
        if saved is not None:
            self._fill(saved.subscription_group_table)
            self.version = saved.data_version
            now = self._clock.seconds()
            self.unused = {name: Unused(now) for name in saved.unused_group_list if name in self._table}

    def create_built_in(self) -> None:
        """Create the groups that every master has, after L{load}."""
        for name in BUILT_IN:
            if name not in self._table:
                self._put(SubscriptionGroupConfig(group_name=name))

    def durable(self) -> Deferred[None] | None:
        """
        Under SYNC_FLUSH, wait until all changes are on disk; C{None}: they are, or need not be.

        @raise ServiceNotAvailable: through the Deferred: the table could not be saved.
        """
        return self._saving.wait(self._saving.generation) if self._sync else None

    def save(self) -> Deferred[None]:
        """Save now what is not saved; fires when it is. @raise ServiceNotAvailable: through the Deferred."""
        return self._saving.save()

    def stop(self) -> Deferred[None]:
        """Set no more timers and save what is not saved; fires and fails as L{save}."""
        return self._saving.stop()

    def _snapshot(self) -> _GroupsFile:
        return _GroupsFile(dict(self._table), self.version, unused_group_list=list(self.unused))

    def _fill(self, table: Mapping[str, SubscriptionGroupConfig]) -> None:
        for name, config in table.items():
            if is_group(name):
                same = config.group_name == name
                self._table[name] = config if same else msgspec.structs.replace(config, group_name=name)
            else:
                self._log.warn("leaving out {group}, which is not a valid group name", group=name)

    def _put(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        self._table[config.group_name] = config
        self._bump()
        return config

    def _bump(self) -> None:
        self.version = DataVersion(timestamp=self._clock.wall_ms(), counter=self.version.counter + 1)
        self._saving.changed()
