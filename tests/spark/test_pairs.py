"""Tests of L{smartgo.spark.pairs}: the same as the store's own reading of properties."""

from __future__ import annotations

from random import Random

import numpy as np
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.properties import KEYS, TAGS, decode, find, split_keys
from smartgo.spark.pairs import Pairs
from tests import golden_store


def pairs_of(properties: list[bytes]) -> Pairs:
    """Pairs of properties that lie in a buffer, each behind its length as in a record."""
    data, begin, end = b"head", [], []
    for raw in properties:
        data += len(raw).to_bytes(2, "big")
        begin.append(len(data))
        data += raw
        end.append(len(data))
    return Pairs(memoryview(bytearray(data + b"tail")), np.array(begin), np.array(end))


class PairsTests(SynchronousTestCase):
    def assert_same(self, properties: list[bytes]) -> None:
        """Compare with the store's own reading."""
        expected = [decode(raw) for raw in properties]
        self.assertEqual([dict(row) for row in pairs_of(properties).as_map().to_pylist()], expected)
        self.assertEqual(
            [[name for name, _ in row] for row in pairs_of(properties).as_map().to_pylist()],
            [list(each) for each in expected],
        )
        for name in (TAGS, KEYS, "color", "no such"):
            self.assertEqual(pairs_of(properties).value(name).to_pylist(), [each.get(name) for each in expected])
        words = [split_keys(each.get(KEYS, "")) for each in expected]
        first, all_keys = pairs_of(properties).keys
        self.assertEqual(all_keys.to_pylist(), words)
        self.assertEqual(first.to_pylist(), [each[0] if each else None for each in words])

    def test_plain(self) -> None:
        """Well-formed properties, with and without a separator at the end, and none at all."""
        self.assert_same([b"TAGS\x01a\x02color\x01red", b"TAGS\x01b"])
        self.assert_same([b"TAGS\x01a\x02color\x01red\x02", b"", b"KEYS\x01one"])
        self.assert_same([b""])

    def test_odd(self) -> None:
        """Empty names and values, missing and doubled separators, a separator inside a value."""
        self.assert_same([b"\x01a", b"a\x01", b"TAGS", b"\x02\x02", b"\x01", b"color\x01a\x01b\x02TAGS\x01x"])

    def test_repeated(self) -> None:
        """Of a repeated name the last value counts, at the place of the first."""
        self.assert_same([b"WAIT\x01true\x02TAGS\x01a\x02WAIT\x01false", b"TAGS\x01c", b"TAGS\x01a\x02TAGS\x01b"])

    def test_keys(self) -> None:
        """Keys are words; blanks more or less do not count."""
        self.assert_same([b"KEYS\x01a b", b"KEYS\x01 a  b ", b"KEYS\x01 ", b"TAGS\x01x", b"KEYS\x01one"])

    def test_not_utf8(self) -> None:
        """What is not UTF-8 is replaced, what is stays; NUL is a character like others."""
        self.assert_same([b"TAGS\x01\xff\xfe", "TAGS\x01标签😀\x02color\x01ü".encode(), b"TAGS\x01a\0b\x02color\x01x"])
        self.assert_same([b"\0\x01\0\x02TAGS\x01\xff\0", b"\0"])

    def test_random(self) -> None:
        """Any bytes at all."""
        random = Random(5)
        for _ in range(60):
            alphabet = random.choice([b"\x01\x02aT", b"\x01\x02KEYS \x02\x01", b"\x00\x01\x02\xc3\xbca"])
            self.assert_same([bytes(random.choices(alphabet, k=random.randrange(30))) for _ in range(20)])

    def test_golden(self) -> None:
        """Properties as real clients send them."""
        stored = [each["stored"].encode() for each in golden_store.properties()]
        self.assert_same(stored)
        self.assertTrue(any(find(raw, TAGS) for raw in stored))
