"""Tests of L{smartgo.store.index.runkeys}: all that holds for L{smartgo.schema.indexkeys.keys_in} holds here."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED
from smartgo.schema.indexkeys import record_starts
from smartgo.store.index import runkeys
from smartgo.store.index.runkeys import index_keys, keys_of_run
from tests.schema import test_indexkeys
from tests.schema.test_indexkeys import BASE, V6, expected, listed, stored

RAW = b"UNIQ_KEY\x01u%d\x02KEYS\x01k l"


class RunKeysTests(test_indexkeys.KeysTests):
    """With numpy, where it is installed."""

    def setUp(self) -> None:
        """Find keys by runs in every test."""
        self.patch(test_indexkeys, "keys_in", keys_of_run)


class ListedRunKeysTests(RunKeysTests):
    """Without numpy."""

    def setUp(self) -> None:
        """Hide it."""
        super().setUp()
        self.patch(runkeys, "numpy_or_none", lambda: None)


class CompiledTests(SynchronousTestCase):
    """What is left to Python, and what is not."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def test_taken(self) -> None:
        """All plain records are taken, IPv6 hosts too, whether of one size or of several."""
        for changes in ({}, {"born_host": V6}, {"store_host": V6}, {"body": b"b"}):
            data = stored(*[RAW % number for number in range(100)], **changes)
            starts, _ = record_starts(data, 0, 1 << 30)
            self.assertEqual(index_keys(data, starts, BASE)[3], 100)
            self.assertEqual(listed(keys_of_run(data, starts, BASE)), expected(data, starts, BASE))

    def test_not_taken(self) -> None:
        """The first record that is out of the ordinary, and those behind it, are left to Python."""
        for odd in (b"KEYS\x01\xc3\xa4", b"KEYS\x01" + b"k " * 81, b"UNIQ_KEY\x01\xff"):
            data = stored(RAW % 1, RAW % 2, odd, RAW % 3)
            starts, _ = record_starts(data, 0, 1 << 30)
            hashes, offsets, times, done = index_keys(data, starts, BASE)
            self.assertEqual((len(hashes), len(offsets), len(times), done), (6 * 4, 6 * 8, 6 * 8, 2))
            self.assertEqual(listed(keys_of_run(data, starts, BASE)), expected(data, starts, BASE))
        data = stored(b"KEYS\x01" + b"k " * 80)
        self.assertEqual(index_keys(data, [0], BASE)[3], 1)

    def test_many(self) -> None:
        """However many keys the records have, each has its own."""
        data = stored(*[b"KEYS\x01" + b"k " * 70] * 50)
        starts, _ = record_starts(data, 0, 1 << 30)
        self.assertEqual(listed(keys_of_run(data, starts, BASE)), expected(data, starts, BASE))

    def test_cut(self) -> None:
        """A record that does not lie within the view is not taken, nor is one whose lengths do not add up."""
        data = stored(RAW % 1)
        for size in range(len(data)):
            self.assertEqual(index_keys(data[:size], [0], BASE)[3], 0)
        for start in (-1, 1, len(data), len(data) + 1, 1 << 40):
            self.assertEqual(index_keys(data, [start], BASE)[3], 0)
        for at in (0, 4, 84, len(data) - 28):
            for byte in (0x7F, 0x80, 0xFF):
                self.assertIn(index_keys(data[:at] + bytes([byte]) + data[at + 1 :], [0], BASE)[3], (0, 1))
