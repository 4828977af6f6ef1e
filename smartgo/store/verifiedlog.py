"""
The parts of the log that were checked, and the check of all others when they are first read.

What this process appended is right by construction, and what recovery read was checked then. All else is checked once,
a region of 256 KiB at a time, in the reader thread and through the file, not the mapping: a page that the disk cannot
give is an error of a read there, and would end the process here. Records begin anywhere, so a region stands for the
records that begin in it; for each the place is kept where the first record behind it begins, so that the next region
need not look for it: 4 B a region, 16 KiB a log file of 1 GiB.

A read that the disk answers with an error fails: the reader may ask again. Where it fails again after a minute, the
pages that cannot be read are damage like any other, until the next start. Only the errors that tell of a faulty disk
count: too many open files, say, are no damage. One check asks for a few failing pages alone, as the disk may take
seconds for each and the lane serves all readers; the next one goes on from there.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IEnvironment, IFiles
from smartgo.schema import logcheck
from smartgo.schema.logcheck import CheckedRange, DamagedBytes, check_range, find_start
from smartgo.schema.regions import UNREADABLE, Region
from smartgo.store.commitlog import CommitLog
from smartgo.store.damage import DamageFiles, DamageTable, is_unreadable_region
from smartgo.store.mappedfile import MappedFile
from smartgo.store.pagereads import PAGE, is_unreadable, read_pages

LANE: Final = "read"
REGION: Final = 256 << 10
"""Bytes of the log that are checked at once."""
APART: Final = 60.0
"""Seconds from the first failed read of a region to the one from which on what cannot be read is damage."""
_MOST_FAILED: Final = 8  # reads of one check that may fail
_UNCHECKED: Final = -1


class CheckedRegion(NamedTuple):
    """The result of checking a region: where the next record begins, the damage, and how many records are right."""

    next_start: int
    damage: list[Region]
    records: int


class FailedRegion:
    """
    A region that the disk could not read.

    @ivar since: monotonic seconds of the first failure.
    @ivar pages: physical offsets of the pages that failed again since, and why.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.pages: dict[int, str] = {}


