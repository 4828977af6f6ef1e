"""Tests of L{smartgo.schema.consumequeue}."""

from __future__ import annotations

import struct
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.consumequeue import (
    EXTENSION_HEAD,
    EXTENSION_UNIT,
    PREFILL,
    UNIT,
    UNIT_SIZE,
    Unit,
    extension_address,
    extension_offset,
    unit_struct,
)
from tests import golden_store
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="smartgo.schema.consumequeue"):
    """The examples in its docstrings."""


class UnitTests(SynchronousTestCase):
    def test_size(self) -> None:
        """A unit has 20 bytes."""
        self.assertEqual((UNIT_SIZE, unit_struct.size), (20, 20))

    def test_both_readers(self) -> None:
        """Schema and packer agree on random values, anywhere in a buffer."""
        random = Random(1)
        for _ in range(200):
            unit = Unit(random.getrandbits(62), random.getrandbits(31), random.getrandbits(64) - (1 << 63))
            raw = unit.pack()
            self.assertEqual(UNIT.build(unit._asdict()), raw)
            read = UNIT.parse(raw)
            self.assertEqual((read.commitlog_offset, read.size, read.tag_hash), unit)
            self.assertEqual(Unit.unpack(memoryview(b"xyz" + raw), 3), unit)

    def test_short(self) -> None:
        """A unit that is cut anywhere cannot be read."""
        raw = PREFILL.pack()
        for cut in range(UNIT_SIZE):
            self.assertRaises(struct.error, Unit.unpack, raw[:cut])

    def test_golden(self) -> None:
        """Every unit of both real stores is read by schema and packer alike, as the official decoder read it."""
        for name in golden_store.NAMES:
            store = golden_store.read(name)
            found: dict[tuple[str, int], list[tuple[int, ...]]] = {}
            for topic, queue_id, _, data in store.queues():
                self.assertEqual(len(data), golden_store.QUEUE_SIZE)
                units = found.setdefault((topic, queue_id), [])
                for at in range(0, len(data), UNIT_SIZE):
                    unit = Unit.unpack(data, at)
                    parsed = UNIT.parse(data[at : at + UNIT_SIZE])
                    self.assertEqual((parsed.commitlog_offset, parsed.size, parsed.tag_hash), unit)
                    self.assertEqual(unit.pack(), data[at : at + UNIT_SIZE])
                    if unit.size:
                        units.append(tuple(unit))
            expected = {
                (queue["topic"], queue["queueId"]): [tuple(unit) for unit in queue["units"]]
                for queue in store.manifest["consumeQueues"]
            }
            self.assertEqual(found, expected)
            self.assertGreater(sum(map(len, found.values())), 600)


class ExtensionTests(SynchronousTestCase):
    def test_layout(self) -> None:
        """An extension unit is a head of 20 bytes and its bitmap."""
        self.assertEqual(EXTENSION_HEAD.sizeof(), 20)
        raw = EXTENSION_UNIT.build({"size": 24, "tag_hash": 5, "stored_ms": 6, "bitmap_size": 4, "bitmap": b"\1\2\3\4"})
        self.assertEqual(raw, struct.pack(">hqqh4s", 24, 5, 6, 4, b"\1\2\3\4"))

    def test_addresses(self) -> None:
        """An address is told from a hash by its value, whatever the 32-bit hash."""
        for offset in (0, 20, 1 << 40):
            self.assertEqual(extension_offset(extension_address(offset)), offset)
        for code in (-(2**31), -1, 0, 2**31 - 1, 1_700_000_000_000):
            self.assertIsNone(extension_offset(code))
        self.assertIsNotNone(extension_offset(-(2**31) - 1))
