"""
The units of one queue, as its records come by in the log, put into runs of adjacent offsets.

A record's head has no checksum, so a queue offset in it may be wrong though the body is right. A record that is out of
step, while those around it go on counting, is taken for such a one: a unit without a message stands in for it, and only
that message is missing. Two or more that count from somewhere else are a new run.
"""

from __future__ import annotations

from typing import Final

from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.record import RECORD_MINIMUM

HIGHEST: Final = 1 << 48
"""No queue gets that far: a higher offset is wrong."""
LONGEST_GAP: Final = 1_000_000
"""Units of messages that the log has lost: where more are missing an offset is wrong."""

UnitRun = tuple[int, bytearray]
"""Logical offset of the first unit, and the packed units."""


class UnitSequence:
    """
    Collects the units of one queue, and finds those that are out of step.

    @ivar displaced: how many were out of step.
    """

    __slots__ = ("_begin", "_damaged", "_end", "_odd", "_runs", "_units", "displaced")

    def __init__(self) -> None:
        self._runs: list[UnitRun] = []
        self._begin = self._end = -1  # of the present run
        self._units = bytearray()  # the last ones of it: those before them were drained
        self._odd: tuple[int, bytes] | None = None  # a unit that does not continue the run
        self._damaged = 0  # before the last record
        self.displaced = 0

    def add(self, offset: int, unit: bytes, damaged: int = 0) -> None:
        """
        Take the unit of the queue's next record.

        @param offset: the logical offset in the record.
        @param damaged: bytes of damage in the log before the record.
        """
        if damaged != self._damaged:
            most = (damaged - self._damaged) // RECORD_MINIMUM
            self._damaged = damaged
            if self._odd is None and 0 <= self._end < offset <= self._end + most:
                self._units += _stand_in(unit) * (offset - self._end)
                self._end = offset
        if offset == self._end:
            if self._odd is not None:
                self._settle_odd(self._odd)
            self._units += unit
            self._end += 1
        elif self._odd is None:
            self._odd = (offset, unit)
            if self._end < 0:
                self._begin_run(self._odd)
        elif offset == self._end + 1 and self._odd[0] + 1 != offset:
            self.displaced += 1
            self._units += _stand_in(self._odd[1])
            self._units += unit
            self._end += 2
            self._odd = None
        else:
            self._begin_run(self._odd)
            self.add(offset, unit)

    def _settle_odd(self, odd: tuple[int, bytes]) -> None:
        """Drop the odd unit; one with the offset of the last unit replaces that, as its message was stored again."""
        self._odd = None
        self.displaced += 1
        if odd[0] == self._end - 1 and self._units:
            self._units[-UNIT_SIZE:] = odd[1]

    def _begin_run(self, odd: tuple[int, bytes]) -> None:
        """Begin a run with the odd unit."""
        self._odd = None
        if not 0 <= odd[0] < HIGHEST:
            self.displaced += 1
            return
        if self._end - self._begin == 1:
            self.displaced += 1  # it fits neither what was before it nor what comes after
        elif self._units:
            self._runs.append(self._present())
        self._begin, unit = odd
        self._end = self._begin + 1
        self._units = bytearray(unit)

    def _present(self) -> UnitRun:
        return self._end - len(self._units) // UNIT_SIZE, self._units

    @property
    def size(self) -> int:
        """Bytes of the units that wait to be drained."""
        return len(self._units) + sum(len(units) for _, units in self._runs)

    def drain(self, last: bool = False, given_out: int = 0) -> list[UnitRun]:
        """
        Return what was collected, oldest first.

        @param last: no record follows. Else a single unit is kept back, and the last run may still go on.
        @param given_out: the queue had units below this offset: a last record that is out of step, and within them, is
            the one that was there, and records before it are missing from the log.
        """
        odd = self._odd
        if last and odd is not None and 0 <= self._end < odd[0] < min(given_out, self._end + LONGEST_GAP):
            offset, unit = odd
            self._units += _stand_in(unit) * (offset - self._end) + unit
            self._end = offset + 1
            self._odd = None
        runs = self._runs
        self._runs = []
        if self._units and (last or self._end - self._begin > 1):
            runs.append(self._present())
            self._units = bytearray()
        if last and self._odd is not None:
            self.displaced += 1
            self._odd = None
        return runs


def _stand_in(unit: bytes) -> bytes:
    """Return a unit without a message in place of another; it leads to the same place, so that units stay in order."""
    return Unit(Unit.unpack(unit).commitlog_offset, PREFILL.size, 0).pack()
