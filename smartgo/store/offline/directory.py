"""
The files of a store directory as the offline tools read them: damaged directories too, without a lock.

L{StoreLayout<smartgo.store.storelayout.StoreLayout>} refuses what a broker must not open. The tools have to read such a
directory as well, so where it refuses, what can be read is collected here: log files in runs without a gap, queues
whose files are whole.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadBody, StoreError
from smartgo.schema import regions
from smartgo.schema.checkpoint import FILE_SIZE, Checkpoint
from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.schema.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    SLOT_SIZE,
    Entry,
    Geometry,
    IndexHeader,
    is_file_name,
    slot_struct,
)
from smartgo.schema.topics import is_topic
from smartgo.store import filequeue
from smartgo.store.backuppruning import ABOUT, BackupAbout
from smartgo.store.checkpoint import CheckpointFiles, CheckpointSlot, QueueTable
from smartgo.store.damage import RegionIndex
from smartgo.store.filequeue import FileQueue
from smartgo.store.pagereads import TolerantFiles
from smartgo.store.queues.file import QueueKey, round_up
from smartgo.store.settings import LOG_FILE_SIZE, QUEUE_FILE_SIZE, StoreSettings
from smartgo.store.storelayout import StoreLayout

_REGIONS_LIMIT: Final = 64 << 20  # bytes
_SLOTS_TO_ENTRIES: Final = 4
"""RocketMQ's defaults have so many entries a slot; who changes one setting usually changes both."""


def place_text(path: str, base: int, offset: int) -> str:
    """
    Return the place of a physical offset, for people: file and byte, and beyond the first file the offset too.

    @param base: the offset of the file's first byte.
    """
    return f"{path}, byte {offset - base}" + (f" (offset {offset})" if base else "")