class VerifiedLog:
    """
    The checked regions of one log.

    @ivar clean_from: physical offset; from here on all was checked, or appended by this process, and nothing is
        damaged.
    @ivar own_from: physical offset; from here on recovery checked the records, or this process appended them.
    @ivar damage: what is damaged.
    """

    def __init__(
        self,
        log: CommitLog,
        own_from: int,
        damage: DamageTable,
        kept: DamageFiles,
        env: IEnvironment,
    ) -> None:
        """
        @param kept: where damaged bytes are copied to.
        """
        self._commitlog = log
        self._kept = kept
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._starts: dict[int, array[int]] = {}  # by base of the log file: see the module
        self._failed: dict[int, FailedRegion] = {}  # by physical offset of the region
        self._released = log.minimum  # what was below was forgotten
        self.damage = damage
        self.own_from = own_from
        self.clean_from = max(own_from, damage.end)

    # -- what is known -----------------------------------------------------------------------------------------

    def covers(self, first: int, last: int) -> bool:
        """
        Tell whether the records that begin at two physical offsets, and all between them, were checked.

        Where there is no log file there is nothing to check.
        """
        last = min(last, self.own_from - 1)
        while first <= last:
            file = self._commitlog.files.find(first)
            if file is None:
                return True
            starts = self._starts.get(file.base)
            if starts is None:
                return False
            number = (first - file.base) // REGION
            if starts[number] < 0:
                return False
            first = min(file.base + (number + 1) * REGION, file.end)
        return True

    def is_clean(self, first: int, last: int) -> bool:
        """Tell whether L{covers} holds, and none of these records is damaged."""
        return self.covers(first, last) and not self.damage.touches(first, last + 1)

    def is_readable(self, first: int, last: int) -> bool:
        """Tell whether L{covers} holds, and the disk could read all from C{first} to C{last}."""
        if first >= self.clean_from:
            return True
        return self.covers(first, last) and not any(map(is_unreadable_region, self.damage.between(first, last + 1)))

    def region_end(self, offset: int) -> int:
        """Return where the region ends that a physical offset lies in, whether there is a log or not."""
        size = self._commitlog.files.file_size
        at = offset % size
        return offset - at + min((at // REGION + 1) * REGION, size)

    # -- checking ----------------------------------------------------------------------------------------------

    def verify(self, offset: int) -> Deferred[None]:
        """
        Check the region that a physical offset lies in, if it was not checked before.

        @raise OSError: through the Deferred: it could not be read. Where the disk is at fault, and it fails again after
            C{APART}, it is taken for damaged.
        """
        return Deferred.fromCoroutine(self._verify(offset))

    async def _verify(self, offset: int) -> None:
        if not self.covers(offset, offset):
            await self.check(offset)

    async def check(self, offset: int) -> CheckedRegion | None:
        """
        Check the region that a physical offset lies in, as far as the log goes, whatever is known of it.

        @return: C{None} where there is no log.
        @raise OSError: as L{verify}.
        """
        log = self._commitlog
        file = log.files.find(offset)
        if file is None or offset >= log.whole:
            return None
        number = (offset - file.base) // REGION
        begin = file.base + number * REGION
        limit = min(file.end, log.whole)
        end = min(begin + REGION, limit)
        starts = self._starts.get(file.base)
        start: int | None = None
        if not number:
            start = file.base
        elif starts is not None and starts[number - 1] >= 0:
            start = file.base + starts[number - 1]
        failed = self._failed.get(begin)
        if failed is not None and self._clock.seconds() - failed.since < APART:
            failed = None
        try:
            found: CheckedRegion = await self._threads.run(LANE, self._check, file, (begin, end, limit), start, failed)
        except OSError as error:
            if is_unreadable(error):
                self._failed.setdefault(begin, FailedRegion(self._clock.seconds()))
            raise
        if failed is None or not failed.pages:
            self._failed.pop(begin, None)
        self._note(file, number, found, end)
        return found

    def _check(
        self, file: MappedFile, bounds: tuple[int, int, int], start: int | None, failed: FailedRegion | None
    ) -> CheckedRegion:
        """
        Check one region; in the lane.

        @param bounds: its begin, its end, and that of the log in this file.
        @param failed: what is known of a region of which unreadable pages are damage.
        """
        begin, end, limit = bounds
        pages = PageReader(self._files, file, None if failed is None else failed.pages)
        guessed = failed is not None and start is None
        if guessed:
            start = _near_start(pages, begin, limit, file)
        search_end = None if failed is None else end
        is_lost = None if failed is None else pages.is_lost
        starts = (file.base, start)
        found: CheckedRange = check_range(pages.read, begin, end, limit, file.end, starts, search_end, is_lost)
        damage = []
        for one in found.damage:
            if guessed and one.offset == begin == start:
                one = one._replace(reason=f"{UNREADABLE}: nor what lies before it")
            damage.append(self._kept.keep(pages.explain(one), self._commitlog.files))
        return CheckedRegion(found.next_start, damage, found.records)

    def _note(self, file: MappedFile, number: int, found: CheckedRegion, end: int) -> None:
        """Enter the result of a check."""
        if self._commitlog.files.find(file.base) is not file:
            return  # it was removed meanwhile
        self.damage.add(found.damage)
        self.clean_from = max(self.clean_from, self.damage.end)
        count = -(-file.size // REGION)
        starts = self._starts.get(file.base)
        if starts is None:
            self.release()
            starts = self._starts[file.base] = array("i", [_UNCHECKED]) * count
        if end < min(file.base + (number + 1) * REGION, file.end, self.own_from):
            return  # only the beginning of it was checked: the log ended there
        # A record, a blank or damage may go on behind the region, over others in which nothing begins.
        after = min(max(found.next_start, end), file.end) - file.base
        starts[number] = after
        number += 1
        while number < count and after >= min((number + 1) * REGION, file.size):
            starts[number] = after
            number += 1

    def release(self) -> None:
        """Forget what was removed from the front of the log; cheap where that is nothing new."""
        minimum = self._commitlog.minimum
        if minimum == self._released:
            return
        self._released = minimum
        for base in [base for base in self._starts if base < minimum]:
            del self._starts[base]
        self._failed = {offset: failed for offset, failed in self._failed.items() if offset >= minimum}
        self.damage.release(minimum)


class PageReader:
    """
    Reads one log file; a tolerant one takes the pages that the disk cannot read for zeros.

    @ivar unreadable: physical offsets of those pages, and why; they are not asked for again. C{None}: not tolerant.
    """

    def __init__(self, files: IFiles, file: MappedFile, unreadable: dict[int, str] | None) -> None:
        self._files = files
        self._file = file
        self._left = _MOST_FAILED
        self.unreadable = unreadable

    def read(self, offset: int, size: int) -> bytes:
        """
        Read from the file.

        @raise OSError: it could not be read, and this is no tolerant reader, or the error does not tell of a faulty
            disk, or so many reads have failed that the next check has to go on.
        """
        at = offset - self._file.base
        if self.unreadable is None:
            return self._files.read_at(self._file.path, at, size)
        size = min(size, self._file.size - at)
        first = offset - at % PAGE
        if not any(page in self.unreadable for page in range(first, offset + size, PAGE)):
            try:
                return self._files.read_at(self._file.path, at, size)
            except OSError as error:
                self._count(error)
        return self._read_pages(at, size, self.unreadable)

    def _read_pages(self, at: int, size: int, unreadable: dict[int, str]) -> bytes:
        def read(at: int, count: int) -> bytes | None:
            page = self._file.base + at - at % PAGE
            if page in unreadable:
                return None
            try:
                return self._files.read_at(self._file.path, at, count)
            except OSError as error:
                if is_unreadable(error):
                    unreadable[page] = str(error)
                self._count(error)
                return None

        return read_pages(read, at, at + size)

    def _count(self, error: OSError) -> None:
        """Count a read that failed. @raise OSError: the one given: no other read is tried."""
        self._left -= 1
        if not is_unreadable(error) or self._left <= 0:
            raise error

    def is_lost(self, begin: int, end: int) -> bool:
        """Tell whether any byte between two physical offsets lies on a page that the disk could not read."""
        return any(page < end and page + PAGE > begin for page in self.unreadable or ())

    def explain(self, damage: DamagedBytes) -> DamagedBytes:
        """Return damage with what the disk said, where it could not read a page of it."""
        for page, why in (self.unreadable or {}).items():
            if page < damage.end and page + PAGE > damage.offset:
                return damage._replace(reason=f"{UNREADABLE}: {why}")
        return damage


def _near_start(pages: PageReader, begin: int, limit: int, file: MappedFile) -> int:
    """Return where a record begins shortly before a region, the file's begin, or that of the region."""
    before = begin - logcheck.CHUNK
    if before <= file.base:
        return file.base
    found = find_start(pages.read, before, begin, limit, file.end)
    return begin if found is None else found
