"""
Checks a store directory offline and read-only: records and their CRCs, consume queues against the CommitLog, the index.

All functions block; they run in a thread of their own.
"""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from smartgo.cli.support.storecheckresult import KEPT, StoreCheckResult, StoreFinding
from smartgo.env.interfaces import IFiles
from smartgo.errors import BadRecord, StoreError
from smartgo.schema import index
from smartgo.schema.consumequeue import UNIT_SIZE, Unit, unit_struct
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TAGS, find, tag_code
from smartgo.schema.record import BLANK_SIZE, check, start_struct
from smartgo.schema.recordscan import Stop
from smartgo.schema.topics import LMQ_PREFIX, SCHEDULE_TOPIC
from smartgo.store.checkpoint import CheckpointFiles
from smartgo.store.recovery.logscan import LogScan, record_after, written_end
from smartgo.store.settings import StoreSettings
from smartgo.store.storelayout import StoreLayout

_PAGE: Final = 400  # units read at once
_PAGES: Final = 512  # pages in the cache
_WINDOW: Final = 1 << 20  # bytes of the log read at once for single records
_INDEX_PAGE: Final = 2000  # entries that are read at once


class StoreCheck:
    """
    One check of a store.

    @ivar summary: the result so far.
    @ivar cancelled: set from another thread to make L{run} stop soon.
    """

    def __init__(
        self,
        files: IFiles,
        root: str,
        settings: StoreSettings,
        geometry: index.Geometry,
        told: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> None:
        """
        @param geometry: the size of index files; RocketMQ's default is known too.
        @param told: called often with the phase, how much is done, and the total.
        """
        self._files = files
        self._root = root
        self._settings = settings
        self._index_geometry = geometry
        self._told = told
        self.summary = StoreCheckResult(store=root)
        self.cancelled = False
        self._pages: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._strangers: set[tuple[str, int]] = set()
        self._window: tuple[int, bytes] = (0, b"")  # bytes of the log from a physical offset on
        self._hashes: tuple[int, set[int]] = (-1, set())  # of the keys of the message at a physical offset

    def run(self) -> StoreCheckResult:
        """Check the store; return the result. @raise StoreError: the check was cancelled, or there is no store."""
        files, summary = self._files, self.summary
        if not files.is_directory(self._root):
            raise StoreError(f"{self._root} is not a directory")
        checkpoints = CheckpointFiles(files, self._root)
        own = checkpoints.load()
        table = checkpoints.load_table() if own is not None else None
        self._deleted = dict(table.deleted) if table is not None else {}
        summary.clean = not checkpoints.is_aborted() and (own is None or own.clean)
        self._flushed = 0 if own is None else max(own.position, own.flushed)
        try:
            self._layout = StoreLayout(files, self._root, self._settings, own, summary.clean, self._flushed)
        except StoreError as error:
            self._find("damage", self._root, str(error))
            return summary
        if self._layout.is_empty and not self._layout.queues:
            raise StoreError(f"{self._root} is not a store: it has no CommitLog")
        self._begin()
        self._log()
        self._queues()
        self._index()
        return summary

    def _find(self, weight: str, where: str, what: str) -> None:
        summary = self.summary
        summary.damaged = summary.damaged or weight == "damage"
        if len(summary.findings) < KEPT:
            summary.findings.append(StoreFinding(weight, where, what))
        else:
            summary.more += 1

    def _check_cancelled(self) -> None:
        if self.cancelled:
            raise StoreError("interrupted")

    def _begin(self) -> None:
        layout, summary = self._layout, self.summary
        if not summary.clean:
            self._find(
                "repair",
                self._root,
                "not closed cleanly, or in use by a broker; the last messages may be missing in their consume queues",
            )
        for path in layout.aside:
            self._find("repair", path, "incomplete file; nothing in it was flushed, and the next start moves it aside")
        for (topic, queue_id), paths in layout.broken.items():
            self._find("repair", paths[0], f"files of topic {topic}, queue {queue_id} are short or missing")
        summary.log_files = len(layout.log_files.files)
        summary.queues = len(layout.queues)

    # -- the log -----------------------------------------------------------------------------------------------

    def _log(self) -> None:
        """Read every record, and compare it with its consume queue unit."""
        log, summary = self._layout.log_files, self.summary
        at = summary.begin = summary.end = log.begin
        total = self._written_end() - log.begin
        self._told("log", 0, total)
        while True:
            walk = LogScan(self._files, log, at, self._check_cancelled)
            for message in walk:
                summary.records += 1
                if not summary.records & 0xFFF:
                    self._told("log", walk.position - log.begin, max(total, walk.position - log.begin))
                self._look_up(message)
            summary.end = max(summary.end, walk.position)
            if walk.stop is not Stop.BAD and not self._left_over(walk.position):
                break
            following = record_after(self._files, log, walk.position, self._check_cancelled)
            self._judge(walk, following)
            if following is None:
                break
            at = following
        self._told("log", summary.end - log.begin, summary.end - log.begin)

    def _written_end(self) -> int:
        """Return the physical offset where the written part of the log ends, by the last file that holds data."""
        log = self._layout.log_files
        for file in reversed(log.files):
            last = written_end(self._files, file.path, 0, file.end - file.base, self._check_cancelled)
            if last:
                return file.base + last
        return log.begin

    def _left_over(self, position: int) -> bool:
        """Return whether records follow after the apparent end of the log."""
        file = self._layout.log_files.find(position)
        if file is None:
            return False
        last = written_end(self._files, file.path, position - file.base, file.end - file.base, self._check_cancelled)
        return last > position - file.base or file is not self._layout.log_files.files[-1]

    def _judge(self, walk: LogScan, following: int | None) -> None:
        position = walk.position
        file = self._layout.log_files.find(position)
        where = self._root if file is None else f"{file.path}, byte {position - file.base}"
        reason = walk.reason or "nothing was written here"
        if following is not None:
            self._find(
                "damage", where, f"invalid record ({reason}); the next valid one is {following - position} B further"
            )
        elif position < self._flushed:
            self._find(
                "damage", where, f"invalid record ({reason}), although the log was flushed up to {self._flushed}"
            )
        elif not self.summary.clean:
            self._find(
                "repair", where, f"the last record is incomplete ({reason}); it was never acknowledged as flushed"
            )
        elif walk.stop is Stop.BAD:
            self._find("damage", where, f"invalid record ({reason}), and no valid one follows")

    # -- queues ------------------------------------------------------------------------------------------------

    def _look_up(self, message: StoredMessage) -> None:
        """Compare a record with its unit."""
        if message.sys_flag & PREPARED or message.physical_offset < self._deleted.get(message.topic, 0):
            return
        key = (message.topic, message.queue_id)
        bases = self._layout.queues.get(key)
        if bases is None:
            if key not in self._strangers and key not in self._layout.broken:
                self._strangers.add(key)
                self._find(
                    "note",
                    _queue(key),
                    "the log has messages of this queue, but the queue does not exist; was the topic deleted?",
                )
            return
        if message.queue_offset * UNIT_SIZE < bases[0]:
            return  # the queue starts later, or its older files were removed
        unit = self._unit(key, message.queue_offset)
        if unit is None or not unit.size:
            weight = "damage" if self.summary.clean else "repair"
            self._find(weight, _queue(key), f"message {message.queue_offset} is missing in the consume queue")
            return
        if (unit.commitlog_offset, unit.size) != (message.physical_offset, message.size):
            # The topic was deleted and created again, or a message that was stored again has the offset.
            other = self._record(unit.commitlog_offset) if unit.commitlog_offset > message.physical_offset else None
            if other is None or (other.topic, other.queue_id, other.queue_offset) != (*key, message.queue_offset):
                self._find(
                    "damage",
                    _queue(key),
                    f"unit {message.queue_offset} points to {unit.commitlog_offset}, but its message is at "
                    f"{message.physical_offset}",
                )
            return
        code = self._code(message)
        if code is not None and unit.tag_hash != code:
            self._find("damage", _queue(key), f"unit {message.queue_offset} has tag code {unit.tag_hash}, not {code}")

    def _code(self, message: StoredMessage) -> int | None:
        """Return the third field of a message's unit; C{None} if it is unknown."""
        if message.topic == SCHEDULE_TOPIC:
            return message.stored_ms + self._settings.delay_levels.delay_ms(message.queue_id + 1)
        return tag_code(find(message.properties, TAGS))

    def _unit(self, key: tuple[str, int], number: int) -> Unit | None:
        """Return a unit; C{None} if it is beyond the queue's files."""
        directory = posixpath.join(self._layout.queue_directory, key[0], str(key[1]))
        size = self._layout.queue_file_size
        offset = number * UNIT_SIZE
        base = offset - offset % size
        if base > self._layout.queues[key][-1]:
            return None
        page, at = divmod(offset - base, _PAGE * UNIT_SIZE)
        name = (posixpath.join(directory, f"{base:020d}"), page)
        data = self._pages.get(name)
        if data is None:
            self._check_cancelled()
            data = self._pages[name] = self._files.read_at(name[0], page * _PAGE * UNIT_SIZE, _PAGE * UNIT_SIZE)
            if len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return Unit.unpack(data, at) if len(data) >= at + UNIT_SIZE else None

    def _queues(self) -> None:
        """Read every unit: each must point into the log, behind the previous one."""
        layout, summary = self._layout, self.summary
        done, total = 0, sum(len(bases) for bases in layout.queues.values()) * layout.queue_file_size
        for key, bases in layout.queues.items():
            self._check_cancelled()
            before = -1
            for number, unit in self._units(key, bases):
                if not unit.size:
                    break
                summary.units += 1
                if unit.is_filler:
                    continue
                if key[0].startswith(LMQ_PREFIX):
                    continue
                if unit.commitlog_offset <= before:
                    self._find("damage", _queue(key), f"unit {number} points back to {unit.commitlog_offset}")
                elif unit.commitlog_offset + unit.size > summary.end:
                    weight = "damage" if summary.clean else "repair"
                    self._find(weight, _queue(key), f"unit {number} points behind the end of the log")
                    break
                before = unit.commitlog_offset
            done += len(bases) * layout.queue_file_size
            self._told("queues", done, total)

    def _units(self, key: tuple[str, int], bases: list[int]) -> Iterator[tuple[int, Unit]]:
        directory = posixpath.join(self._layout.queue_directory, key[0], str(key[1]))
        for base in bases:
            path = posixpath.join(directory, f"{base:020d}")
            at = 0
            while data := self._files.read_at(path, at, _PAGE * UNIT_SIZE):
                whole = data[: len(data) - len(data) % UNIT_SIZE]
                for place, unit in enumerate(unit_struct.iter_unpack(whole)):
                    yield (base + at) // UNIT_SIZE + place, Unit._make(unit)
                at += len(data)

    # -- the index ---------------------------------------------------------------------------------------------

    def _index(self) -> None:
        """Read every entry: each must point to a message with such a key, and to an earlier entry."""
        directory = posixpath.join(self._root, "index")
        known = []
        for name in self._files.list(directory):
            path = posixpath.join(directory, name)
            if not index.is_file_name(name):
                continue
            self.summary.index_files += 1
            geometry = self._geometry(self._files.size(path))
            if geometry is None:
                self._find(
                    "repair",
                    path,
                    "its size matches neither maxHashSlotNum and maxIndexNum as set, nor RocketMQ's defaults",
                )
                continue
            count = index.IndexHeader.unpack(self._files.read_at(path, 0, index.HEADER_SIZE)).index_count
            if not index.FIRST_ENTRY <= count <= geometry.entries:
                self._find("repair", path, f"its header says {count} entries, but it has room for {geometry.entries}")
                continue
            known.append((path, geometry, count))
        total = sum(count - index.FIRST_ENTRY for _, _, count in known)
        for path, geometry, count in known:
            self._index_file(path, geometry, count, total)

    def _geometry(self, size: int) -> index.Geometry | None:
        for geometry in (self._index_geometry, index.Geometry()):
            if geometry.size == size:
                return geometry
        return None

    def _index_file(self, path: str, geometry: index.Geometry, end: int, total: int) -> None:
        number = index.FIRST_ENTRY
        wrong = 0
        while number < end:
            self._check_cancelled()
            count = min(_INDEX_PAGE, end - number)
            data = self._files.read_at(path, geometry.entry_at(number), count * index.ENTRY_SIZE)
            for raw in index.entry_struct.iter_unpack(data):
                entry = index.Entry._make(raw)
                if entry.previous >= number or not self._has_key(entry):
                    wrong += 1
                number += 1
            self.summary.index_entries += count
            self._told("index", self.summary.index_entries, total)
        if wrong:
            self._find("repair", path, f"{wrong} of {end - 1} entries point to no message with such a key")

    def _has_key(self, entry: index.Entry) -> bool:
        """Return whether the message of an entry has a key with its hash; true for a removed message."""
        if entry.offset < self._layout.log_files.begin:
            return True
        offset, hashes = self._hashes
        if offset != entry.offset:
            message = self._record(entry.offset)
            keys = [] if message is None else index.keys_of(bytes(message.properties), message.sys_flag)
            topic = "" if message is None else message.topic
            hashes = {index.key_hash(index.key_text(topic, key)) for key in keys}
            self._hashes = entry.offset, hashes  # entries of one message are adjacent
        return entry.key_hash in hashes

    def _record(self, offset: int) -> StoredMessage | None:
        """Return the record at a physical offset; C{None} if there is none."""
        file = self._layout.log_files.find(offset)
        if file is None:
            return None
        begin, window = self._window
        at = offset - begin
        size = start_struct.unpack_from(window, at)[0] if 0 <= at <= len(window) - BLANK_SIZE else 0
        if size <= 0 or at + size > len(window):
            # Callers go through the log in order, so the window has the next records too.
            window = self._files.read_at(file.path, offset - file.base, _WINDOW)
            self._window = offset, window
            at = 0
            size = start_struct.unpack_from(window)[0] if len(window) >= BLANK_SIZE else 0
            if len(window) < size <= file.end - offset:
                window = self._files.read_at(file.path, offset - file.base, size)
        try:
            return check(window, at, offset, verify_crc=False)
        except BadRecord:
            return None


def _queue(key: tuple[str, int]) -> str:
    return f"topic {key[0]}, queue {key[1]}"
