"""
The first unit of a queue whose message the log still has.

Source: C{ConsumeQueue.correctMinOffset}; docs/spec/store#deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from smartgo.schema.consumequeue import PREFILL, Unit

_TOGETHER: Final = 4096  # units without a message that are passed at once


def first_kept(unit: Callable[[int], Unit | None], begin: int, end: int, minimum: int) -> int:
    """
    Return the logical offset of the first unit that leads to what the log still has, C{end} where there is none.

    Units lead to ever higher places of the log, so this is a bisection.

    @param unit: returns the unit at a logical offset, C{None} where no file holds it.
    @param begin: logical offset of the first unit to look at; C{end} that after the last.
    @param minimum: physical offset of the oldest byte of the log.
    """
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        found = unit(middle)
        if found is not None and found != PREFILL and found.commitlog_offset >= minimum:
            high = middle
        else:
            low = middle + 1
    return low


def behind_fillers(units: Callable[[int, int], Sequence[Unit]], offset: int, end: int) -> int:
    """
    Return the logical offset of the first message from C{offset} on, or C{end}.

    @param units: returns units from a logical offset on, at most as many as asked for, none where no file holds it.
    """
    count = 1  # nearly every queue begins with a message
    while offset < end:
        found = units(offset, min(count, end - offset))
        count = _TOGETHER
        for one in found:
            if not one.is_filler:
                return offset
            offset += 1
        if not found:
            break
    return offset
