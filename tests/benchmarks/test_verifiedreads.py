"""Tests for L{benchmarks.verifiedreads}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError
from benchmarks.verifiedreads import fill, opened, read


class VerifiedReadsTests(SynchronousTestCase):
    def test_waits(self) -> None:
        """Own messages are read at once; after the next start the first read of each region waits for its check."""
        root = self.mktemp()
        store = opened(root)
        fill(store, 1000, 1024)
        self.assertEqual(read(store, 1000).waited, 0)
        self.assertRaises(BenchmarkError, read, store, 1001)
        store.close()
        store = opened(root)
        self.addCleanup(store.close)
        first = read(store, 1000)
        self.assertGreaterEqual(first.waited, 4)  # regions of 256 KiB
        self.assertEqual(read(store, 1000).waited, 0)
