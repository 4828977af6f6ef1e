"""
The names of logs in the offsets of a stream: a log is the same wherever its directory lies.

Brokers write the address of the one that stored a message into its record, and a slave's copy has the same bytes. So a
log is named by that address; by its directory where it has no messages yet, or several that are read have one address.
A name stays with its log: a query that is started again knows a log by the record before the offset that it read up to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from smartgo.errors import BadRecord, SettingError
from smartgo.schema.message import host_text
from smartgo.schema.record import check, decode
from smartgo.schema.recordscan import find_record, own_offsets
from smartgo.spark import files
from smartgo.spark.stores import NamedFile, Store, looked_again

_PROBED: Final = 65536
_BEFORE: Final = (65536, 16 << 20)
"""How far before an offset the last record is searched for; most are short."""


class StoreNames:
    """The names of the logs that a stream reads."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """@param given: names by directory, from the option C{storeNames}."""
        self._given = given
        self._names: dict[str, str] = {}

    def of(self, root: str) -> str:
        """Return the name of a log whose directory was resolved."""
        return self._names[root]

    def resolve(self, stores: Mapping[str, Store], *offsets: Mapping[str, int]) -> None:
        """
        Find the names of some stores.

        @param stores: by directory.
        @param offsets: of the stream: physical offsets by name; older checkpoints have directories for names.
        @raise SettingError: the messages of two stores have the address that an offset is named by.
        """
        reached: dict[str, int] = {}
        for one in offsets:
            for name, offset in one.items():
                reached[name] = max(offset, reached.get(name, 0))
        for root in stores.keys() - self._names.keys():
            if root in self._given or root in reached:
                self._names[root] = self._given.get(root, root)
        new = sorted(stores.keys() - self._names.keys())
        if not new:
            return
        free = {name: offset for name, offset in reached.items() if name not in self._names.values()}
        self._continue(stores, new, free)
        new = [root for root in new if root not in self._names]
        hosts = {root: newest_host(stores[root]) for root in new}
        taken = {*self._names.values(), *reached}
        for root, host in hosts.items():
            is_own = host is not None and host not in taken and list(hosts.values()).count(host) == 1
            self._names[root] = str(host) if is_own else root

    def _continue(self, stores: Mapping[str, Store], new: list[str], free: Mapping[str, int]) -> None:
        """Give names to those stores whose messages go on where an offset of another directory ended."""
        for name, offset in free.items():
            found = [root for root in new if name in (host_before(stores[root], offset), newest_host(stores[root]))]
            if len(found) > 1:
                raise SettingError(
                    f"the offsets of the stream are those of {name}, and {' and '.join(found)} both have its messages:"
                    ' name them by the option storeNames, {"DIRECTORY": "NAME"}'
                )
            for root in found:
                self._names[root] = name


def newest_host(store: Store) -> str | None:
    """Return the address of the broker that stored the first record of the newest file, C{None} without one."""

    def look() -> str | None:
        for file in reversed(store.log_files()):
            data = files.read_at(file.path, 0, _PROBED)
            at = find_record(data, 0, file.base, 1, verify_crc=False)
            if at is not None:
                return _address(decode(data, at).store_host)
        return None

    return looked_again(look)


def host_before(store: Store, offset: int) -> str | None:
    """Return the address of the broker that stored the last record before an offset, C{None} if that is not there."""
    return looked_again(lambda: _host_before(store.log_files, offset))


def _host_before(logs: Callable[[], list[NamedFile]], offset: int) -> str | None:
    for file in logs():
        if not file.base < offset <= file.end:
            continue
        for count in _BEFORE:
            begin = max(offset - count, file.base)
            data = files.read_at(file.path, begin - file.base, offset - begin)
            found = None
            for at in own_offsets(data, 0, begin):
                try:
                    found = check(data, at, begin + at, verify_crc=False)
                except BadRecord:
                    continue
            if found is not None:
                return _address(found.store_host)
    return None


def _address(host: bytes) -> str | None:
    """Return an address as text; C{None} for one that no broker has."""
    return host_text(host) if any(host) else None
