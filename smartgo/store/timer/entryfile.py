"""The files of a slot, and what is found in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smartgo.schema.timers import FIRST, SlotFileRow

FILE_LIMIT: Final = 16_384
"""Entries of a file."""
NEVER: Final = 1 << 62
"""Above all physical offsets."""


class SlotFile:
    """
    One file of entries; see L{SlotFileRow}.

    @ivar entries: those that are still to be written at its end; C{count} includes them.
    @ivar dirty: something was written since it was synced.
    @ivar closed: nothing more may be written to it.
    @ivar rolling: entries of old records are being taken out of it.
    """

    __slots__ = ("closed", "count", "dirty", "entries", "floor", "left", "number", "oldest", "rolling", "slot")

    def __init__(self, slot: int, number: int) -> None:
        self.slot = slot
        self.number = number
        self.count = self.left = 0
        self.oldest = NEVER
        self.floor = FIRST
        self.entries: list[bytes] = []
        self.dirty = self.closed = self.rolling = False

    @property
    def name(self) -> str:
        """The name of the file in the directory."""
        return f"{self.slot:012d}.{self.number}"

    def row(self) -> SlotFileRow:
        """Return what a checkpoint says of it."""
        return SlotFileRow(self.slot, self.number, self.count, self.left, self.oldest, self.floor)

    @classmethod
    def of(cls, row: SlotFileRow) -> SlotFile:
        """Return the file that a checkpoint speaks of."""
        file = cls(row.slot, row.number)
        file.count, file.left, file.oldest, file.floor = row.count, row.left, row.oldest, row.floor
        file.closed = True  # it may be longer than the checkpoint says
        return file


class LoadedSlot(NamedTuple):
    """
    The earliest entries of one slot.

    @ivar entries: in order.
    @ivar counts: how many of them are from each of the files.
    @ivar more: there are others above them.
    """

    entries: list[bytes]
    counts: Sequence[int]
    more: bool
