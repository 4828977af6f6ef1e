"""Tests of L{smartgo.schema.rows}."""

from __future__ import annotations

from construct import Bytes, Int8sb, Int16sb, Int32sb, Struct, this
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadRecord
from smartgo.schema.rows import RowCodec

SCHEMA = Struct(
    "kind" / Int8sb, "size" / Int32sb, "name" / Bytes(this.size), "extra" / Bytes(this.kind), "end" / Int16sb
)


class RowCodecTests(SynchronousTestCase):
    def setUp(self) -> None:
        """One record."""
        self.codec = RowCodec(SCHEMA)
        self.values = {"kind": 2, "size": 3, "name": b"abc", "extra": b"xy", "end": -2}

    def test_round_trip(self) -> None:
        """A record comes back with the place where it ends, and construct agrees."""
        raw = self.codec.pack(self.values)
        self.assertEqual(raw, SCHEMA.build(self.values))
        self.assertEqual(self.codec.unpack(b"__" + raw + b"__", 2), (self.values, 2 + len(raw)))
        self.assertEqual(self.codec.names, ("kind", "size", "name", "extra", "end"))

    def test_every_cut(self) -> None:
        """A record that is cut anywhere is refused."""
        raw = self.codec.pack(self.values)
        for cut in range(len(raw)):
            self.assertRaises(BadRecord, self.codec.unpack, memoryview(raw)[:cut])

    def test_negative(self) -> None:
        """A negative length is refused."""
        self.assertRaises(BadRecord, self.codec.unpack, b"\x02\xff\xff\xff\xff" + bytes(50))

    def test_disagreement(self) -> None:
        """A length that is not that of its field is not written, nor a number out of range."""
        for change in ({"size": 4}, {"name": b"ab"}, {"end": 1 << 15}):
            self.assertRaises(BadRecord, self.codec.pack, {**self.values, **change})
