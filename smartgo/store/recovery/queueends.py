"""
The end of a queue that was not closed in order: its units checked against the records that they lead to.

The units below a checkpoint are durable and in order, so the last of them is found by bisection. That one, and the
first of each file, must lead to the records they were made for.
"""

from __future__ import annotations

from collections.abc import Callable

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadRecord
from smartgo.schema.consumequeue import UNIT_SIZE, Unit, unit_struct
from smartgo.schema.record import SIZE_LIMIT, check
from smartgo.store.filequeue import FileQueue
from smartgo.store.queues.file import ConsumeQueue


class QueueEnds:
    """Finds the ends of queues in their files."""

    def __init__(self, files: IFiles, log_files: FileQueue) -> None:
        self._files = files
        self._log_files = log_files

    def find(self, queue: ConsumeQueue, below: int, littered: Callable[[], None]) -> int | None:
        """
        Return the logical offset after the last unit that leads below a physical offset; C{None}: not to be trusted.

        @param littered: called where old units may lie behind that.
        """
        end = self.bisect(queue, below)
        if self.is_borne_out(queue, end):
            return end
        littered()
        end = self._first_gap(queue, below)
        return end if self.is_borne_out(queue, end) else None

    def bisect(self, queue: ConsumeQueue, below: int) -> int:
        """Return the logical offset after the last unit that leads below a physical offset, if units are in order."""
        low, high = queue.files.begin // UNIT_SIZE, queue.files.end // UNIT_SIZE
        while low < high:
            middle = (low + high) // 2
            if _is_used(queue.unit(middle), below):
                low = middle + 1
            else:
                high = middle
        return low

    def last_unit(self, queue: ConsumeQueue, end: int) -> Unit | None:
        """Return the unit before a logical offset."""
        return queue.unit(end - 1) if end > queue.files.begin // UNIT_SIZE else None

    def is_borne_out(self, queue: ConsumeQueue, end: int) -> bool:
        """Tell whether the last unit before C{end} leads to the record it was made for, or to one that is gone."""
        place = queue.files.find((end - 1) * UNIT_SIZE)
        if place is None:
            return True
        # Read, not mapped: when a store is opened each queue is looked at once, and they may be many.
        unit = Unit.unpack(self._files.read_at(place.path, (end - 1) * UNIT_SIZE - place.base, UNIT_SIZE))
        if unit.is_filler:
            return True
        log_files = self._log_files
        if not _is_used(unit, log_files.end) or unit.size > SIZE_LIMIT:
            return False
        if unit.commitlog_offset < log_files.begin:
            return True
        file = log_files.find(unit.commitlog_offset)
        if file is None:
            return False
        raw = self._files.read_at(file.path, unit.commitlog_offset - file.base, unit.size)
        try:
            message = check(raw, 0, unit.commitlog_offset, verify_crc=False)
        except BadRecord:
            return False
        return queue.shared or (
            message.topic == queue.topic and message.queue_id == queue.queue_id and message.queue_offset == end - 1
        )

    def _first_gap(self, queue: ConsumeQueue, below: int) -> int:
        """Find the end as RocketMQ does, unit by unit through the last files: leftovers may lie behind a gap."""
        files = queue.files.files
        number = files[max(0, len(files) - 3)].base // UNIT_SIZE
        end = queue.files.end // UNIT_SIZE
        while number < end:
            for unit in map(Unit._make, unit_struct.iter_unpack(queue.view(number, end - number) or b"")):
                if not _is_used(unit, below):
                    return number
                number += 1
        return number


def _is_used(unit: Unit | None, below: int) -> bool:
    return unit is not None and unit.size > 0 and 0 <= unit.commitlog_offset < below
