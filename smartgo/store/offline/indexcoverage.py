"""Finds the messages of the log whose keys the index files of a store should have, and have not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from smartgo.schema import index
from smartgo.schema.message import StoredMessage
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import REPAIR, StoreCheckResult

_PAGE = 4096  # entries that are read at once


class _File(NamedTuple):
    path: str
    geometry: index.Geometry
    header: index.IndexHeader


class IndexCoverage:
    """
    One comparison of the log with the index files; L{look} takes the messages in the order of the log.

    Entries are in the order of the log, in one file and from file to file; after a crash RocketMQ may have entered
    messages twice. Between the first message of the oldest file and the last one of the newest each key must have an
    entry. The newest file of a store that was not closed may lack some, which the next start enters.
    """

    def __init__(self, store: OfflineStore) -> None:
        self._store = store
        files = self._usable()
        if not store.clean:
            del files[-1:]
        self._files = files
        self._end = files[-1].header.end_offset if files else -1
        self._begin = files[0].header.begin_offset if files else 0
        self._entries = self._read()
        self._entry = next(self._entries, None)
        self._missing: dict[str, tuple[int, int]] = {}  # by file: how many messages, and the first one's offset

    def _usable(self) -> list[_File]:
        """Return the files that hold entries; none where one of them cannot be read as such."""
        found = []
        for path in self._store.index_files:
            geometry = self._store.geometry_of(path)
            if geometry is None:
                return []
            header = index.IndexHeader.unpack(self._store.files.read_at(path, 0, index.HEADER_SIZE))
            if not 0 <= header.index_count <= geometry.entries:
                return []
            if header.index_count > index.FIRST_ENTRY:
                found.append(_File(path, geometry, header))
        return found

    def _read(self) -> Iterator[index.Entry]:
        """Give out all entries."""
        for path, geometry, header in self._files:
            for number in range(index.FIRST_ENTRY, header.index_count, _PAGE):
                count = min(_PAGE, header.index_count - number)
                data = self._store.files.read_at(path, geometry.entry_at(number), count * index.ENTRY_SIZE)
                yield from map(index.Entry._make, index.entry_struct.iter_unpack(data))

    def look(self, message: StoredMessage) -> None:
        """Compare the next message of the log with its entries."""
        offset = message.physical_offset
        if not self._begin <= offset <= self._end:
            return
        entry = self._entry
        while entry is not None and entry.offset < offset:
            entry = next(self._entries, None)
        found = set()
        while entry is not None and entry.offset == offset:
            found.add(entry.key_hash)
            entry = next(self._entries, None)
        self._entry = entry
        keys = index.keys_of(bytes(message.properties), message.sys_flag)
        if not found.issuperset(index.key_hash(index.key_text(message.topic, key)) for key in keys):
            path = next(file.path for file in self._files if offset <= file.header.end_offset)
            count, first = self._missing.get(path, (0, offset))
            self._missing[path] = count + 1, first

    def conclude(self, result: StoreCheckResult, known: Collection[str]) -> None:
        """
        Add what was found to a result.

        @param known: paths of files whose entries are known to be wrong: some are of messages that would be missed.
        """
        for path, (count, first) in self._missing.items():
            if path in known:
                continue
            words = f"{count} messages of the log have keys without an entry; the first is at {first}"
            result.find(REPAIR, path, words)
