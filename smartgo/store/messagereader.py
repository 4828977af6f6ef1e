"""
Reading a queue: units from an offset, what the filter leaves of them, the records themselves.

What lies within a share of memory from the log's end is handed out as slices of the mapped file, at once; records that
lie side by side are one slice. What lies further back is read through the file by a thread, as a page that is not in
memory would hold up the reactor (reliability S4). Source of the table of answers: C{DefaultMessageStore.getMessage};
docs/spec/store#read.

A unit that was found on the disk is believed only as far as its record bears it out: size, queue, topic, logical and
physical offset. What does not agree is left out, and said once in the log. Units that this process wrote are believed.

A record that was found on the disk is checked before it is first handed out, with all of its region
(L{smartgo.store.verifiedlog}); what is damaged is left out, as units without a message are. A read of what was not
checked yet is COLD: the reader thread checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.errors import NoSuchMessage
from smartgo.schema.consumequeue import EXTENSION_LIMIT, PREFILL, UNIT_SIZE, unit_struct
from smartgo.schema.record import HEAD_SIZE
from smartgo.store.commitlog import CommitLog
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus
from smartgo.store.logpieces import LogPieces
from smartgo.store.queues.file import ConsumeQueue, QueueKey
from smartgo.store.queues.picking import adjacent_units, pick_units
from smartgo.store.settings import StoreSettings
from smartgo.store.unitchecks import bears_out, first_group, fits, is_of, matches, place, to_scan, wanted_units
from smartgo.store.verifiedlog import LANE, VerifiedLog

_NO_MESSAGE: Final = PREFILL.size
_WARNED_QUEUES: Final = 1000  # queues, at most, about which the log says something
_REGIONS: Final = 8  # of the log that are checked for one read from memory, at most

_unit = unit_struct.unpack_from
_units = unit_struct.iter_unpack
_result = tuple.__new__

RawUnit = tuple[int, int, int]


class MessageReader:
    """The read side of a store."""

    _log = Logger()

    def __init__(
        self,
        log: CommitLog,
        by_key: dict[QueueKey, ConsumeQueue],
        settings: StoreSettings,
        memory: int,
        threads: IThreads,
        files: IFiles,
        verified: VerifiedLog,
    ) -> None:
        """
        @param memory: bytes; a record further from the log's end counts as "on disk".
        @param verified: which records were checked.
        """
        self._commitlog = log
        self._by_key = by_key
        self._settings = settings
        self._memory = memory
        self._threads = threads
        self._pieces = LogPieces(log, files)
        self._warned: set[QueueKey] = set()
        self._verified = verified

    def is_far_back(self, offset: int) -> bool:
        """Tell whether the record at a physical offset counts as "on disk"."""
        return self._commitlog.end - offset > self._memory

    def is_own(self, offset: int) -> bool:
        """Tell whether a record that does not count as "on disk" is this process's own, or was checked by recovery."""
        return offset >= self._verified.own_from and not self.is_far_back(offset)

    # -- what is asked for -------------------------------------------------------------------------------------

    def read(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> ReadResult:
        """Read what is in memory; status COLD where the first message is not."""
        queue = self._by_key.get((topic, queue_id))
        if queue is None or not queue.minimum <= offset < queue.visible:
            return self._outside(queue, offset)
        count = limit.count
        view = queue.view(offset, to_scan(filter, queue.visible - offset, count))
        if view is None:
            return self._no_file(queue, offset)
        settings = self._settings
        count = max(1, min(count, settings.memory_count))
        if filter is None:
            view = view[: count * UNIT_SIZE]
        first, _, _ = _unit(view)
        if self._commitlog.end - first > self._memory and first >= self._commitlog.minimum:
            return self._cold(queue, offset)
        limit = ReadLimit(count, min(limit.size, settings.memory_size))
        if first < self._verified.clean_from or offset < queue.own_from:
            return self._read_checked(queue, offset, view, limit, filter)
        if filter is None:
            found = self._side_by_side(queue, offset, view, limit.size)
            if found is not None:
                return found
        picked = self._pick_at_once(queue, offset, view, limit, filter, 0, self._commitlog.window(first))
        return self._pick(queue, offset, list(_units(view)), limit, filter) if picked is None else picked

    def read_cold(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> Deferred[ReadResult]:
        """Read in the lane what is not in memory, with the limits for that; what is in memory as L{read} does."""
        result = self.read(topic, queue_id, offset, limit, filter)
        if result.status is not ReadStatus.COLD:
            return succeed(result)
        return Deferred.fromCoroutine(self._read_cold(self._by_key[topic, queue_id], offset, limit, filter))

    # -- what was found on the disk ----------------------------------------------------------------------------

    def _read_checked(
        self, queue: ConsumeQueue, offset: int, view: memoryview, limit: ReadLimit, filter: IMessageFilter | None
    ) -> ReadResult:
        """Read what was checked, without what is damaged; COLD where the first message was not checked."""
        first, _, _ = _unit(view)
        last, last_size, _ = _unit(view, len(view) - UNIT_SIZE)
        if self._commitlog.minimum <= first <= last and self._verified.is_clean(first, last):
            found = self._side_by_side(queue, offset, view, limit.size) if filter is None else None
            if found is not None and (offset >= queue.own_from or bears_out(queue, offset, view, found.parts[0])):
                return found
            log, base, end = self._commitlog.window(first)
            window = log[first - base :], first, min(end, last + last_size)
            found = self._pick_at_once(queue, offset, view, limit, filter, queue.own_from, window)
            if found is not None:
                return found
        units = self._checked_units(list(_units(view)), filter)
        return self._pick(queue, offset, units, limit, filter, queue.own_from) if units else self._cold(queue, offset)

    def _checked_units(self, units: list[RawUnit], filter: IMessageFilter | None) -> list[RawUnit]:
        """
        Return the units before the first record that was not checked; those of damaged records stand for no message.
        """
        wanted = None if filter is None else filter.hashes()
        minimum = self._commitlog.minimum
        verified = self._verified
        for at, (physical, size, code) in enumerate(units):
            if size == _NO_MESSAGE or physical < minimum:
                continue
            if wanted is not None and code not in wanted and code >= EXTENSION_LIMIT:
                continue
            if not verified.covers(physical, physical):
                return units[:at]
            if verified.damage.holds(physical):
                units[at] = (physical, _NO_MESSAGE, code)
        return units

    # -- outside the queue -------------------------------------------------------------------------------------

    def _outside(self, queue: ConsumeQueue | None, offset: int) -> ReadResult:
        minimum, maximum = (0, 0) if queue is None else (queue.minimum, queue.visible)
        if queue is None:
            status, next_offset = ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0
        elif maximum == 0:
            status, next_offset = ReadStatus.NO_MESSAGE_IN_QUEUE, 0
        elif offset < minimum:
            status, next_offset = ReadStatus.OFFSET_TOO_SMALL, minimum
        elif offset == maximum:
            status, next_offset = ReadStatus.OFFSET_OVERFLOW_ONE, offset
        else:
            status, next_offset = ReadStatus.OFFSET_OVERFLOW_BADLY, maximum
        if self._settings.replica:
            next_offset = offset  # a slave may be behind its master: it does not correct
        return ReadResult(status, next_offset, minimum, maximum, [], 0, 0, False)

    def _no_file(self, queue: ConsumeQueue, offset: int) -> ReadResult:
        per_file = queue.files.file_size // UNIT_SIZE
        next_offset = offset - offset % per_file + per_file
        return ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, queue.minimum, queue.visible, [], 0, 0, False)

    def _cold(self, queue: ConsumeQueue, offset: int) -> ReadResult:
        return ReadResult(ReadStatus.COLD, offset, queue.minimum, queue.visible, [], 0, 0, True)

    # -- from memory -------------------------------------------------------------------------------------------

    def _side_by_side(self, queue: ConsumeQueue, offset: int, view: memoryview, max_size: int) -> ReadResult | None:
        """Answer with one slice where the records follow one another, the usual case; else C{None}."""
        adjacent = adjacent_units(view)
        if adjacent is None or queue.shared:
            return None
        first, last, size = adjacent
        if size > max_size:
            return None
        try:
            part = self._commitlog.slice(first, size)
        except NoSuchMessage:
            return None
        count = len(view) // UNIT_SIZE
        return _result(
            ReadResult,
            (
                ReadStatus.FOUND,
                offset + count,
                queue.minimum,
                queue.visible,
                [part],
                count,
                size,
                self._commitlog.end - last > self._memory,
            ),
        )

    def _pick_at_once(
        self,
        queue: ConsumeQueue,
        offset: int,
        view: memoryview,
        limit: ReadLimit,
        filter: IMessageFilter | None,
        checked_until: int,
        window: tuple[memoryview, int, int],
    ) -> ReadResult | None:
        """Answer as L{_pick} does, where all is as it should be; else C{None}. All records lie in C{window}."""
        if queue.shared or (filter is not None and filter.needs_content()):
            return None
        codes = None if filter is None else filter.hashes()
        picked = pick_units(queue, offset, view, codes, limit, window, self._commitlog.minimum, checked_until)
        return None if picked is None else self._answer(queue, *picked)

    def _pick(
        self,
        queue: ConsumeQueue,
        offset: int,
        units: Sequence[RawUnit],
        limit: ReadLimit,
        filter: IMessageFilter | None,
        found_until: int = 0,
    ) -> ReadResult:
        """
        Answer with what the filter leaves of the units; neighbours in the log become one slice.

        @param found_until: logical offset: the topics of records before it are checked one by one.
        """
        max_count, max_size = limit
        wanted = None if filter is None else filter.hashes()
        content = filter if filter is not None and filter.needs_content() else None
        log = self._commitlog
        log_minimum = log.minimum
        queue_id, shared = queue.queue_id, queue.shared
        parts: list[memoryview] = []
        count = total = 0
        window, base, window_end = log.window(units[0][0])
        begin = end = -1  # of the run of neighbours that is being gathered
        checked = shared
        removing = False
        last = units[0][0]
        number = offset - 1
        for physical, size, code in units:
            number += 1
            if wanted is not None and code not in wanted and code >= EXTENSION_LIMIT:
                continue
            if size == _NO_MESSAGE or physical < log_minimum:
                removing = removing or size != _NO_MESSAGE
                continue
            if count and (count >= max_count or total + size > max_size):
                number -= 1
                break
            last = physical
            if physical < base or physical + size > window_end:
                if end >= 0:
                    parts.append(window[begin - base : end - base])
                    begin = end = -1
                window, base, window_end = log.window(physical)
            at = physical - base
            if physical + size > window_end or size < HEAD_SIZE:
                self._complain(queue, number)
                continue
            found = place(window, at)
            if found != (size, queue_id, number, physical) and not (
                shared and (found[0], found[3]) == (size, physical)
            ):
                self._complain(queue, number)
                continue
            if not checked:  # one is enough to notice a queue file that is another queue's
                if not is_of(queue, window[at : at + size]):
                    self._complain(queue, number)
                    continue
                checked = number >= found_until
            if content is not None and not matches(content, window[at : at + size]):
                continue
            count += 1
            total += size
            if physical == end:
                end += size
            else:
                if end >= 0:
                    parts.append(window[begin - base : end - base])
                begin, end = physical, physical + size
        if end >= 0:
            parts.append(window[begin - base : end - base])
        return self._answer(queue, parts, count, total, number + 1, last, removing)

    def _complain(self, queue: ConsumeQueue, number: int) -> None:
        if queue.key not in self._warned and len(self._warned) < _WARNED_QUEUES:
            self._warned.add(queue.key)
            self._log.warn(
                "unit {number} of topic {topic}, queue {queue} points to no message of that queue and is left out",
                number=number,
                topic=queue.topic,
                queue=queue.queue_id,
            )

    def _answer(
        self,
        queue: ConsumeQueue,
        parts: list[memoryview],
        count: int,
        size: int,
        next_offset: int,
        last: int,
        removing: bool,
    ) -> ReadResult:
        status = ReadStatus.FOUND
        if not count:
            status = ReadStatus.MESSAGE_WAS_REMOVING if removing else ReadStatus.NO_MATCHED_MESSAGE
        far = self.is_far_back(last)
        return ReadResult(status, next_offset, queue.minimum, queue.visible, parts, count, size, far)

    # -- from the disk -----------------------------------------------------------------------------------------

    async def _read_cold(
        self, queue: ConsumeQueue, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> ReadResult:
        settings = self._settings
        max_count = max(1, min(limit.count, settings.disk_count))
        max_size = min(limit.size, settings.disk_size)
        wanted = None if filter is None else filter.hashes()
        content = filter if filter is not None and filter.needs_content() else None
        most = to_scan(filter, queue.visible - offset, limit.count)
        few = wanted is None and content is None  # units without a message are rare
        for count in (limit.count, most) if few else (most,):
            view = queue.view(offset, min(count, most))
            units = [] if view is None else list(_units(view))
            chosen = wanted_units(units, offset, wanted)
            if chosen:
                break
        if chosen and not self.is_far_back(chosen[0][1]):
            await self._verify(chosen[: limit.count], _REGIONS)
            result = self.read(*queue.key, offset, limit, filter)
            if result.status is not ReadStatus.COLD:
                return result
        next_offset = offset + len(units)  # if all of them are passed
        last = units[-1][0] if units else 0
        parts: list[memoryview] = []
        total = 0
        removing = False
        while chosen:
            group = first_group(chosen, max_count, max_size)
            chosen = chosen[len(group) :]
            await self._verify(group, len(group))
            records = await self._threads.run(LANE, self._pieces.fetch, self._pieces.of(group))
            for (number, physical, size), data in zip(group, records, strict=True):
                if parts and (len(parts) >= max_count or total + size > max_size):
                    return self._answer(queue, parts, len(parts), total, number, last, removing)
                last = physical
                part = memoryview(data)
                if physical < self._commitlog.minimum:
                    removing = True
                elif self._verified.damage.holds(physical):
                    continue
                elif not fits(queue, number, physical, size, part):
                    self._complain(queue, number)
                elif content is None or matches(content, part):
                    parts.append(part)
                    total += size
            if chosen and len(parts) >= max_count:
                next_offset = chosen[0][0]
                break
        return self._answer(queue, parts, len(parts), total, next_offset, last, removing)

    async def _verify(self, group: Sequence[tuple[int, int, int]], left: int) -> None:
        """
        Check the records of units where they were not checked before.

        @param left: how many regions at most.
        @raise OSError: the disk could not read one.
        """
        verified = self._verified
        for _, physical, _ in group:
            if physical >= self._commitlog.minimum and not verified.covers(physical, physical):
                if not left:
                    break
                left -= 1
                await verified.verify(physical)