class OfflineStore:
    """
    One store directory.

    @ivar files: the files; what the disk cannot read of one is zeros.
    @ivar own: smartgo's checkpoint, C{None} without one; C{peer}: RocketMQ's.
    @ivar table: smartgo's table of queues, if it is whole.
    @ivar aborted: the abort marker is there.
    @ivar clean: the store was closed cleanly and not opened since.
    @ivar is_backup: it is a backup of a running store, and no broker stored messages in it.
    @ivar flushed: physical offset below which the log was flushed; 0 if unknown.
    @ivar deleted: topics that were deleted, each with the log's end then.
    @ivar problem: why a broker would refuse the files; empty if it would not.
    @ivar runs: the log files, each run without a gap, oldest first.
    @ivar aside: paths of log files at the tail that are not whole and were never flushed.
    @ivar queues: the offsets at which the files of each queue begin; C{broken}: the paths of queues that are not whole.
    @ivar index_files: paths, oldest first.
    @ivar regions: regions of the log that are known to be damaged; C{regions_problem}: why they cannot be read.
    @ivar damage: finds these regions by their place.
    """

    def __init__(self, files: IFiles, root: str, settings: StoreSettings) -> None:
        """
        Read what is in the directory; no file is opened for writing.

        @param settings: of the store; where its file sizes are C{None} those of the files are taken.
        @raise StoreError: there is no directory, or no store in it.
        @raise OSError: as the system says.
        """
        if not files.is_directory(root):
            raise StoreError(f"{root} is not a directory")
        self.files = files = TolerantFiles(files)
        self.root = root
        self.settings = settings
        self.log_directory = settings.commitlog_directory or posixpath.join(root, "commitlog")
        self.queue_directory = posixpath.join(root, "consumequeue")
        self.index_directory = posixpath.join(root, "index")
        checkpoints = CheckpointFiles(files, root)
        self.own: CheckpointSlot | None = checkpoints.load()
        self.peer = self._read_peer()
        self.table: QueueTable | None = checkpoints.load_table() if self.own is not None else None
        self.deleted: dict[str, int] = dict(self.table.deleted) if self.table is not None else {}
        self.aborted = checkpoints.is_aborted()
        self.clean = not self.aborted and (self.own is None or self.own.clean)
        self.flushed = 0 if self.own is None else max(self.own.position, self.own.flushed)
        self.is_backup = self._backup_end() >= self.flushed
        self.problem = ""
        self.aside: list[str] = []
        try:
            layout = StoreLayout(files, root, settings, self.own, self.table, self.clean)
        except StoreError as error:
            self.problem = str(error)
            self._read_leniently()
        else:
            self.runs = [layout.log_files] if layout.log_files.files else []
            self.log_file_size = layout.log_files.file_size
            self.queue_file_size = layout.queue_file_size
            self.queues: Mapping[QueueKey, list[int]] = layout.queues
            self.broken: Mapping[QueueKey, list[str]] = layout.broken
            self.aside = layout.aside
        if not self.runs and not self.queues and not self.broken:
            raise StoreError(self.problem or f"{root} is not a store: it has no CommitLog")
        names = [name for name in files.list(self.index_directory) if is_file_name(name)]
        self.index_files = [posixpath.join(self.index_directory, name) for name in names]
        self.regions_problem = ""
        self.regions = self._read_regions()
        self.damage = RegionIndex(self.regions)

    @property
    def begin(self) -> int:
        """Physical offset of the oldest log file's first byte; 0 without files."""
        return self.runs[0].begin if self.runs else 0

    @property
    def log_end(self) -> int:
        """Physical offset after the newest log file's last byte; 0 without files."""
        return self.runs[-1].end if self.runs else 0

    def run_at(self, offset: int) -> FileQueue | None:
        """Return the log files that hold a physical offset, C{None} where a file is missing."""
        return next((run for run in self.runs if run.begin <= offset < run.end), None)

    def unreadable(self, begin: int, end: int) -> str:
        """Return why the disk could not read some of a range of the log that was read; empty where it could."""
        run = self.run_at(begin)
        file = None if run is None else run.find(begin)
        why = "" if file is None else self.files.unreadable(file.path, begin - file.base, end - file.base)
        return f"{regions.UNREADABLE}: {why}" if why else ""

    def place(self, offset: int) -> str:
        """Return file and byte of a physical offset, for people; beyond the first file the offset too, for hexdump."""
        run = self.run_at(offset)
        file = None if run is None else run.find(offset)
        return self.log_directory if file is None else place_text(file.path, file.base, offset)

    def queue_path(self, key: QueueKey, base: int) -> str:
        """Return the path of a queue's file that begins at a byte offset of the queue."""
        return posixpath.join(self.queue_directory, key[0], str(key[1]), filequeue.file_name(base))

    def geometry_of(self, path: str) -> Geometry | None:
        """Return how many slots and entries an index file has, C{None} if nothing tells."""
        size = self.files.size(path)
        ratio, rest = divmod(size - HEADER_SIZE, SLOT_SIZE + _SLOTS_TO_ENTRIES * ENTRY_SIZE)
        for geometry in (self.settings.index_geometry, Geometry()):
            if geometry.size == size:
                return geometry
        guessed = Geometry(ratio, ratio * _SLOTS_TO_ENTRIES)
        return guessed if ratio > 0 and not rest and self._fits(path, guessed) else None

    def _fits(self, path: str, geometry: Geometry) -> bool:
        """Tell whether the newest key of an index file is found where the geometry says that it is."""
        header = IndexHeader.unpack(self.files.read_at(path, 0, HEADER_SIZE))
        number = header.index_count - 1
        if number < FIRST_ENTRY:
            return True
        if number >= geometry.entries:
            return False
        entry = Entry.unpack(self.files.read_at(path, geometry.entry_at(number), ENTRY_SIZE))
        (newest,) = slot_struct.unpack(self.files.read_at(path, geometry.slot_at(entry.key_hash), SLOT_SIZE))
        return bool(newest == number and entry.offset == header.end_offset)

    # -- what is in the directory ------------------------------------------------------------------------------

    def _read_peer(self) -> Checkpoint:
        path = posixpath.join(self.root, "checkpoint")
        raw = self.files.read(path, FILE_SIZE) if self.files.exists(path) else b""
        return Checkpoint.unpack(raw.ljust(FILE_SIZE, b"\0"))

    def _backup_end(self) -> int:
        """Return the physical offset up to which a backup has the log; -1 where this is none."""
        path = posixpath.join(self.root, ABOUT)
        try:
            return msgspec.json.decode(self.files.read(path), type=BackupAbout).end if self.files.exists(path) else -1
        except msgspec.DecodeError:
            return -1

    def _read_regions(self) -> list[regions.Region]:
        path = posixpath.join(self.root, regions.PATH)
        if not self.files.exists(path):
            return []
        try:
            return regions.decode(self.files.read(path, _REGIONS_LIMIT))
        except BadBody as error:
            self.regions_problem = str(error)
            return []

    def _read_leniently(self) -> None:
        """Collect what can be read of files that a broker would refuse."""
        sizes = self._numbered(self.log_directory)
        own, settings = self.own, self.settings
        known = settings.log_file_size or (own.log_file_size if own is not None else None)
        size = self.log_file_size = known or _usual(sizes.values()) or LOG_FILE_SIZE
        self.runs = []
        bases: list[int] = []
        for base in [*sorted(base for base in sizes if not base % size), -1]:
            if bases and base != bases[-1] + size:
                self.runs.append(FileQueue(self.files, self.log_directory, size, bases))
                bases = []
            bases.append(base)
        found = {
            (topic, int(number)): self._numbered(posixpath.join(self.queue_directory, topic, number))
            for topic in self.files.list(self.queue_directory)
            if is_topic(topic)
            for number in self.files.list(posixpath.join(self.queue_directory, topic))
            if number.isdecimal()
        }
        queue_size = settings.queue_file_size or (own.queue_file_size if own is not None else None)
        usual = _usual(one for sizes in found.values() for one in sizes.values())
        size = self.queue_file_size = round_up(queue_size or usual or QUEUE_FILE_SIZE)
        self.queues, self.broken = {}, {}
        for key, sizes in found.items():
            ordered = sorted(sizes)
            whole = all(sizes[base] == size and not base % size for base in ordered)
            if whole and ordered and ordered[-1] - ordered[0] == (len(ordered) - 1) * size:
                self.queues[key] = ordered
            elif ordered:
                self.broken[key] = [self.queue_path(key, base) for base in ordered]

    def _numbered(self, directory: str) -> dict[int, int]:
        """Return the sizes of the files that are named by an offset."""
        paths = {name: posixpath.join(directory, name) for name in self.files.list(directory)}
        return {
            int(name): self.files.size(path)
            for name, path in paths.items()
            if filequeue.is_file_name(name) and not self.files.is_directory(path)
        }


def _usual(sizes: Iterable[int]) -> int | None:
    """Return the size that most files have, of those that have any; of two as common the larger one."""
    counted = Counter(size for size in sizes if size >= UNIT_SIZE)
    return max(counted, key=lambda size: (counted[size], size), default=None)
