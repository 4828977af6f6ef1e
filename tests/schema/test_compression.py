"""Tests of L{smartgo.schema.compression}."""

from __future__ import annotations

import tracemalloc
import zlib
from random import Random

import lz4.frame
import zstandard
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadCompression, BodyTooLong
from smartgo.schema.compression import (
    LZ4,
    ZLIB,
    ZSTD,
    Compressor,
    beginning,
    compress_body,
    compressor,
    decompress_body,
    pieces,
)
from smartgo.schema.message import COMPRESSED

METHODS = (0, LZ4, ZSTD, ZLIB)


def zeros(method: int, size: int) -> bytes:
    """That many zero bytes, as the method packs them, piece by piece and with no length in front."""
    piece = bytes(1 << 20)
    if method == LZ4:
        stream = lz4.frame.LZ4FrameCompressor()
        return bytes(stream.begin() + b"".join(stream.compress(piece) for _ in range(size >> 20)) + stream.flush())
    packer = zstandard.ZstdCompressor().compressobj() if method == ZSTD else zlib.compressobj()
    return b"".join(packer.compress(piece) for _ in range(size >> 20)) + packer.flush()


class CompressorTests(SynchronousTestCase):
    def test_methods(self) -> None:
        """Every method is there; bits 0x000 and 0x300 both mean zlib, other bits do not matter."""
        for method in METHODS:
            self.assertIsInstance(compressor(method), Compressor)
        self.assertEqual([compressor(one).flag for one in METHODS], [ZLIB, LZ4, ZSTD, ZLIB])
        self.assertEqual(compressor(0x8F | ZSTD).flag, ZSTD)

    def test_round_trip(self) -> None:
        """What a method packs it unpacks, empty bodies too, at any level."""
        random = Random(7)
        for body in (b"", b"x", b"hello " * 5000, random.randbytes(70_000)):
            for method in METHODS:
                for level in (1, 5, 9):
                    packed = compressor(method).compress(body, level)
                    self.assertEqual(compressor(method).decompress(packed, len(body)), body)

    def test_foreign_zlib(self) -> None:
        """The zlib form is RFC 1950 and begins with 0x78, as Java's Deflater writes and its Inflater expects."""
        packed = compressor(0).compress(b"hello " * 1000, 5)
        self.assertEqual(packed[0], 0x78)
        self.assertEqual(zlib.decompress(packed), b"hello " * 1000)

    def test_streamed(self) -> None:
        """Streams that do not announce their length, as Java writes them, are unpacked."""
        for method in METHODS:
            self.assertEqual(compressor(method).decompress(zeros(method, 1 << 20), 1 << 20), bytes(1 << 20))

    def test_limit(self) -> None:
        """A body of exactly the limit is returned, one byte more is too long."""
        body = Random(8).randbytes(5000)
        for method in METHODS:
            packed = compressor(method).compress(body, 5)
            self.assertEqual(compressor(method).decompress(packed, 5000), body)
            error = self.assertRaises(BodyTooLong, compressor(method).decompress, packed, 4999)
            self.assertEqual(error.limit, 4999)

    def test_bomb(self) -> None:
        """200 MiB of zeros are refused at a limit of 1 MiB without being unpacked first (reliability L7)."""
        for method in METHODS:
            packed = zeros(method, 200 << 20)
            self.assertLess(len(packed), 2 << 20)
            tracemalloc.start()
            try:
                self.assertRaises(BodyTooLong, compressor(method).decompress, packed, 1 << 20)
                self.assertLess(tracemalloc.get_traced_memory()[1], 12 << 20, f"method {method:#x}")
            finally:
                tracemalloc.stop()

    def test_announced_bomb(self) -> None:
        """A zstd frame that announces more than the limit is refused by its header alone."""
        packed = zstandard.ZstdCompressor().compress(bytes(3 << 20))
        self.assertRaises(BodyTooLong, compressor(ZSTD).decompress, packed[:20], 1 << 20)

    def test_window(self) -> None:
        """A zstd frame that wants more memory for its window than a body may have is refused."""
        parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        packed = packer.compress(b"x" * 100_000) + packer.flush()
        self.assertRaises(BadCompression, compressor(ZSTD).decompress, packed, 1 << 20)

    def test_cut_short(self) -> None:
        """Every proper beginning of a packed body is refused, never taken for a shorter body."""
        for method in METHODS:
            for packed in (compressor(method).compress(b"hello world " * 10, 5), zeros(method, 1 << 20)[:200]):
                for size in range(min(len(packed), 100)):
                    self.assertRaises(BadCompression, compressor(method).decompress, packed[:size], 1 << 20)

    def test_rubbish(self) -> None:
        """Random bytes, and packed bodies with a flipped bit, raise the two errors promised or unpack; nothing else."""
        random = Random(9)
        good = [(one, compressor(one).compress(b"hello world " * 20, 5)) for one in METHODS]
        for _ in range(3000):
            method, packed = random.choice(good)
            if random.random() < 0.5:
                data = random.randbytes(random.randrange(60))
            else:
                at = random.randrange(len(packed))
                data = packed[:at] + bytes([packed[at] ^ (1 << random.randrange(8))]) + packed[at + 1 :]
            try:
                self.assertLessEqual(len(compressor(method).decompress(data, 1000)), 1000)
            except (BadCompression, BodyTooLong):
                pass

    def test_unknown(self) -> None:
        """The methods 4 to 7 are unknown."""
        for method in (0x400, 0x500, 0x600, 0x700):
            self.assertRaises(BadCompression, compressor, method)

    def test_bytes_behind(self) -> None:
        """Bytes behind the end of a stream are ignored, as Java ignores them."""
        for method in METHODS:
            packed = compressor(method).compress(b"hello", 5)
            self.assertEqual(compressor(method).decompress(packed + b"behind", 100), b"hello")


