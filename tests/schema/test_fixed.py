"""Tests of L{smartgo.schema.fixed}."""

from __future__ import annotations

from construct import (
    Array,
    Bytes,
    Enum,
    IfThenElse,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32sl,
    Int64sb,
    Int64ub,
    Struct,
    this,
)
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.fixed import fixed, flatten

VARIANT = Struct(
    "kind" / Int8sb,
    "host" / Bytes(this.kind * 4),
    "wide" / IfThenElse(this.kind == 2, Int64sb, Int32sb),
    "size" / Int16sb,
    "tail" / Bytes(this.size),
)


class FixedTests(SynchronousTestCase):
    def test_numbers(self) -> None:
        """Big-endian numbers and byte strings become their struct codes, without padding."""
        schema = Struct("a" / Int8sb, "b" / Int64ub, "c" / Bytes(3), "d" / Int16sb)
        packer = fixed(schema)
        self.assertEqual((packer.format, packer.size), (">bQ3sh", schema.sizeof()))

    def test_nested(self) -> None:
        """Fields of a nested structure stand in place, named through it."""
        schema = Struct("head" / Struct("a" / Int8sb, "b" / Int8sb), "c" / Int32sb)
        self.assertEqual([field.name for field in flatten(schema)], ["head.a", "head.b", "c"])
        self.assertEqual(fixed(schema).format, ">bbi")

    def test_agrees_with_construct(self) -> None:
        """What the packer writes, construct reads back."""
        schema = Struct("a" / Int8sb, "b" / Int64sb, "c" / Bytes(4))
        raw = fixed(schema).pack(-5, 1 << 40, b"four")
        read = schema.parse(raw)
        self.assertEqual((read.a, read.b, read.c), (-5, 1 << 40, b"four"))
        self.assertEqual(schema.build(read), raw)

    def test_variable(self) -> None:
        """A field whose length another field gives cannot be packed as fixed, and is named."""
        with self.assertRaisesRegex(ValueError, "tail has no fixed size"):
            fixed(VARIANT, {"kind": 2})
        with self.assertRaisesRegex(ValueError, "wide depends on 'kind'"):
            flatten(VARIANT)

    def test_known(self) -> None:
        """A value given beforehand fixes the lengths and choices that depend on it, and no others."""
        codes = [field.code for field in flatten(VARIANT, {"kind": 2})]
        self.assertEqual(codes, ["b", "8s", "q", "h", ""])
        self.assertEqual(flatten(VARIANT, {"kind": 1})[2].code, "i")
        length = flatten(VARIANT, {"kind": 1})[-1].length
        self.assertEqual(length and length({"size": 7}), 7)

    def test_foreign(self) -> None:
        """What has no place in a plain record is refused."""
        for bad in ("a" / Int32sl, "a" / Array(2, Int8sb), "a" / Enum(Int8sb, one=1)):
            self.assertRaises(ValueError, fixed, Struct(bad))
