"""Tests of L{smartgo.schema.batch}."""

from __future__ import annotations

import struct
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import MessageIllegal
from smartgo.schema.batch import COUNT_LIMIT, ITEM, decode_items, encode_items

FROM_SPEC = "0000002e 00000000 00000000 00000003 00000005 48656c6c6f 0013 57414954 01 74727565 02 54414753 01 54616741"
"""A batch item of the protocol page, produced with the official 4.9.8 client."""


class BatchTests(SynchronousTestCase):
    def test_vector(self) -> None:
        """The bytes of the official client."""
        item = (3, b"Hello", b"WAIT\x01true\x02TAGS\x01TagA")
        self.assertEqual(encode_items([item]), bytes.fromhex(FROM_SPEC))
        self.assertEqual(decode_items(bytes.fromhex(FROM_SPEC)), [item])

    def test_agrees_with_construct(self) -> None:
        """Random batches come back, and each item is what the schema says."""
        random = Random(9)
        for _ in range(100):
            items = [
                (
                    random.getrandbits(32) - (1 << 31),
                    random.randbytes(random.choice([0, 1, 200])),
                    random.randbytes(random.choice([0, 1, 60])),
                )
                for _ in range(random.randint(1, 9))
            ]
            raw = encode_items(items)
            self.assertEqual(decode_items(memoryview(raw)), items)
            at = 0
            for flag, body, properties in items:
                item = ITEM.parse(raw[at:])
                self.assertEqual((item.flag, item.body, item.properties), (flag, body, properties))
                at += item.size
            self.assertEqual(at, len(raw))

    def test_every_cut(self) -> None:
        """A batch that is cut anywhere but between messages is refused."""
        one = bytes.fromhex(FROM_SPEC)
        for cut in range(2 * len(one)):
            if cut == len(one):
                continue
            self.assertRaises(MessageIllegal, decode_items, (one * 2)[:cut])

    def test_sizes(self) -> None:
        """Sizes that do not add up are refused."""
        for at, code, good in ((0, ">i", 46), (16, ">i", 5), (25, ">h", 19)):
            for value in (good - 1, good + 1, 0, -1, 0x7FFF):
                broken = bytearray(bytes.fromhex(FROM_SPEC) * 3)
                struct.pack_into(code, broken, at, value)
                self.assertRaises(MessageIllegal, decode_items, bytes(broken))

    def test_limits(self) -> None:
        """A batch holds at most 4096 messages, or as many as the caller says."""
        one = encode_items([(0, b"", b"")])
        self.assertEqual(len(decode_items(one * COUNT_LIMIT)), 4096)
        self.assertRaises(MessageIllegal, decode_items, one * (COUNT_LIMIT + 1))
        self.assertRaises(MessageIllegal, decode_items, one * 3, 2)
        self.assertRaises(MessageIllegal, decode_items, b"")

    def test_refused(self) -> None:
        """What does not fit an item is not sent."""
        self.assertRaises(MessageIllegal, encode_items, [(0, b"", bytes(32768))])
        self.assertRaises(MessageIllegal, encode_items, [(1 << 31, b"", b"")])
