"""Checks the index files of a store against its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.schema import index
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import REPAIR, StoreCheckResult
from smartgo.store.offline.units import RecordReader

_PAGE: Final = 2000  # entries or slots that are read at once


class IndexCheck:
    """
    One check of all index files of a store.

    @ivar astray: paths of files with entries that lead to no message with such a key.
    """

    def __init__(
        self,
        store: OfflineStore,
        result: StoreCheckResult,
        told: Callable[[str, int, int], None],
        check_cancelled: Callable[[], None],
    ) -> None:
        """
        @param result: findings are added to it.
        @param told: called often with the phase, how much is done, and the total.
        @param check_cancelled: called between pieces; may raise.
        """
        self._store = store
        self._result = result
        self._told = told
        self._check_cancelled = check_cancelled
        self._reader = RecordReader(store)
        self.astray: set[str] = set()
        self._hashes: tuple[int, set[int]] = (-1, set())  # of the keys of the message at a physical offset

    def run(self) -> None:
        """Read every slot and every entry: an entry must lead to a message with such a key, and to an earlier entry."""
        files, result = self._store.files, self._result
        known = []
        for path in self._store.index_files:
            result.index_files += 1
            geometry = self._store.geometry_of(path)
            if geometry is None:
                result.find(
                    REPAIR,
                    path,
                    "its size matches neither maxHashSlotNum and maxIndexNum as set, nor RocketMQ's defaults",
                )
                continue
            header = index.IndexHeader.unpack(files.read_at(path, 0, index.HEADER_SIZE))
            count = header.index_count or index.FIRST_ENTRY  # 0: made, and nothing put in
            if not index.FIRST_ENTRY <= count <= geometry.entries or not 0 <= header.used_slots < count:
                result.find(
                    REPAIR,
                    path,
                    f"its header says {header.index_count} entries, but it has room for {geometry.entries}",
                )
                continue
            known.append((path, geometry, header._replace(index_count=count)))
        total = sum(header.index_count - index.FIRST_ENTRY for _, _, header in known)
        for path, geometry, header in known:
            self._read_file(path, geometry, header, total)

    def _read_file(self, path: str, geometry: index.Geometry, header: index.IndexHeader, total: int) -> None:
        end = header.index_count
        number = index.FIRST_ENTRY
        wrong = first_entries = 0
        while number < end:
            self._check_cancelled()
            count = min(_PAGE, end - number)
            data = self._store.files.read_at(path, geometry.entry_at(number), count * index.ENTRY_SIZE)
            for raw in index.entry_struct.iter_unpack(data):
                entry = index.Entry._make(raw)
                first_entries += not entry.previous
                if entry.previous >= number or not self._has_key(entry):
                    wrong += 1
                number += 1
            self._result.index_entries += count
            self._told("index", self._result.index_entries, total)
        if wrong:
            self.astray.add(path)
            self._result.find(REPAIR, path, f"{wrong} of {end - 1} entries point to no message with such a key")
        astray, used = self._read_slots(path, geometry, end)
        if astray:
            self._result.find(REPAIR, path, f"{astray} slots lead to an entry of another slot, or to none")
        if not wrong and not astray and not used == header.used_slots == first_entries:
            self._result.find(REPAIR, path, f"{used} slots are used, but the header says {header.used_slots}")

    def _read_slots(self, path: str, geometry: index.Geometry, end: int) -> tuple[int, int]:
        """Return how many slots lead to a wrong entry, and how many lead to any."""
        astray = used = 0
        for begin in range(0, geometry.slots, _PAGE * 16):
            self._check_cancelled()
            count = min(_PAGE * 16, geometry.slots - begin)
            data = self._store.files.read_at(path, index.HEADER_SIZE + begin * index.SLOT_SIZE, count * index.SLOT_SIZE)
            if not any(data):
                continue
            for place, (newest,) in enumerate(index.slot_struct.iter_unpack(data)):
                if not newest:
                    continue
                used += 1
                if not index.FIRST_ENTRY <= newest < end:
                    astray += 1
                    continue
                raw = self._store.files.read_at(path, geometry.entry_at(newest), index.ENTRY_SIZE)
                astray += index.Entry.unpack(raw).key_hash % geometry.slots != begin + place
        return astray, used

    def _has_key(self, entry: index.Entry) -> bool:
        """Tell whether the message of an entry has a key with its hash; true for a message that is gone."""
        store = self._store
        if entry.offset < store.begin or store.damage.at(entry.offset) is not None:
            return True
        offset, hashes = self._hashes
        if offset != entry.offset:
            message = self._reader.record(entry.offset)
            keys = [] if message is None else index.keys_of(bytes(message.properties), message.sys_flag)
            topic = "" if message is None else message.topic
            hashes = {index.key_hash(index.key_text(topic, key)) for key in keys}
            self._hashes = entry.offset, hashes  # entries of one message are adjacent
        return entry.key_hash in hashes
