"""Units of queues that are read from their files."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.consumequeue import UNIT_SIZE, Unit
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.units import UnitReader

KEY = ("T", 0)
FILE = 1000  # units


class SparseFiles:
    """Files of one queue, with the units that were written."""

    def __init__(self, units: dict[int, Unit]) -> None:
        self.reads = 0
        self._units = units

    def read_at(self, path: str, at: int, size: int) -> bytes:
        """Return a part of a file; zeros where nothing was written."""
        self.reads += 1
        begin = (int(path) + at) // UNIT_SIZE
        end = min(begin + size // UNIT_SIZE, (int(path) // UNIT_SIZE + FILE))
        zeros = bytes(UNIT_SIZE)
        return b"".join(self._units[one].pack() if one in self._units else zeros for one in range(begin, end))


def reader_of(files: SparseFiles, first: int, count: int) -> UnitReader:
    """Return what reads a queue of so many files from one on."""
    bases = [(first + number) * FILE * UNIT_SIZE for number in range(count)]
    store: Any = SimpleNamespace(
        queue_file_size=FILE * UNIT_SIZE, queues={KEY: bases}, files=files, queue_path=lambda key, base: str(base)
    )
    return UnitReader(cast("OfflineStore", store))


class LastWrittenTests(SynchronousTestCase):
    """Passing over what was never written."""

    def test_found(self) -> None:
        """No unit that was written is passed over, wherever it lies."""
        random = Random(7)
        for _ in range(200):
            number = random.randrange(2 * FILE, 5 * FILE)
            reader = reader_of(SparseFiles({number: Unit(0, 100, 0)}), 2, 3)
            at = reader.last_written(KEY, 5 * FILE - 1)
            self.assertGreaterEqual(at, number)
            while (unit := reader.unit(KEY, at)) is not None and unit.size == 0:
                at = reader.last_written(KEY, at - 1)
            self.assertEqual(at, number)
            self.assertEqual(reader.last_written(KEY, number - 401), -1)

    def test_empty(self) -> None:
        """A queue without units takes one read for each page, not one step for each unit."""
        files = SparseFiles({})
        self.assertEqual(reader_of(files, 0, 2).last_written(KEY, 2 * FILE - 1), -1)
        self.assertEqual(files.reads, 6)
