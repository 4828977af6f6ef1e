"""What the compiled module of sends has besides the twins of classes in Python."""

from __future__ import annotations

import hashlib
import hmac
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


class SignatureTests(SynchronousTestCase):
    """SHA-1 and HMAC-SHA1."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def test_states(self) -> None:
        """Whole blocks lead to the same state by the processor's instructions and in plain C."""
        data = random.Random(2).randbytes(64 * 20)
        for count in range(21):
            plain = sends.sha1_state(data[: 64 * count], True)
            self.assertEqual(sends.sha1_state(data[: 64 * count]), plain, count)
        empty = b"\x80" + bytes(63)  # the one block of nothing, with its length
        for plain in (False, True):
            digest = b"".join(word.to_bytes(4, "big") for word in sends.sha1_state(empty, plain))
            self.assertEqual(digest.hex(), "da39a3ee5e6b4b0d3255bfef95601890afd80709")

    def test_rfc(self) -> None:
        """The test cases of RFC 2202."""
        for secret, text, digest in (
            (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
            (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
            (bytes(range(1, 26)), b"\xcd" * 50, "4c9007f4026250c6bc8414f9bf50c86c2d7235da"),
            (b"\x0c" * 20, b"Test With Truncation", "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"),
            (b"\xaa" * 80, b"Test Using Larger Than Block-Size Key - Hash Key First",
             "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
            (b"\xaa" * 80, b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
             "e8e99d0f45237d786d6bbaa7965c7808bbff1a91"),
        ):  # fmt: skip
            self.assertEqual(sends.hmac_sha1(secret, [text]).hex(), digest, text)

    def test_parts(self) -> None:
        """Parts of any sizes, cut anywhere, have the same HMAC as all in one; so have secrets of any size."""
        chance = random.Random(3)
        self.assertEqual(sends.hmac_sha1(b"", []), hmac.digest(b"", b"", hashlib.sha1))
        for size in [*range(200), 1023, 1024, 1280, 4097]:
            data, secret = chance.randbytes(size), chance.randbytes(chance.randrange(140))
            cuts = sorted(chance.randrange(size + 1) for _ in range(chance.randrange(20)))
            parts = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, size], strict=True)]
            self.assertEqual(sends.hmac_sha1(secret, parts), hmac.digest(secret, data, hashlib.sha1), size)
