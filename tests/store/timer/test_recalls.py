"""Tests of L{smartgo.store.timer.recalls}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.timer.recalls import WaitingRecalls


class RecallsTests(SynchronousTestCase):
    def test_repeated(self) -> None:
        """Several recalls of one message recall one, until the last of them is gone."""
        recalls = WaitingRecalls()
        for entry, key in ((b"a", 1), (b"b", 1), (b"c", 2)):
            recalls.add(entry, key)
        self.assertEqual((recalls.count, recalls.recalled), (3, 2))
        recalls.remove(b"a")  # the first: one that was written again came before it went
        self.assertEqual((recalls.count, recalls.recalled), (2, 2))
        recalls.remove(b"b")
        recalls.remove(b"c")
        self.assertEqual((recalls.count, recalls.recalled), (0, 0))

    def test_unknown(self) -> None:
        """One of a checkpoint, and one above the limit, counts as the recall of a message of its own."""
        recalls = WaitingRecalls(1)
        recalls.restore(2)
        for entry in (b"a", b"b"):
            recalls.add(entry, 1)
        self.assertEqual((recalls.count, recalls.recalled), (4, 4))
        for entry in (b"a", b"b", b"c", b"d"):
            recalls.remove(entry)
        self.assertEqual((recalls.count, recalls.recalled), (0, 0))