class PieceTests(SynchronousTestCase):
    def test_pieces(self) -> None:
        """A body comes out piece by piece, whatever the size of the pieces, and its beginning alone where wanted."""
        plain = Random(5).randbytes(300_000) + bytes(200_000) + b"end"
        for method in METHODS:
            packed, flag = compress_body(plain, 0, method or ZLIB)
            flag = flag & ~0x700 | method
            for size in (1000, 65536, 1 << 20):
                found = list(pieces(packed, flag, size))
                self.assertEqual(b"".join(found), plain)
                self.assertLessEqual(max(map(len, found)), size)
                self.assertEqual(beginning(packed, flag, size), plain[:size])
        self.assertEqual((b"".join(pieces(plain, 0, 1000)), beginning(plain, 0, 10)), (plain, plain[:10]))

    def test_bad(self) -> None:
        """What is no such stream is refused; one that is cut short ends early."""
        for method in METHODS:
            with self.assertRaises(BadCompression):
                list(pieces(b"no stream at all", COMPRESSED | method))
            packed = compressor(method).compress(Random(6).randbytes(100_000), 5)
            self.assertLess(len(b"".join(pieces(packed[:-50_000], COMPRESSED | method))), 100_000)
        with self.assertRaises(BadCompression):
            list(pieces(b"x", COMPRESSED | 0x400))


class BodyTests(SynchronousTestCase):
    """A message body and its sys flag."""

    def test_threshold(self) -> None:
        """Bodies shorter than the threshold stay as they are."""
        self.assertEqual(compress_body(b"a" * 4095, 0), (b"a" * 4095, 0))
        body, flag = compress_body(b"a" * 4096, 0)
        self.assertLess(len(body), 100)
        self.assertEqual(flag, 1 | ZLIB)
        self.assertEqual(compress_body(b"a" * 100, 0, threshold=100)[1] & 1, 1)

    def test_flag(self) -> None:
        """The method is named in the flag, other bits stay, and the body comes back."""
        for method in (LZ4, ZSTD, ZLIB):
            body, flag = compress_body(b"a" * 5000, 0x4 | 0x10 | 0x700, method=method)
            self.assertEqual(flag, 0x4 | 0x10 | 0x1 | method)
            self.assertEqual(decompress_body(body, flag), b"a" * 5000)

    def test_not_twice(self) -> None:
        """A body that is compressed already is left alone, and a plain one is returned as it is."""
        self.assertEqual(compress_body(b"a" * 5000, 1), (b"a" * 5000, 1))
        self.assertEqual(decompress_body(b"plain", ZSTD), b"plain")

    def test_not_longer(self) -> None:
        """A body that would not become shorter is left alone."""
        body = Random(10).randbytes(5000)
        self.assertEqual(compress_body(body, 0x4), (body, 0x4))

    def test_limit(self) -> None:
        """The limit is passed on."""
        body, flag = compress_body(b"a" * 5000, 0)
        self.assertRaises(BodyTooLong, decompress_body, body, flag, 4999)
