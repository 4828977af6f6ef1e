"""Tests for L{benchmarks.scale.storefiles}."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError
from benchmarks.scale.storefiles import check_room, disk_of, evict


class DiskTests(SynchronousTestCase):
    """What a store takes on disk."""

    def setUp(self) -> None:
        """Make a store with a file in each part, and a hole of 1 MiB."""
        self.store = Path(os.path.abspath(self.mktemp()))
        for name in ("commitlog/0", "consumequeue/T/0/0", "index/1", "config/topics.json"):
            path = self.store / name
            path.parent.mkdir(parents=True)
            path.write_bytes(bytes([1]) * 8192)
        with (self.store / "index/2").open("wb") as sparse:
            sparse.truncate(1 << 20)

    def test_parts(self) -> None:
        """Allocated bytes count, by part; holes do not."""
        disk = disk_of(self.store)
        self.assertEqual((disk.log, disk.queues, disk.index, disk.other, disk.files), (8192, 8192, 8192, 8192, 5))
        self.assertEqual(disk.total, 32768)

    def test_evict(self) -> None:
        """Evicting leaves the content as it is."""
        evict(self.store)
        self.assertEqual((self.store / "commitlog/0").read_bytes(), bytes([1]) * 8192)

    def test_room(self) -> None:
        """What does not fit, or would leave less than the floor, is refused in a sentence."""
        check_room(self.store, 0, 0)
        for wanted, floor in ((1e18, 0), (0, 1e18)):
            error = self.assertRaises(BenchmarkError, check_room, self.store, wanted, floor)
            self.assertIn("GB free", str(error))
