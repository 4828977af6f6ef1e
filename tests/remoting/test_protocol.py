"""Bytes from outside: whatever they are, they end one connection at most."""

from __future__ import annotations

import json
import os
import struct
from random import Random
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import Command, encode
from tests.remoting.doubles import ECHO, Accepted, Doing, echo, request, sweeper_of

KIB, MIB = 1 << 10, 1 << 20
WIRE = os.path.join(os.path.dirname(__file__), os.pardir, "golden", "wire")


def framed(word: int, rest: bytes, length: int | None = None) -> bytes:
    """A frame with any header word and length."""
    size = 4 + len(rest) if length is None else length
    return struct.pack(">iI", size, word & 0xFFFFFFFF) + rest


def with_json(header: bytes, body: bytes = b"") -> bytes:
    """A frame with a JSON header."""
    return framed(len(header), header + body)


class StreamTests(SynchronousTestCase):
    """A whole connection, cut in all ways."""

    def test_every_cut(self) -> None:
        """However the bytes of three requests arrive, the same answers leave."""
        stream = b"".join(encode(request(ECHO, number, b"body" * number)) for number in range(3))
        for cut in range(len(stream) + 1):
            accepted = Accepted([echo()])
            accepted.protocol.dataReceived(stream[:cut])
            accepted.protocol.dataReceived(stream[cut:])
            self.assertEqual([answer.opaque for answer in accepted.answers()], [0, 1, 2], f"cut at {cut}")

    def test_byte_by_byte(self) -> None:
        """Single bytes do too."""
        accepted = Accepted([echo()])
        for byte in encode(request(ECHO, 1, b"x" * 50)) * 2:
            accepted.protocol.dataReceived(bytes([byte]))
        self.assertEqual(len(accepted.answers()), 2)

    def test_longest(self) -> None:
        """A frame of 16 MiB is taken, one byte more ends the connection (L1)."""
        accepted = Accepted([Doing(ECHO, lambda _, asked: asked.answer(body=b"%d" % len(asked.body)))])
        header = encode(request(ECHO, 1))[8:]
        body = bytes(16 * MIB - 4 - len(header))
        accepted.protocol.dataReceived(framed(len(header), header + body))
        self.assertEqual(accepted.answers()[0].body, b"%d" % len(body))
        accepted.protocol.dataReceived(framed(len(header), header, length=16 * MIB + 1))
        self.assertFalse(accepted.connection.open)

    def test_header_limit(self) -> None:
        """A header beyond 256 KiB, or longer than its frame, ends the connection (L2)."""
        for word, rest in ((256 * KIB + 1, bytes(300 * KIB)), (100, bytes(99)), (0x02000000, b"")):
            accepted = Accepted([echo()])
            accepted.protocol.dataReceived(framed(word, rest))
            self.assertFalse(accepted.connection.open, f"{word:#x}")
            self.assertEqual(accepted.counts.broken, 1)

    def test_nothing_after_the_end(self) -> None:
        """What follows a broken frame is not looked at."""
        processor = echo()
        accepted = Accepted([processor])
        accepted.protocol.dataReceived(b"\0\0\0\0" + encode(request()))
        accepted.protocol.dataReceived(encode(request()))
        self.assertEqual(processor.seen, [])

    def test_one_line_a_minute(self) -> None:
        """Broken streams are counted each, and logged once a minute and address (L1)."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        with capturedLogs() as logs:
            broken = [Accepted(clock=clock, sweeper=sweeper) for _ in range(20)]
            for one in broken:
                one.protocol.dataReceived(b"\xff\xff\xff\xff")
        lines = [one for one in logs if one.get("log_format") == "closing {peer}: {error}"]
        self.assertEqual((len(lines), sum(one.counts.broken for one in broken)), (1, 20))


class RecordedTests(SynchronousTestCase):
    """Frames of official clients, see C{tests/golden/wire/README.md}."""

    def test_clients(self) -> None:
        """Every recorded request, JSON and binary, is answered once, by number and encoding; one-way ones never."""
        for name in ("client-4.9-json", "client-4.9-binary", "client-5.3-json", "client-5.3-binary"):
            with open(os.path.join(WIRE, f"{name}.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            asked = [
                (one["header"]["opaque"], int(one["serialize"] != "JSON"), one["kind"], bytes.fromhex(one["hex"]))
                for one in lines
                if one["dir"] == "client->server" and one["channel"] != "ha" and "note" not in one
            ]
            self.assertGreater(len(asked), 50)
            accepted = Accepted()
            accepted.protocol.dataReceived(b"".join(data for *_, data in asked))
            accepted.turns()
            self.assertEqual(
                [(answer.opaque, answer.encoding, answer.code) for answer in accepted.answers()],
                [(opaque, encoding, 3) for opaque, encoding, kind, _ in asked if kind == "request"],
            )
            responses = sum(kind == "response" for _, _, kind, _ in asked)
            self.assertEqual((accepted.counts.unasked, accepted.counts.unreadable), (responses, 0))


class RubbishTests(SynchronousTestCase):
    """Seeded rubbish, with another connection's traffic going on."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.sweeper = sweeper_of(self.clock)
        self.good = Accepted([echo()], clock=self.clock, sweeper=self.sweeper)
        self.turns = 0

    def feed(self, random: Random, data: bytes) -> Accepted:
        """Let a connection of its own have this, in pieces; the good one is served in between."""
        bad = Accepted([echo(), Doing(310, lambda *_: None)], clock=self.clock, sweeper=self.sweeper)
        at = 0
        while at < len(data):
            size = random.choice((1, 3, 100, 70_000))
            bad.protocol.dataReceived(data[at : at + size])
            at += size
            if bad.wire.disconnecting:
                break
        self.turns += 1
        self.good.hear(request(ECHO, self.turns))
        self.clock.advance(0)
        self.assertEqual([answer.opaque for answer in self.good.answers()], [self.turns])
        self.assertEqual(self.flushLoggedErrors(), [], data[:200])
        self.assertEqual(bad.connection.open, not bad.wire.disconnecting)
        for answer in bad.answers():
            self.assertTrue(answer.is_response)
        bad.protocol.connectionLost(Failure(ConnectionDone()))
        self.clock.advance(0)
        return bad

    def tearDown(self) -> None:
        self.good.connection.link.abort()
        self.good.protocol.connectionLost(Failure(ConnectionDone()))
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_random_bytes(self) -> None:
        """2,000 streams of random bytes."""
        random = Random(1)
        for _ in range(2000):
            self.feed(random, random.randbytes(random.randrange(1, 300)))

    def test_random_frames(self) -> None:
        """2,000 frames whose lengths are right and whose content is random, in both encodings."""
        random = Random(2)
        for _ in range(2000):
            header = random.randbytes(random.randrange(80))
            self.feed(random, framed(random.randrange(2) << 24 | len(header), header + random.randbytes(20)))

    def test_flipped(self) -> None:
        """3,000 good frames with some bytes changed, in both encodings."""
        random = Random(3)
        fields = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "m": "false"}
        frames = []
        for encoding in (0, 1):
            for code in (ECHO, 310):
                command = Command.request(code, body=b"hello", fields=fields)
                command.encoding = encoding
                frames.append(encode(command))
        for _ in range(3000):
            data = bytearray(random.choice(frames) * 2)
            for _ in range(random.randrange(1, 4)):
                data[random.randrange(len(data))] = random.randrange(256)
            self.feed(random, bytes(data))

    def test_truncated(self) -> None:
        """Every beginning of a good frame, in both encodings, and then the end of the connection."""
        random = Random(4)
        for encoding in (0, 1):
            command = Command.request(ECHO, body=b"hello", fields={"topic": "T", "queueId": "0"})
            command.encoding = encoding
            frame = encode(command)
            for size in range(1, len(frame)):
                self.assertEqual(self.feed(random, frame[:size]).hearing.events, ["active", "disconnected"])

    def test_shortened(self) -> None:
        """Every beginning of a header, in a frame and with a header word that fit it."""
        random = Random(5)
        for encoding in (0, 1):
            command = Command.request(310, fields={"a": "PG", "b": "T", "i": "x\x01y"})
            command.encoding = encoding
            header = encode(command)[8:]
            for size in range(len(header)):
                self.feed(random, framed(encoding << 24 | size, header[:size]))

    def test_bad_json(self) -> None:
        """JSON that is no header, not JSON, too deep, too many, of wrong types, duplicate, or not UTF-8."""
        random = Random(6)
        deep = b"[" * 100_000 + b"]" * 100_000
        values: list[Any] = [None, True, -1, 1.5, 1e300, "", "x", "9" * 30, [], [1], {}, {"a": {"b": 1}}, 1 << 70]
        headers = [
            b"", b"null", b"[]", b"5", b'"x"', b"{}", b"{,}", b'{"code":901', b'{"code":901}}', deep, deep[:100_000],
            b'{"code":901,"extFields":' + deep + b"}", b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b"\xef\xbb\xbf{}",
            b'{"code":901,"opaque":1,"remark":"\xff\xfe"}', b'{"code":901,"opaque":1,"remark":"\\ud800"}',
            b'{"code":NaN}', b'{"code":Infinity}', b'{"code":901,"code":902,"opaque":1,"opaque":2}', b"\0" * 100,
            json.dumps({"code": 901, "opaque": 3, "extFields": {str(n): "v" for n in range(200)}}).encode(),
            b'{"code":901,"opaque":4,"extFields":{0:"a",{"x":1}:"b"}}', b"{" + b" " * 200_000 + b"}",
        ]  # fmt: skip
        for name in ("code", "opaque", "flag", "version", "language", "remark", "extFields", "other"):
            for value in values:
                base = {"code": ECHO, "opaque": 1, "flag": 0, "language": "JAVA", "version": 409}
                headers.append(json.dumps(base | {name: value}).encode())
        for header in headers:
            self.feed(random, with_json(header, b"body"))

    def test_hostile_numbers(self) -> None:
        """Opaques and codes at and beyond the bounds of their types are answered with what was sent, or refused."""
        for opaque in (0, -1, 2**31 - 1, -(2**31)):
            bad = Accepted([echo()])
            bad.hear(request(ECHO, opaque))
            self.assertEqual([answer.opaque for answer in bad.answers()], [opaque])
        for opaque in (2**31, -(2**31) - 1, 2**63, 2**64):
            bad = Accepted([echo()])
            bad.protocol.dataReceived(with_json(b'{"code":901,"opaque":%d}' % opaque))
            self.assertEqual([answer.code for answer in bad.answers() if answer.code != 1], [])
