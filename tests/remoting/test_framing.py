"""From a byte stream to frames."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadFrameLength
from smartgo.remoting.framing import LengthFieldDecoder

BODIES = [b"", b"a", b"bc" * 40, b"d" * 79, b""]


def frame(body: bytes) -> bytes:
    """One frame."""
    return struct.pack(">i", len(body)) + body


class ForeignTests(SynchronousTestCase):
    """Clients of other protocols."""

    def refused(self, data: bytes) -> str:
        """The sentence for what a connection begins with."""
        error = self.assertRaises(BadFrameLength, LengthFieldDecoder(limit=16 << 20, minimum=4).frames, data)
        return str(error)

    def test_named(self) -> None:
        """The error names the protocol that was spoken; other wrong lengths are numbers."""
        self.assertIn("an HTTP/2 or gRPC client called", self.refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        for begin in (
            b"GET / HTTP/1.1",
            b"POST /api",
            b"HEAD /",
            b"OPTIONS *",
            b"DELETE /x",
            b"PUT /x",
            b"CONNECT h:1",
        ):
            self.assertIn("an HTTP client called the remoting port", self.refused(begin), begin)
        self.assertIn("a client called this port by TLS", self.refused(b"\x16\x03\x01\x02\x00\x01"))
        self.assertEqual(self.refused(b"\x7f\x00\x00\x00"), "frame of 2130706432 B is outside 4..16777216 B")


class FramesTests(SynchronousTestCase):
    """All frames of a chunk at once."""

    def test_every_cut(self) -> None:
        """However the stream is cut in two, the same frames come out and nothing stays."""
        stream = b"".join(map(frame, BODIES))
        for cut in range(len(stream) + 1):
            decoder = LengthFieldDecoder(limit=80)
            got = decoder.frames(stream[:cut]) + decoder.frames(stream[cut:])
            self.assertEqual(got, BODIES, f"cut at {cut}")
            self.assertEqual(decoder.pending, 0)

    def test_every_two_cuts(self) -> None:
        """However the stream is cut in three, the same frames come out."""
        bodies = [b"xy", b"", b"z" * 9]
        stream = b"".join(map(frame, bodies))
        for first in range(len(stream) + 1):
            for second in range(first, len(stream) + 1):
                decoder = LengthFieldDecoder(limit=80)
                chunks = (stream[:first], stream[first:second], stream[second:])
                got = [body for chunk in chunks for body in decoder.frames(chunk)]
                self.assertEqual(got, bodies, f"cut at {first} and {second}")

    def test_random(self) -> None:
        """Random frames in random chunks come out as they went in, and what is unfinished is counted."""
        random = Random(20240501)
        for round_ in range(300):
            bodies = [random.randbytes(random.choice((0, 1, 3, 50, 3000))) for _ in range(random.randrange(1, 30))]
            stream = b"".join(map(frame, bodies))
            decoder = LengthFieldDecoder(limit=4000)
            got: list[bytes] = []
            at = 0
            while at < len(stream):
                size = random.choice((1, 2, 5, 100, 5000))
                got += decoder.frames(stream[at : at + size])
                at += size
                whole = sum(len(body) + 4 for body in got)
                self.assertEqual(decoder.pending, min(at, len(stream)) - whole)
            self.assertEqual(got, bodies, f"round {round_}")
            self.assertEqual(decoder.frames(b""), [])

    def test_pending(self) -> None:
        """An unfinished frame is counted with its length word, from its first byte on."""
        stream = frame(b"abc" * 20)
        decoder = LengthFieldDecoder(limit=80)
        for count in range(1, len(stream)):
            self.assertEqual(decoder.frames(stream[count - 1 : count]), [])
            self.assertEqual(decoder.pending, count)
        self.assertEqual(decoder.frames(stream[-1:]), [b"abc" * 20])
        self.assertEqual(decoder.pending, 0)

    def test_bounds(self) -> None:
        """Lengths at the bounds pass, those one beyond them and negative ones do not."""
        for length, good in ((3, False), (4, True), (80, True), (81, False), (-1, False), (-(2**31), False)):
            stream = struct.pack(">i", length) + bytes(max(0, length))
            decoder = LengthFieldDecoder(limit=80, minimum=4)
            if good:
                self.assertEqual(len(decoder.frames(stream)), 1)
                continue
            error = self.assertRaises(BadFrameLength, decoder.frames, stream)
            self.assertEqual((error.length, error.minimum, error.limit), (length, 4, 80))
            self.assertRaises(BadFrameLength, decoder.frames, b"")

    def test_broken_behind_whole(self) -> None:
        """Whole frames before a bad length are returned, the error is kept, and the next call raises it."""
        decoder = LengthFieldDecoder(limit=80)
        self.assertEqual(decoder.frames(frame(b"good") + struct.pack(">i", 81) + b"rest"), [b"good"])
        self.assertIsInstance(decoder.broken, BadFrameLength)
        self.assertRaises(BadFrameLength, decoder.frames, b"")
        self.assertRaises(BadFrameLength, decoder.frames, frame(b"more"))

    def test_nothing_reserved(self) -> None:
        """A length word that announces 16 MiB costs no memory before the bytes come."""
        decoder = LengthFieldDecoder(limit=1 << 24)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        decoder.frames(struct.pack(">i", 1 << 24) + b"x")
        self.assertLess(tracemalloc.get_traced_memory()[1], 10_000)

    def test_byte_by_byte(self) -> None:
        """A frame that comes in single bytes takes about as much memory as its bytes."""
        decoder = LengthFieldDecoder(limit=1 << 20)
        body = bytes(200_000)
        decoder.frames(struct.pack(">i", len(body)))
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for _ in range(len(body) - 1):
            decoder.frames(b"\0")
        self.assertLess(tracemalloc.get_traced_memory()[1], 2 * len(body))
        self.assertEqual(decoder.frames(b"\0"), [body])

    def test_returns_bytes(self) -> None:
        """A frame is bytes, whether it came in one chunk or in many."""
        stream = frame(b"abcdef")
        for size in (1, 3, 100):
            decoder = LengthFieldDecoder(limit=80)
            chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
            (got,) = [one for chunk in chunks for one in decoder.frames(chunk)]
            self.assertIs(type(got), bytes)
