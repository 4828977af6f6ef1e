"""The files of the timer log on the disk; everything here blocks, and runs in the lane of the timer log."""

from __future__ import annotations

import posixpath
import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadRecord
from smartgo.schema.timers import ENTRY_SIZE, SlotFileRow, TimerCheckpoint, split_entries
from smartgo.store.timer.entryfile import LoadedSlot, SlotFile

LANE: Final = "timers"
SYNC_LANE: Final = "timersync"
"""Of checkpoints: entries are written and loaded meanwhile."""

DIRECTORY: Final = "timer"
CHECKPOINT: Final = "checkpoint"
_DELIVERED: Final = "delivered"
PEER: Final = ("config", "timercheck")
"""RocketMQ's file: L{PeerProgress} is its first and its third int64, big-endian."""
_PEER_STRUCT: Final = struct.Struct(">q8xq")

_CHUNK: Final = 8192 * ENTRY_SIZE


def _name(row: SlotFileRow) -> str:
    return SlotFile.of(row).name


class PeerProgress(NamedTuple):
    """
    The progress of the delivery by RocketMQ of the timed messages of a store.

    @ivar due_ms: the time of its wheel; what was due before it is delivered, of the messages that it took.
    @ivar queue_offset: logical offset in the timer topic up to which it took messages (C{lastTimerQueueOffset}).
    """

    due_ms: int
    queue_offset: int


class SlotStorage:
    """Reads and writes the files of one timer log."""

    def __init__(self, files: IFiles, root: str) -> None:
        """
        @param root: of the store.
        """
        self._files = files
        self.directory = posixpath.join(root, DIRECTORY)
        self._peer = posixpath.join(root, *PEER)

    def _path(self, name: str) -> str:
        return posixpath.join(self.directory, name)

    # -- at the start ------------------------------------------------------------------------------------------

    def open(self, end: int, queue_end: int) -> TimerCheckpoint | None:
        """
        Return the last checkpoint, after removing the files that it does not name.

        Its files may have more entries than it says, which do not count, and so nothing is to be appended to them.

        @param end: physical offset at which the log ends.
        @param queue_end: logical offset at which the timer topic ends.
        @return: C{None} where there is none that can be used: all files are removed then.
        @raise OSError: as the system says.
        """
        self._files.make_directories(self.directory)
        saved = self._load()
        if saved is not None and (saved.position > end or saved.queue_offset > queue_end or not self._fit(saved)):
            saved = None
        known = {_name(row) for row in saved.files} if saved is not None else set()
        if saved is not None:
            known.add(CHECKPOINT)
        self.remove(name for name in self._files.list(self.directory) if name not in known)
        return saved

    def peer(self) -> PeerProgress:
        """Return the progress of a RocketMQ broker, zeros where none had the store. @raise OSError"""
        if not self._files.exists(self._peer):
            return PeerProgress(0, 0)
        data = self._files.read_at(self._peer, 0, _PEER_STRUCT.size)
        return PeerProgress._make(_PEER_STRUCT.unpack(data.ljust(_PEER_STRUCT.size, b"\0")))

    def forget(self) -> None:
        """Remove the checkpoint: the log is a slave's, whose bytes may be replaced. @raise OSError"""
        self.remove((CHECKPOINT,))

    def _load(self) -> TimerCheckpoint | None:
        path = self._path(CHECKPOINT)
        if not self._files.exists(path):
            return None
        if self._files.exists(self._peer) and self._files.modified_ms(self._peer) > self._files.modified_ms(path):
            return None  # a RocketMQ broker had the store since
        try:
            return TimerCheckpoint.unpack(self._files.read(path))
        except BadRecord:
            return None

    def _fit(self, saved: TimerCheckpoint) -> bool:
        """Tell whether all is there that a checkpoint counts on."""
        try:
            return all(self._files.size(self._path(_name(row))) >= row.count * ENTRY_SIZE for row in saved.files)
        except FileNotFoundError:
            return False

    # -- while it runs -----------------------------------------------------------------------------------------

    def write(self, parts: Sequence[tuple[str, list[bytes]]]) -> int:
        """
        Append entries to files, by name; return how many of C{parts} are written whole.

        The rest is not: that of the first is not known.
        """
        for done, (name, entries) in enumerate(parts):
            try:
                self._files.append(self._path(name), b"".join(entries))
            except OSError:
                return done
        return len(parts)

    def load(self, rows: Sequence[SlotFileRow], limit: int) -> LoadedSlot:
        """
        Return the earliest C{limit} entries of a slot that are above the floors of their files.

        @param rows: its files.
        @raise OSError: as the system says.
        """
        found: list[list[bytes]] = []
        for row in rows:
            found.append(self._earliest(row, limit + 1))
            if sum(map(len, found)) > 4 * limit:
                last = sorted(chain.from_iterable(found))[limit]
                found = [part[: bisect_right(part, last)] for part in found]
        entries = sorted(entry for part in found for entry in part)
        more = len(entries) > limit
        del entries[limit:]
        last = entries[-1] if entries else b""
        return LoadedSlot(entries, [bisect_right(part, last) for part in found], more)

    def _earliest(self, row: SlotFileRow, limit: int) -> list[bytes]:
        """Return the earliest entries of one file, in order; memory holds a few times that many."""
        path = self._path(_name(row))
        floor = row.floor
        found: list[bytes] = []
        for at in range(0, row.count * ENTRY_SIZE, _CHUNK):
            data = self._files.read_at(path, at, min(_CHUNK, row.count * ENTRY_SIZE - at))
            found += [entry for entry in split_entries(data) if entry > floor]
            if len(found) > 4 * limit:
                found.sort()
                del found[limit:]
        found.sort()
        return found[:limit]

    def entries(self, row: SlotFileRow) -> list[bytes]:
        """Return the entries of a file that are above its floor. @raise OSError"""
        data = self._files.read_at(self._path(_name(row)), 0, row.count * ENTRY_SIZE)
        return [entry for entry in split_entries(data) if entry > row.floor]

    # -- while all is made anew --------------------------------------------------------------------------------

    def append_delivered(self, number: int, data: bytes) -> None:
        """Append to the file of a piece of the log; L{take_delivered} or the next start removes it. @raise OSError"""
        self._files.append(self._path(f"{_DELIVERED}.{number}"), data)

    def take_delivered(self, number: int) -> bytes:
        """Return what is in the file of a piece of the log, and remove it. @raise OSError"""
        path = self._path(f"{_DELIVERED}.{number}")
        data = self._files.read(path)
        self._files.remove(path)
        return data

    # -- checkpoints -------------------------------------------------------------------------------------------

    def save(self, checkpoint: TimerCheckpoint) -> None:
        """Replace the checkpoint, durably; the files it names are synced already. @raise OSError"""
        self._files.replace(self._path(CHECKPOINT), checkpoint.pack(), backup=False)

    def sync(self, names: Iterable[str]) -> None:
        """Bring files to the disk, and their names. @raise OSError"""
        for name in names:
            mapping = self._files.map(self._path(name), writable=False)
            try:
                mapping.sync()
            finally:
                mapping.close()
        self._files.sync_directory(self.directory)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there. @raise OSError"""
        for name in names:
            try:
                self._files.remove(self._path(name))
            except FileNotFoundError:
                pass
