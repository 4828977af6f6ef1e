"""
The damaged regions of the log that are known: in memory for readers, in C{quarantine/} for people and the next start.

Damaged bytes stay where they are: readers leave them out, and what follows them stays readable (docs/spec/
reliability#S8). A copy of the bytes and a JSON file that names their place, their queue and what is wrong with them are
kept in C{quarantine/}; C{quarantine/regions.json} lists all regions (L{smartgo.schema.regions}).
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final

import msgspec
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody
from smartgo.schema import regions
from smartgo.schema.logcheck import DamagedBytes
from smartgo.schema.record import RECORD_MINIMUM
from smartgo.schema.regions import UNREADABLE, Region
from smartgo.store.filequeue import FileQueue, file_name

DIRECTORY: Final = "quarantine"
_COPY: Final = 4 << 20  # bytes that are copied at once


class DamageFiles:
    """The files in C{quarantine/} about damaged regions. All methods block."""

    _log = Logger()

    def __init__(self, env: IEnvironment, root: str) -> None:
        self._files = env.files
        self._wall_ms = env.clock.wall_ms
        self._directory = posixpath.join(root, DIRECTORY)
        self._path = posixpath.join(root, regions.PATH)

    def load(self) -> list[Region]:
        """
        Return the regions that are known, in order, but for those that could not be read: they are tried again.

        A list that cannot be read is none: damage is found again where it is read.
        """
        if not self._files.exists(self._path):
            return []
        try:
            found = regions.decode(self._files.read(self._path))
        except (BadBody, OSError) as error:
            self._log.warn("the list of damaged regions cannot be read, and is made anew: {error}", error=str(error))
            return []
        return [region for region in found if not is_unreadable_region(region)]

    def save(self, known: Iterable[Region]) -> None:
        """Replace the list of regions. @raise OSError: it is as it was."""
        self._files.make_directories(self._directory)
        self._files.replace(self._path, regions.encode(list(known)), backup=False)

    def describe(self, damage: DamagedBytes) -> Region:
        """Return the region of damaged bytes; it names their copy, whether there is one or not."""
        message = damage.message
        known = (message.topic, message.queue_id, message.queue_offset) if message is not None else ("", -1, -1)
        saved = f"{file_name(damage.offset)}-{damage.length}.bytes"
        return Region(damage.offset, damage.length, damage.reason, *known, self._wall_ms(), saved)

    def keep(self, damage: DamagedBytes, log_files: FileQueue) -> Region:
        """
        Copy damaged bytes, with a JSON file beside the copy, and return their region.

        Where that fails, such as for want of room, the region says that there is no copy.
        """
        region = self.describe(damage)
        name = region.saved.removesuffix(".bytes")
        try:
            self._files.make_directories(self._directory)
            target = posixpath.join(self._directory, region.saved)
            if not self._files.exists(target):
                self._copy(region, log_files, target)
                about = msgspec.json.format(msgspec.json.encode(region), indent=2)
                self._files.replace(posixpath.join(self._directory, f"{name}.json"), about, backup=False)
        except OSError as error:
            self._log.warn(
                "the damaged bytes at {offset} could not be copied to quarantine: {error}",
                offset=damage.offset,
                error=str(error),
            )
            return msgspec.structs.replace(region, saved="")
        return region

    def _copy(self, region: Region, log_files: FileQueue, target: str) -> None:
        file = log_files.find(region.offset)
        if file is None:
            return
        begin = region.offset - file.base
        end = min(region.end - file.base, file.size)
        while begin < end:
            data = self._files.read_at(file.path, begin, min(_COPY, end - begin))
            if not data:
                break
            self._files.append(target, data)
            begin += len(data)


class DamageTable:
    """
    The damaged regions of one store, in order of their offsets; none overlaps another.

    @ivar regions: all that are known.
    @ivar unsettled: regions that were put right, while the queues that lead there are not on the disk: the list in the
        directory has them, so that the next start makes those queues anew.
    @ivar found: how many were found since the start; C{repaired}: how many were put right.
    """

    _log = Logger()

    def __init__(self, known: Iterable[Region], changed: Callable[[], None]) -> None:
        """
        @param changed: called when regions were added or removed.
        """
        self.regions: list[Region] = []
        for region in known:
            enter(self.regions, region)
        self.unsettled: list[Region] = []
        self.found = self.repaired = 0
        self._changed = changed

    def __len__(self) -> int:
        return len(self.regions)

    @property
    def end(self) -> int:
        """Physical offset after the last region; 0 without one."""
        return self.regions[-1].end if self.regions else 0

    @property
    def size(self) -> int:
        """Bytes in all regions."""
        return sum(region.length for region in self.regions)

    def holds(self, offset: int) -> bool:
        """Tell whether a physical offset lies in a damaged region."""
        return self.touches(offset, offset + 1)

    def touches(self, begin: int, end: int) -> bool:
        """Tell whether any byte from C{begin} to C{end} is damaged."""
        found = self.regions
        at = bisect_left(found, end, key=_begin_of)
        return at > 0 and found[at - 1].end > begin

    def between(self, begin: int, end: int) -> list[Region]:
        """Return the regions that hold any byte from C{begin} to C{end}."""
        return [region for region in self.regions if region.offset < end and region.end > begin]

    def most_records(self, begin: int, end: int) -> int:
        """Return how many records the regions that hold any byte from C{begin} to C{end} may have held."""
        return sum(region.length for region in self.between(begin, end)) // RECORD_MINIMUM

    @property
    def listed(self) -> list[Region]:
        """The regions for the list in the directory, in order."""
        found = self.regions[:]
        for region in self.unsettled:
            enter(found, region)
        return found

    def add(self, found: Iterable[Region]) -> None:
        """Enter regions that were found (L{enter}), and log each that holds a byte of which no damage was known."""
        new = [region for region in found if enter(self.regions, region)]
        for region in new:
            log_damage(self._log, region)
        if new:
            self.found += len(new)
            self._changed()

    def remove(self, region: Region, settled: bool = True) -> None:
        """
        Forget a region: its bytes were put right.

        @param settled: C{False}: it is in C{unsettled} until L{settle}.
        """
        if region in self.regions:
            self.regions.remove(region)
            self.repaired += 1
            if not settled:
                self.unsettled.append(region)
            self._changed()

    def settle(self, region: Region) -> None:
        """Forget a region that was removed: the queues that lead there are on the disk."""
        if region in self.unsettled:
            self.unsettled.remove(region)
            self._changed()

    def replace(self, region: Region, known: Region) -> None:
        """Enter C{region} in place of C{known}, which is of the same bytes, if that is still listed."""
        if region != known and known in self.regions:
            self.regions[self.regions.index(known)] = region
            self._changed()

    def release(self, minimum: int) -> None:
        """Forget the regions below a physical offset: the log files were removed."""
        self.unsettled = [region for region in self.unsettled if region.end > minimum]
        kept = [region for region in self.regions if region.end > minimum]
        if len(kept) < len(self.regions):
            self.regions = kept
            self._changed()


class RegionIndex:
    """Finds damaged regions by their place, in a list that is in order; regions may overlap, as in files of others."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._regions = regions
        self._reached = list(accumulate((region.end for region in regions), max))

    def at(self, offset: int) -> Region | None:
        """Return the first region that holds a physical offset; C{None} for none."""
        number = bisect_right(self._reached, offset)
        if number < len(self._regions) and self._regions[number].offset <= offset:
            return self._regions[number]
        return None

    def next_after(self, offset: int) -> Region | None:
        """Return the first region that begins behind a physical offset; C{None} for none."""
        number = bisect_right(self._regions, offset, key=_begin_of)
        return self._regions[number] if number < len(self._regions) else None


