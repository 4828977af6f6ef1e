"""What the compiled module of sends has besides the twins of classes in Python."""

from __future__ import annotations

import random
import zlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED

sends: Any = None
if IS_COMPILED:
    from smartgo._core import sends


class CrcTests(SynchronousTestCase):
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def test_all_sizes(self) -> None:
        """The CRC is zlib's for every size around the steps of its loops, with the instruction and without it."""
        data = random.Random(1).randbytes(5000)
        for size in [*range(400), 1023, 1024, 1025, 4096, 4999]:
            for begin in (0, 1, 7):
                part = data[begin : begin + size]
                self.assertEqual(sends.crc32(part), zlib.crc32(part), size)
                self.assertEqual(sends.crc32(part, True), zlib.crc32(part), size)

    def test_patterns(self) -> None:
        """Bytes of one bit each, alone among zeros, have zlib's CRC."""
        for at in range(0, 300, 7):
            for bit in range(8):
                part = bytes(at) + bytes([1 << bit]) + bytes(299 - at)
                self.assertEqual(sends.crc32(part), zlib.crc32(part))
