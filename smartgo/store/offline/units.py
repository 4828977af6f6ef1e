"""Single records and queue units of a store directory, read through the files in pages that are kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from smartgo.errors import BadRecord
from smartgo.schema.consumequeue import UNIT_SIZE, Unit, unit_struct
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import BLANK_SIZE, SIZE_LIMIT, check, start_struct
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.queues.file import QueueKey

_PAGE: Final = 400  # units read at once
_PAGES: Final = 512  # pages in the cache
_WINDOW: Final = 1 << 20  # bytes of the log read at once for single records


class UnitReader:
    """Reads the units of queues whose files are whole."""

    def __init__(self, store: OfflineStore, check_cancelled: Callable[[], None] = lambda: None) -> None:
        """@param check_cancelled: called before each read of a file; may raise."""
        self._store = store
        self._check_cancelled = check_cancelled
        self._pages: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def unit(self, key: QueueKey, number: int) -> Unit | None:
        """Return a unit by its logical offset; C{None} if it is outside the queue's files."""
        data, at = self._page(key, number)
        return Unit.unpack(data, at) if len(data) >= at + UNIT_SIZE else None

    def last_written(self, key: QueueKey, number: int) -> int:
        """
        Return the last logical offset up to C{number} whose page has bytes other than zeros; -1 for none.

        Files are preallocated: behind the last unit there may be hundreds of thousands that were never written.
        """
        first = self._store.queues[key][0] // UNIT_SIZE
        while number >= first:
            data, at = self._page(key, number)
            if data.count(0) != len(data):
                return number
            number -= at // UNIT_SIZE + 1
        return -1

    def _page(self, key: QueueKey, number: int) -> tuple[bytes, int]:
        """Return the page that has a unit, and the place of the unit in it; no bytes outside the queue's files."""
        store = self._store
        offset = number * UNIT_SIZE
        base = offset - offset % store.queue_file_size
        bases = store.queues[key]
        page, at = divmod(offset - base, _PAGE * UNIT_SIZE)
        if not bases[0] <= base <= bases[-1]:
            return b"", at
        name = (store.queue_path(key, base), page)
        data = self._pages.get(name)
        if data is None:
            self._check_cancelled()
            data = self._pages[name] = store.files.read_at(name[0], page * _PAGE * UNIT_SIZE, _PAGE * UNIT_SIZE)
            if len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return data, at

    def units(self, key: QueueKey) -> Iterator[tuple[int, Unit]]:
        """Yield all units of a queue with their logical offsets, those never written too."""
        for base in self._store.queues[key]:
            path = self._store.queue_path(key, base)
            at = 0
            while data := self._store.files.read_at(path, at, _PAGE * UNIT_SIZE):
                self._check_cancelled()
                whole = data[: len(data) - len(data) % UNIT_SIZE]
                for place, unit in enumerate(unit_struct.iter_unpack(whole)):
                    yield (base + at) // UNIT_SIZE + place, Unit._make(unit)
                at += len(data)


class RecordReader:
    """Reads single records; fastest for callers that go through the log in order."""

    def __init__(self, store: OfflineStore) -> None:
        self._store = store
        self._window: tuple[int, bytes] = (0, b"")  # bytes of the log from a physical offset on

    def record(self, offset: int, verify_crc: bool = False) -> StoredMessage | None:
        """Return the valid record at a physical offset; C{None} if there is none."""
        try:
            return check(self.raw(offset), 0, offset, verify_crc)
        except BadRecord:
            return None

    def raw(self, offset: int) -> bytes:
        """Return the bytes of what says that it is a record, or a blank, at a physical offset; empty for neither."""
        run = self._store.run_at(offset)
        file = None if run is None else run.find(offset)
        if file is None:
            return b""
        begin, window = self._window
        at = offset - begin
        size = start_struct.unpack_from(window, at)[0] if 0 <= at <= len(window) - BLANK_SIZE else 0
        if size <= 0 or at + size > len(window):
            window = self._store.files.read_at(file.path, offset - file.base, _WINDOW)
            at = 0
            size = start_struct.unpack_from(window)[0] if len(window) >= BLANK_SIZE else 0
            if len(window) < size <= min(file.end - offset, SIZE_LIMIT):
                window = self._store.files.read_at(file.path, offset - file.base, size)
            self._window = offset, window
        return window[at : at + size] if size > 0 else b""


def used_end(store: OfflineStore, key: QueueKey, units: UnitReader, records: RecordReader) -> int:
    """Return the logical offset after a queue's last unit that was made for a message, whether or not that is left."""
    bases = store.queues[key]
    number = (bases[-1] + store.queue_file_size) // UNIT_SIZE - 1
    while (number := units.last_written(key, number)) >= 0:
        unit = units.unit(key, number)
        if unit is not None and unit.size > 0 and 0 <= unit.commitlog_offset < store.log_end and not unit.is_filler:
            message = records.record(unit.commitlog_offset)
            if message is not None and (message.topic, message.queue_id, message.queue_offset) == (*key, number):
                return number + 1
            before = units.unit(key, number - 1) if number else None
            in_order = before is None or 0 <= before.commitlog_offset < unit.commitlog_offset
            if message is None and in_order and (before is None or before.size > 0):
                return number + 1  # its record was removed, or is damaged
        number -= 1
    return 0
