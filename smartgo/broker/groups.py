"""
Subscription groups: the settings of each consumer group, and how they are kept.

Rules: C{broker.md} section 12, C{reliability.md} D15, L18. A L{SubscriptionGroupConfig} in the table is never changed
in place but replaced. The file is RocketMQ's C{subscriptionGroup.json}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.saving import Saving
from smartgo.env.interfaces import IClock
from smartgo.errors import GroupNotExist, RequestRefused
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


_READ = holding(SubscriptionGroupWrapper.decode, "subscriptionGroupTable", "tables")


class GroupTable:
    """
    All subscription groups of one broker, by name.

    @ivar get: C{get(name)} returns the L{SubscriptionGroupConfig} or C{None}, and never creates; a dict lookup.
    @ivar version: changes with every change of the table; slaves compare it.
    @ivar auto_create: whether a group comes into being when it is first used.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        file: TableFile | None = None,
        *,
        sync: bool = False,
        auto_create: bool = True,
        limit: int = 20_000,
        slave: bool = False,
    ) -> None:
        """
        @param file: C{subscriptionGroup.json}; C{None} keeps the table in memory alone.
        @param sync: changes by an administrator are durable before they are answered (D15, SYNC_FLUSH).
        @param limit: how many groups there may be (L18).
        @param slave: the table is a copy of a master's: what is used first here does not come into it.
        """
        self._clock = clock
        self._file = file
        self._sync = sync
        self._slave = slave
        self.auto_create = auto_create
        self._limit = limit
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._saving = Saving(clock, file, self._snapshot, 0.0 if sync else _ASYNC_DELAY, "group table")
        self.version = DataVersion(timestamp=clock.wall_ms(), counter=0)
        self.get: Callable[[str], SubscriptionGroupConfig | None] = self._table.get

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._table)

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The table with its version: what is answered to 201."""
        return SubscriptionGroupWrapper(subscription_group_table=dict(self._table), data_version=self.version)

    def find(self, name: str) -> SubscriptionGroupConfig:
        """
        Return a group's settings, those of a new one where it may be created on the fly (a slave leaves that to its
        master, and keeps nothing).

        @raise GroupNotExist: unknown, and groups are not created on the fly.
        @raise BadName: unknown, and no group may have this name.
        @raise RequestRefused: unknown, and there are as many groups as there may be.
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
        self._check_room(name)
        self._log.info("group {group} created", group=name)
        return self._put(config)

    def update(self, config: SubscriptionGroupConfig) -> None:
        """
        Create a group, or replace all its settings, for an administrator.

        @raise BadName: no group may have this name.
        @raise RequestRefused: settings out of their ranges, or as many groups as there may be.
        """
        name = config.group_name
        check_group(name)
        if name not in self._table:
            self._check_room(name)
        if not 0 <= config.retry_queue_nums <= 1024:
            raise RequestRefused(f"retryQueueNums {config.retry_queue_nums} of group[{name}] is outside 0..1024")
        self._put(config)

    def delete(self, name: str) -> bool:
        """Forget a group's settings; false where there are none."""
        if self._table.pop(name, None) is None:
            return False
        self._bump()
        return True

    def set_consume_enabled(self, name: str, enabled: bool) -> None:
        """Let a group consume, or stop it; an unknown one is left alone."""
        known = self._table.get(name)
        if known is not None and known.consume_enable != enabled:
            self._put(msgspec.structs.replace(known, consume_enable=enabled))

    def replace_all(self, version: DataVersion, table: Mapping[str, SubscriptionGroupConfig]) -> None:
        """Become a copy of a master's table, version included; names that are not allowed are left out."""
        self._table.clear()
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

    def create_built_in(self) -> None:
        """Bring about the groups that are always there, after L{load}."""
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

    def _check_room(self, name: str) -> None:
        if len(self._table) >= self._limit:
            raise RequestRefused(f"group[{name}] is not created: there are {self._limit} groups already")

    def _snapshot(self) -> SubscriptionGroupWrapper:
        return self.wrapper()

    def _fill(self, table: Mapping[str, SubscriptionGroupConfig]) -> None:
        for name, config in table.items():
            if is_group(name):
                same = config.group_name == name
                self._table[name] = config if same else msgspec.structs.replace(config, group_name=name)
            else:
                self._log.warn("leaving out {group}, which is no name for a group", group=name)

    def _put(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        self._table[config.group_name] = config
        self._bump()
        return config

    def _bump(self) -> None:
        self.version = DataVersion(timestamp=self._clock.wall_ms(), counter=self.version.counter + 1)
        self._saving.changed()
