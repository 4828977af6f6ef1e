"""Requests recorded from packets, and who of a table got its codes."""

from __future__ import annotations

import json
import os
import struct
from collections import Counter

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.driven import kinds_of_ports, receivers
from tests.interop.recorder import Frames, Recording, Request, read_header

BROKER, CLIENT = 22002, 40000


def frame(code: int, flag: int = 0, language: str = "JAVA", body: bytes = b"") -> bytes:
    """Return a frame with a header in JSON."""
    header = json.dumps({"code": code, "flag": flag, "language": language}).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def packet(source: int, target: int, sequence: int, data: bytes, flags: int = 16) -> bytes:
    """Return an Ethernet packet with a segment of TCP."""
    tcp = struct.pack(">HHIIBBHHH", source, target, sequence, 0, 5 << 4, flags, 0, 0, 0)
    return bytes(12) + b"\x08\x00" + b"\x45" + bytes(19) + tcp + data


class FramesTests(SynchronousTestCase):
    """One direction of a connection."""

    def test_pieces(self) -> None:
        """A frame is read however it is cut, once, when the segment comes again, and behind a gap the next one."""
        data = frame(10) + frame(11, body=b"x" * 5)
        frames = Frames()
        self.assertEqual(list(frames.take(99, b"", True)), [])
        got: list[tuple[int, bytes]] = []
        for at in range(len(data)):
            for _ in range(2):
                got += frames.take(100 + at, data[at : at + 1], False)
        self.assertEqual([read_header(*one) for one in got], [(10, "JAVA"), (11, "JAVA")])
        lost = frame(12)
        got = [*frames.take(100 + len(data), lost[:20], False), *frames.take(900, frame(13), False)]
        self.assertEqual([read_header(*one) for one in got], [(13, "JAVA")])

    def test_sequence_ends(self) -> None:
        """Sequence numbers begin again behind the highest."""
        data, frames = frame(10), Frames()
        list(frames.take(0xFFFFFFF0, b"", True))
        got = [*frames.take(0xFFFFFFF1, data[:30], False), *frames.take(15, data[30:], False)]
        self.assertEqual([read_header(*one) for one in got], [(10, "JAVA")])

    def test_other_protocol(self) -> None:
        """Bytes of another protocol are nothing."""
        self.assertEqual(list(Frames().take(1, b"GET / HTTP/1.1\r\n\r\n", False)), [])

    def test_headers(self) -> None:
        """Headers in binary are read as those in JSON; answers and nonsense are nothing."""
        binary = struct.pack(">hBhii", 310, 0, 401, 7, 0)
        self.assertEqual(read_header(1, binary), (310, "JAVA"))
        self.assertIsNone(read_header(1, struct.pack(">hBhii", 0, 0, 401, 7, 1)))
        self.assertIsNone(read_header(1, b"short"))
        self.assertIsNone(read_header(0, b"{}"))
        self.assertIsNone(read_header(0, b'{"code":'))


class RecordingTests(SynchronousTestCase):
    """All connections, and what is made of them."""

    def test_ways(self) -> None:
        """Requests are counted by the port that listens, those of clients and those of the broker."""
        recording = Recording(22000, 22199)
        recording.take(packet(CLIENT, BROKER, 0, b"", flags=2))
        recording.take(packet(CLIENT, BROKER, 1, frame(34)))
        recording.take(packet(CLIENT, BROKER, 1, b""))
        recording.take(packet(BROKER, CLIENT, 1, frame(0, flag=1) + frame(40, language="PYTHON")))
        wanted = {Request(34, "JAVA", BROKER, False): 1, Request(40, "PYTHON", BROKER, True): 1}
        self.assertEqual(recording.seen, wanted)

    def test_receivers(self) -> None:
        """A code counts where a Java program sent it to ours, on either port, and where a broker asked a client."""
        folder: str = self.mktemp()
        os.makedirs(folder)
        for name in ("smartgo-broker-22002", "smartgo-registry-22004", "rocketmq-broker-22007", "java-4.9-json"):
            with open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8"):
                pass
        ports = kinds_of_ports(folder)
        for request, got in (
            (Request(34, "JAVA", 22002, False), {"broker"}),
            (Request(34, "JAVA", 22000, False), {"broker"}),
            (Request(34, "JAVA", 22004, False), {"registry"}),
            (Request(34, "PYTHON", 22002, False), set()),
            (Request(34, "JAVA", 22007, False), set()),
            (Request(34, "JAVA", 22100, False), set()),
            (Request(35, "JAVA", 22002, False), set()),
            (Request(34, "JAVA", 22007, True), {"client"}),
        ):
            self.assertEqual(receivers(34, Counter([request]), ports), got, request)