def is_unreadable_region(region: Region) -> bool:
    """Tell whether the disk could not read some of a region."""
    return region.reason.startswith(UNREADABLE)


def enter(known: list[Region], found: Region) -> bool:
    """
    Add a damaged region to regions that are in order and do not overlap.

    Regions that overlap it are replaced with the union of all. So are two side by side of which one could not be read
    and none is a whole record: a check may end at any byte of a part of the disk that fails.

    @return: C{False} where a known region holds all of it, and nothing was changed.
    """
    first = bisect_left(known, found.offset, key=_end_of)
    last = bisect_right(known, found.end, lo=first, key=_begin_of)
    if first < last and known[first].end == found.offset and not _is_cut(known[first], found):
        first += 1
    if first < last and known[last - 1].offset == found.end and not _is_cut(known[last - 1], found):
        last -= 1
    replaced = known[first:last]
    if any(one.offset <= found.offset and found.end <= one.end for one in replaced):
        return False
    known[first:last] = [_union(found, replaced)]
    return True


def _union(found: Region, others: list[Region]) -> Region:
    """Return the region from the first byte of all to the last; with the reason that the next start tries again."""
    begin = min(found.offset, *(one.offset for one in others)) if others else found.offset
    end = max(found.end, *(one.end for one in others)) if others else found.end
    reason = next((one.reason for one in (found, *others) if is_unreadable_region(one)), found.reason)
    if (begin, end) == (found.offset, found.end):
        return msgspec.structs.replace(found, reason=reason)
    return Region(begin, end - begin, reason, found_ms=found.found_ms, saved=found.saved)


def _is_cut(one: Region, other: Region) -> bool:
    return (is_unreadable_region(one) or is_unreadable_region(other)) and not one.topic and not other.topic


def _begin_of(region: Region) -> int:
    return region.offset


def _end_of(region: Region) -> int:
    return region.end


def log_damage(log: Logger, region: Region) -> None:
    """Say in the log what is damaged, and where the bytes are."""
    if region.topic:
        log.error(
            "the message at physical offset {offset} (topic {topic}, queue {queue}, offset {queue_offset}) is damaged:"
            " {reason}; it is not delivered, and its {length} B are kept as quarantine/{saved}",
            offset=region.offset,
            topic=region.topic,
            queue=region.queue_id,
            queue_offset=region.queue_offset,
            reason=region.reason,
            length=region.length,
            saved=region.saved,
        )
    else:
        log.error(
            "{length} B of the log at physical offset {offset} are damaged: {reason}; what was stored there is not"
            " delivered, and the bytes are kept as quarantine/{saved}",
            offset=region.offset,
            reason=region.reason,
            length=region.length,
            saved=region.saved,
        )
