"""
A disk that can fail, and the state in which a crash leaves it.

A killed process leaves everything that it wrote. A power cut keeps what was synced; of everything else it keeps blocks
of 512 bytes at random. Names behave as in a journal: a power cut keeps the changes of directories up to some moment,
which is never before the last change that was synced. Where L{Disk.names_apart}, each directory has such a moment of
its own, as no more is promised: only what is renamed from one into another is never in neither.
"""

from __future__ import annotations

import errno
import math
import posixpath
import random
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from tests.fakes import BLOCK, FakeFile, FakeFiles, FakeMapping, WallClock

DISK: Final = 1 << 39  # bytes that are free on a disk that is not full

_LISTINGS: Final = 16  # of a directory, and renames, that are kept at most
_SYNCS: Final = ("sync", "sync_directory")


class Names(NamedTuple):
    """The names of a disk after one change of a directory."""

    change: int
    files: dict[str, FakeFile]
    directories: set[str]


class Listing(NamedTuple):
    """The names in one directory after a change of it."""

    files: dict[str, FakeFile]
    directories: frozenset[str]


class Mapping(FakeMapping):
    """A mapping whose operations can fail."""

    _files: Disk

    def reserve(self, begin: int, end: int) -> None:
        """Reserve blocks, or fail."""
        self._files.fault("reserve", self.path)
        super().reserve(begin, end)

    def sync(self) -> None:
        """Make the content durable, or fail, see L{Disk.drops}."""
        disk, before = self._files, self._file.synced
        try:
            disk.fault("sync", self.path)
        except OSError:
            disk.drop(self._file)
            raise
        super().sync()
        disk.keep_dropped(self._file, before)


