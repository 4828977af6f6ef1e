"""The numbers of slots and entries of an index file, which stand nowhere in it."""

from __future__ import annotations

from typing import Final

from smartgo.errors import SettingError
from smartgo.schema.index import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, Geometry

_RATIO: Final = 4
"""Entries of an index file for each slot, as RocketMQ's defaults have it."""


def geometry_of(path: str, size: int, slots: int | None) -> Geometry:
    """
    Return how many slots and entries an index file has.

    @param size: in bytes.
    @param slots: C{maxHashSlotNum} of its broker; C{None} to derive it from the size.
    @raise SettingError: they do not fit.
    """
    if slots is None:
        slots, rest = divmod(size - HEADER_SIZE, SLOT_SIZE + _RATIO * ENTRY_SIZE)
        if rest:
            raise SettingError(
                f"{path} has {size} B, which is not {_RATIO} entries for each slot: set option indexSlots to"
                " maxHashSlotNum of its broker"
            )
    entries, rest = divmod(size - HEADER_SIZE - slots * SLOT_SIZE, ENTRY_SIZE)
    if rest or entries < 0:
        raise SettingError(f"option indexSlots: {path} has {size} B, which do not fit {slots} slots")
    return Geometry(slots, entries)
