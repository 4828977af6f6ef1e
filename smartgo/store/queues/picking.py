"""The records that a reader gets of a queue's units, by compiled code where all of them are as they should be."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from smartgo.core import choose
from smartgo.schema.consumequeue import UNIT_SIZE, unit_struct
from smartgo.store.interfaces import ReadLimit
from smartgo.store.tails import QueueTail

_UNIT: Final = unit_struct.format.lstrip(">")

Picked = tuple[list[memoryview], int, int, int, int, bool]
"""
Slices of the log in order, how many records and bytes they hold, the logical offset to go on from, the physical offset
of the last record looked at, and whether records of some units are gone.
"""


def pure_pick_units(
    queue: QueueTail,
    offset: int,
    units: memoryview,
    codes: frozenset[int] | None,
    limit: ReadLimit,
    window: tuple[memoryview, int, int],
    minimum: int,
    checked_until: int,
) -> Picked | None:
    """
    Pick the records of adjacent units that fit into a limit, the first of them in any case.

    @param offset: the logical offset of the first unit.
    @param units: packed, at least one.
    @param codes: the tag hashes that are wanted; C{None}: all.
    @param window: see L{CommitLog.window<smartgo.store.commitlog.CommitLog.window>}.
    @param minimum: the physical offset at which the log begins.
    @param checked_until: a logical offset: of records before it each has its topic compared, of others the first one.
    @return: C{None} where a record that would be picked is not within the window, or not what its unit says, or has
        IPv6 hosts: L{MessageReader<smartgo.store.messagereader.MessageReader>} goes through the units one by one. In
        Python always.
    """
    return None


def pure_adjacent_units(units: memoryview) -> tuple[int, int, int] | None:
    """
    Return where the first and the last record of packed units begin in the log, and the bytes of all of them.

    @return: C{None} where these records do not follow one another.
    """
    values = struct.unpack(">" + _UNIT * (len(units) // UNIT_SIZE), units)
    first, last = values[0], values[-3]
    size = last + values[-2] - first
    return (first, last, size) if sum(values[1::3]) == size else None


if TYPE_CHECKING:
    adjacent_units = pure_adjacent_units
    pick_units = pure_pick_units
else:
    adjacent_units = choose("adjacent_units", pure_adjacent_units)
    pick_units = choose("pick_units", pure_pick_units)