class Disk(FakeFiles):
    """
    A file system in memory that fails at random and can be cut off from power.

    @ivar rate: probability that an operation fails.
    @ivar failing: the operations that can fail; C{None}: all of them.
    @ivar drops: what a failed sync did not write is taken for written by the syncs after it, as by Linux.
    @ivar faults: how many operations failed, or were told that there is little space.
    @ivar dropped_at: when a sync first failed that dropped something, by C{moment}; C{None}: never since the last power
        cut.
    @ivar sync_failed_at: when a sync of a file or a directory failed last, by C{moment}.
    @ivar moment: the virtual time.
    @ivar names_apart: to sync a directory keeps the names of no other.
    @ivar stop_after: after this many further operations the state is copied to C{stopped}; 0 for never.
    @ivar when_stopped: is called at that moment.
    @ivar stopped: a copy of the disk in the middle of the work, as a crash at that moment leaves it.
    """

    def __init__(self, clock: WallClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.chance = chance
        self.rate = 0.0
        self.failing: Collection[str] | None = None
        self.drops = False
        self.faults = 0
        self.dropped_at: float | None = None
        self.sync_failed_at = -math.inf
        self.moment: Callable[[], float] = lambda: 0.0
        self.names_apart = False
        self.stop_after = 0
        self.stopped: Disk | None = None
        self.when_stopped: Callable[[], object] = lambda: None
        self._dropped: dict[FakeFile, dict[int, bytes]] = {}  # blocks by number, as they were when a sync failed
        self._changes = 0
        self._durable = 0  # changes of names up to this one are on the disk
        self._last_change: dict[str, int] = {}  # by directory
        self._journal = [Names(0, {}, {"/"})]
        self._listings: dict[str, list[Listing]] = {}  # by directory, where they are apart: the durable one, and later
        self._renamed: list[tuple[str, str, FakeFile]] = []

    def fault(self, operation: str, path: str) -> None:
        """Fail, if chance has it so. @raise OSError: EIO, ENOSPC or EMFILE."""
        if self.stop_after:
            self.stop_after -= 1
            if not self.stop_after:
                self.stopped = self.killed(self._clock, self.chance)
                self.when_stopped()
        if self.rate and (self.failing is None or operation in self.failing) and self.chance.random() < self.rate:
            self.faults += 1
            number = errno.EIO
            if operation in _SYNCS:
                self.sync_failed_at = self.moment()
            else:
                number = self.chance.choice((errno.EIO, errno.ENOSPC, errno.EMFILE))
            raise OSError(number, f"injected into {operation}", path)

    def drop(self, file: FakeFile) -> None:
        """Forget that the changed blocks of a file are not on the disk: a sync failed."""
        if not self.drops:
            return
        dropped = self._dropped.setdefault(file, {})
        synced = bytes(file.synced).ljust(len(file.data), b"\0")
        for at in range(0, len(file.data), BLOCK):
            block = bytes(file.data[at : at + BLOCK])
            if block != synced[at : at + BLOCK]:
                dropped[at // BLOCK] = block
        if dropped and self.dropped_at is None:
            self.dropped_at = self.moment()

    def keep_dropped(self, file: FakeFile, before: bytes) -> None:
        """
        Take back what a sync has made durable of blocks that a failed one dropped, unless they were written anew.

        @param before: what was durable before this sync.
        """
        dropped = self._dropped.get(file)
        if not dropped:
            return
        synced = bytearray(file.synced)
        before = bytes(before).ljust(len(synced), b"\0")
        for number, content in list(dropped.items()):
            block = slice(number * BLOCK, number * BLOCK + BLOCK)
            if synced[block] == content:
                synced[block] = before[block]
            else:
                del dropped[number]
        file.synced = bytes(synced)

    def take_space(self, size: int) -> None:
        """Take space. @raise OSError: ENOSPC."""
        try:
            super().take_space(size)
        except OSError:
            self.faults += 1
            raise

    def usage(self, path: str) -> tuple[int, int]:
        """Return the bytes of the disk, and those that are free."""
        self.faults += self.free < DISK // 2
        return super().usage(path)

    def mend(self) -> None:
        """Let nothing fail any more, and make room."""
        self.rate = 0.0
        self.failing = None
        self.free = max(self.free, DISK)

    @property
    def sick(self) -> bool:
        """Tell whether operations can fail."""
        return self.rate > 0 or self.free < DISK // 2

    # -- names -------------------------------------------------------------------------------------------------

    def _changed(self, *directories: str) -> None:
        if self.names_apart:
            for directory in directories:
                known = self._listings.setdefault(directory, [Listing({}, frozenset())])
                known.append(self._listing(directory))
                if len(known) > _LISTINGS:
                    del known[1]
            return
        self._changes += 1
        for directory in directories:
            self._last_change[directory] = self._changes
        self._journal.append(Names(self._changes, dict(self.files), set(self.directories)))

    def _listing(self, path: str) -> Listing:
        under = path.rstrip("/") + "/"
        size = len(under)
        files = {name: file for name, file in self.files.items() if name.startswith(under) and name.find("/", size) < 0}
        inner = (one for one in self.directories if one.startswith(under) and one != path and one.find("/", size) < 0)
        return Listing(files, frozenset(inner))

    def _force(self, change: int, *directories: str) -> None:
        """Make changes of names durable: those up to a change, or where they are apart those of directories."""
        if self.names_apart:
            for directory in directories:
                if directory in self._listings:
                    del self._listings[directory][:-1]
        elif change > self._durable:
            self._durable = change
            self._journal = [one for one in self._journal if one.change >= change]

    def _new(self, path: str, size: int) -> FakeFile:
        file = super()._new(path, size)
        self._changed(posixpath.dirname(path))
        return file

    def make_directories(self, path: str, sync: bool = True) -> None:
        """Add directories."""
        missing = []
        while path not in self.directories:
            missing.append(path)
            path = posixpath.dirname(path)
        if missing:
            self.fault("make_directories", path)
            self.directories.update(missing)
            for one in missing:
                self._listings.pop(one, None)
            parents = [posixpath.dirname(one) for one in missing]
            self._changed(*parents)
            if sync:
                self._force(self._changes, *parents)

    def create(self, path: str, data: bytes, sync: bool = True) -> None:
        """Make a file, with its name on the disk where that is asked for."""
        self.fault("create", path)
        super().create(path, data, sync)
        if sync:
            self._force(self._changes, posixpath.dirname(path))

    def replace(self, path: str, data: bytes, backup: bool = True) -> None:
        """Replace a file; durable when it returns."""
        self.fault("replace", path)
        super().replace(path, data, backup)
        self._changed(posixpath.dirname(path))
        self._force(self._changes, posixpath.dirname(path))

    def rename(self, source: str, target: str) -> None:
        """Rename."""
        self.fault("rename", source)
        super().rename(source, target)
        here, there = posixpath.dirname(source), posixpath.dirname(target)
        self._changed(here, *({there} - {here}))
        if self.names_apart and here != there and target in self.files:
            self._renamed = [*self._renamed[1 - _LISTINGS :], (source, target, self.files[target])]
        if self.names_apart and target in self.directories:
            for path in [one for one in self.directories if one == target or one.startswith(target + "/")]:
                self._listings[path] = [self._listing(path)]

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.fault("remove", path)
        super().remove(path)
        self._changed(posixpath.dirname(path))

    def remove_directory(self, path: str) -> None:
        """Remove a directory."""
        self.fault("remove", path)
        super().remove_directory(path)
        self._changed(posixpath.dirname(path))

    def remove_tree(self, path: str) -> None:
        """Remove everything below a directory."""
        self.fault("remove", path)
        super().remove_tree(path)
        self._changed(posixpath.dirname(path))

    def sync_directory(self, path: str) -> None:
        """Make the names of a directory durable, and with them, as a journal does, all changes before."""
        self.fault("sync_directory", path)
        super().sync_directory(path)
        self._force(self._last_change.get(path, 0), path)

    def allocate(self, path: str, size: int) -> None:
        """Make a file with all its blocks."""
        self.fault("allocate", path)
        super().allocate(path, size)

    def create_sparse(self, path: str, size: int) -> None:
        """Make a file without blocks."""
        self.fault("create_sparse", path)
        super().create_sparse(path, size)

    def append(self, path: str, data: bytes) -> None:
        """Make a file longer."""
        self.fault("append", path)
        super().append(path, data)

    def overwrite(self, path: str, offset: int, data: bytes) -> None:
        """Write over a part of a file."""
        self.fault("overwrite", path)
        super().overwrite(path, offset, data)

    def map(self, path: str, writable: bool = True, scattered: bool = False) -> Mapping:
        """Map a file."""
        self.fault("map", path)
        self._get(path)
        return Mapping(self, path, writable)

    # -- crashes -----------------------------------------------------------------------------------------------

    def killed(self, clock: WallClock, chance: random.Random) -> Disk:
        """Return the disk as a killed process leaves it: with all that was written, synced or not."""
        copies: dict[int, FakeFile] = {}

        def copied(files: dict[str, FakeFile]) -> dict[str, FakeFile]:
            found = {}
            for path, file in files.items():
                if id(file) not in copies:
                    copies[id(file)] = _copy(file, bytes(file.data))
                found[path] = copies[id(file)]
            return found

        after = Disk(clock, chance)
        after.free = self.free
        after.files = copied(self.files)
        after.directories = set(self.directories)
        after._dropped = {
            copies[id(file)]: dict(blocks) for file, blocks in self._dropped.items() if id(file) in copies
        }
        after._journal = [Names(one.change, copied(one.files), set(one.directories)) for one in self._journal]
        after.dropped_at = self.dropped_at
        after._changes, after._durable = self._changes, self._durable
        after._last_change = dict(self._last_change)
        after.names_apart = self.names_apart
        after._listings = {
            path: [Listing(copied(one.files), one.directories) for one in known]
            for path, known in self._listings.items()
        }
        after._renamed = [
            (source, target, copies[id(file)]) for source, target, file in self._renamed if id(file) in copies
        ]
        return after

    def copied(self, clock: WallClock, chance: random.Random) -> Disk:
        """Return another disk with a copy of everything that was written, all of it synced."""
        after = self.killed(clock, chance)
        for file in after.files.values():
            file.synced = bytes(file.data)
        after._dropped, after.dropped_at = {}, None
        after._keep_names()
        return after

    def cut_off(self, clock: WallClock, chance: random.Random) -> Disk:
        """Return the disk as a power cut leaves it."""
        after = Disk(clock, chance)
        after.free = self.free
        after.names_apart = self.names_apart
        last = chance.random() >= 0.7
        if self.names_apart:
            names = self._names_left(None if last else chance)
        else:
            names = self._journal[-1] if last else chance.choice(self._journal)
        kept = chance.choice((0.0, 1.0, 0.5, 0.8, 0.9, 0.95))
        for path in sorted(names.files):
            after.files[path] = _torn(names.files[path], kept, chance)
        after.directories = set(names.directories)
        after._keep_names()
        return after

    def _keep_names(self) -> None:
        """Make the names that there are durable, and forget those before."""
        self._changes = self._durable = 0
        self._last_change = {}
        self._renamed = []
        self._journal = [Names(0, dict(self.files), set(self.directories))]
        if self.names_apart:
            self._listings = {path: [self._listing(path)] for path in sorted(self.directories)}

    def _names_left(self, chance: random.Random | None) -> Names:
        """Return names that a power cut may leave where directories are apart; C{None}: all of them."""
        if chance is None:
            return Names(0, dict(self.files), set(self.directories))
        files: dict[str, FakeFile] = {}
        directories = {"/"}
        paths = ["/"]
        for path in paths:
            known = self._listings.get(path)
            if known is None:
                continue
            listing = chance.choice(known)
            files.update(listing.files)
            directories |= listing.directories
            paths += sorted(listing.directories)
        left = {id(file) for file in files.values()}
        for source, target, file in self._renamed:
            if id(file) not in left and self.files.get(target) is file and posixpath.dirname(source) in directories:
                files.setdefault(source, file)  # another file may have that name by now
        return Names(0, files, directories)


def _copy(file: FakeFile, data: bytes) -> FakeFile:
    copy = FakeFile(data, file.modified_ms)
    copy.synced = bytes(file.synced)
    copy.holes = set(file.holes)
    return copy


def _torn(file: FakeFile, kept: float, chance: random.Random) -> FakeFile:
    """Return a file of which unsynced blocks were kept with probability C{kept}."""
    data = bytearray(file.data)
    synced = bytes(file.synced).ljust(len(data), b"\0")[: len(data)]
    for at in range(0, len(data), BLOCK):
        block = slice(at, at + BLOCK)
        if data[block] != synced[block] and (kept == 0 or chance.random() >= kept):
            data[block] = synced[block]
    torn = _copy(file, bytes(data))
    torn.synced = bytes(data)
    return torn
