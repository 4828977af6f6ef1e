"""Tests for L{smartgo.store.timer.deliveredoffsets}."""

from __future__ import annotations

import errno
from random import Random

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.timer.deliveredoffsets import DeliveredOffsets
from smartgo.store.timer.slotstorage import SlotStorage
from tests.fakes import FakeEnvironment

MIB = 1 << 20


class DeliveredOffsetsTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Few are kept in memory."""
        self.env = FakeEnvironment()
        self.env.files.make_directories("/store/timer")
        self.offsets = DeliveredOffsets(self.env.threads, SlotStorage(self.env.files, "/store"), 10)

    def add(self, *offsets: int) -> None:
        """Add some."""
        self.successResultOf(Deferred.fromCoroutine(self.offsets.add(offsets)))

    def among(self, *offsets: int) -> list[int]:
        """Return which are there."""
        return sorted(self.successResultOf(Deferred.fromCoroutine(self.offsets.among(offsets))))

    def test_many(self) -> None:
        """All are found that were added, in memory or in files; the files are gone afterwards."""
        chance = Random(2)
        delivered = chance.sample(range(0, 2000 * MIB, 1000), 300)
        for at in range(0, 300, 7):
            self.add(*delivered[at : at + 7])
        self.assertTrue(self.env.files.list("/store/timer"))
        asked = sorted({*chance.sample(delivered, 200), *chance.sample(range(1, 2000 * MIB, 1000), 200)})
        found = []
        for at in range(0, len(asked), 9):
            found += self.among(*asked[at : at + 9])
        self.assertEqual(found, sorted(set(asked) & set(delivered)))
        self.assertLess(len(self.env.files.list("/store/timer")), 3)

    def test_full_disk(self) -> None:
        """On a full disk all stay in memory, with one line in the log, and all are found, also those in files."""
        self.add(*range(0, 2000 * MIB, 100 * MIB))
        append = self.env.files.append

        def full(path: str, data: bytes) -> None:
            append(path, data[:3])
            raise OSError(errno.ENOSPC, "No space left on device", path)

        self.patch(self.env.files, "append", full)
        with capturedLogs() as logs:
            self.add(*range(1, 2000 * MIB, 100 * MIB))
            self.add(*range(2, 2000 * MIB, 100 * MIB))
        self.assertEqual(len([one for one in logs if "no room" in one["log_format"]]), 1)
        for at in range(0, 2000 * MIB, 100 * MIB):
            self.assertEqual(self.among(at, at + 1, at + 2, at + 3), [at, at + 1, at + 2])

    def test_broken_disk(self) -> None:
        """Another error than a full disk fails."""

        def broken(path: str, data: bytes) -> None:
            raise OSError(errno.EIO, "Input/output error", path)

        self.patch(self.env.files, "append", broken)
        self.failureResultOf(Deferred.fromCoroutine(self.offsets.add(range(0, 2000 * MIB, 100 * MIB))), OSError)

    def test_memory(self) -> None:
        """Not more is in memory than the limit, beside what is being looked up."""
        for number in range(1000):
            self.add(number * 1000)
            self.assertLessEqual(sum(map(len, self.offsets._pieces.values())), 11)

    def test_none(self) -> None:
        """Nothing is found where nothing was added, or nothing is asked for."""
        self.assertEqual(self.among(), [])
        self.assertEqual(self.among(5, 100 * MIB), [])
