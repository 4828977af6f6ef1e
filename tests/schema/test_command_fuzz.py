"""Frames, headers and bodies that nobody should send."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadBody, BadHeader, FramingError
from smartgo.schema import bodies
from smartgo.schema.bodies import Body, RegisterBrokerBody
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandlayout import BINARY, JSON
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendRequest
from tests.schema.golden_wire import recorded
from tests.schema.test_command import SEND, frame_of, said
from tests.schema.test_headers import header_types

PIECES = (
    b"",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"NaN",
    b"-",
    b"1.0",
    b"1e3",
    b"1e999",
    b"9" * 19,
    b"9" * 20,
    b"9" * 5000,
    b"-9223372036854775809",
    b'"\\ud800"',
    b"\xff",
    b"\0",
    b"\x01",
    b"\xe4\xb8\xad",
    b'"extFields":{',
    b'"code":310,',
    b"{" * 40,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"0:",
    b"{{}:",
    b'"\\"' * 50,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
)


LONG_SEND = {
    "producerGroup": "g",
    "topic": "t",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "5",
    "flag": "0",
    "properties": "",
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
    "maxReconsumeTimes": "0",
    "bname": "b",
}
PULL = {
    "consumerGroup": "g",
    "topic": "t",
    "queueId": "0",
    "queueOffset": "5",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "7",
    "maxMsgBytes": "100",
}


def broken(random: Random, sound: bytes) -> bytes:
    """Damage some bytes: flip, cut, repeat, or put something awkward in their place."""
    data = bytearray(sound)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.choice((0, 0, 1, 2, 8)))
        choice = random.randrange(4)
        if choice == 0 and data:
            data[at - 1] ^= 1 << random.randrange(8)
        elif choice == 1:
            del data[at:]
        elif choice == 2:
            data[at:end] = data[at:end] * 3
        else:
            data[at:end] = random.choice(PIECES)
    return bytes(data)


class FuzzTests(SynchronousTestCase):
    """Nothing but the errors that are promised, and what is read can be written."""

    def frames(self) -> list[bytes]:
        """List one frame of each kind of exchange."""
        found = {}
        for each in recorded():
            about = each.about
            found[(about["code_name"], about["kind"], about["serialize"], about.get("reply_to"))] = each.frame[:1500]
        return list(found.values())

    def damaged(self, random: Random) -> Iterator[bytes]:
        """Yield damaged frames, some with lengths that fit again."""
        for frame in self.frames():
            for _ in range(12):
                yield broken(random, frame)
            size = int.from_bytes(frame[1:4], "big")
            for _ in range(12):
                header = broken(random, frame[4 : 4 + size])
                yield frame_of(header, frame[4 + size : 40 + size], frame[0])

    def check(self, frame: bytes) -> Command | None:
        """Decode a frame; what comes out can be written and read again."""
        try:
            command = decode(frame)
        except FramingError:
            return None
        except BadHeader as error:
            self.assertLess(len(str(error)), 400)
            for number in (error.opaque, error.flag):
                self.assertTrue(number is None or -(2**31) <= number < 2**31)
            return None
        self.assertEqual(said(decode(encode(command)[4:])), said(command))
        return command

    def test_random_bytes(self) -> None:
        """Random bytes, and random headers of either encoding."""
        random = Random(11)
        for _ in range(3000):
            data = random.randbytes(random.randrange(60))
            self.check(data)
            self.check(frame_of(data, encoding=random.choice((JSON, BINARY))))

    def test_truncated(self) -> None:
        """Frames cut anywhere."""
        for frame in self.frames()[::3]:
            for cut in range(0, len(frame), 3):
                self.check(frame[:cut])

    def test_damaged(self) -> None:
        """Damaged frames; what can be read as a command can be asked for any header."""
        random = Random(12)
        kinds = header_types()
        read = 0
        for frame in self.damaged(random):
            command = self.check(frame)
            if command is None:
                continue
            for kind in random.sample(kinds, 4):
                try:
                    command.read(kind)
                    read += 1
                except BadHeader as error:
                    self.assertLess(len(str(error)), 400)
        self.assertGreater(read, 100)

    def test_json_values(self) -> None:
        """Any JSON value in any place of a header."""
        random = Random(13)
        values: list[Any] = [
            None,
            True,
            False,
            0,
            -1,
            2**31,
            2**63,
            10**25,
            1.0,
            1e300,
            "",
            "1",
            "x",
            [],
            [[]],
            {},
            {"a": {}},
        ]
        names = ["code", "opaque", "flag", "version", "language", "remark", "extFields", "more", *SEND]
        for _ in range(4000):
            header: dict[str, Any] = {"code": random.choice((310, 11, 14, 0, 105)), "extFields": dict(SEND)}
            for _ in range(random.randrange(1, 4)):
                name = random.choice(names)
                place = header["extFields"] if name in SEND and isinstance(header["extFields"], dict) else header
                place[name] = copy.deepcopy(random.choice(values))
            command = self.check(frame_of(json.dumps(header).encode()))
            if command is not None:
                for kind in header_types()[:3]:
                    try:
                        command.read(kind)
                    except BadHeader:
                        pass

    def test_readers_agree(self) -> None:
        """The fast JSON reader, the exact one and the binary one read the same fields alike, or refuse them alike."""
        random = Random(16)
        texts = [
            "",
            "0",
            "-0",
            "007",
            "1",
            "-1",
            "1.0",
            "1e3",
            "1.5e1",
            "+1",
            " 1",
            "1_0",
            "\u0661",
            "0x1",
            "true",
            "TRUE",
        ]
        texts += ["false", "null", "NULL", "yes", "2147483647", "2147483648", "-2147483648", "9223372036854775807"]
        texts += ["9223372036854775808", "9" * 19, "9" * 20, "x", "\x01", "-", "1" * 400, "NaN", "inf", "\u4e2d"]
        cases: dict[int, tuple[type[Header], dict[str, str]]] = {
            310: (SendRequest, SEND | {"l": "3", "n": "b"}),
            10: (SendRequest, LONG_SEND),
            11: (PullRequest, PULL),
            14: (QueryOffsetRequest, {"consumerGroup": "g", "topic": "t", "queueId": "1", "setZeroIfNotFound": "true"}),
            15: (UpdateOffsetRequest, {"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": "5"}),
        }
        typed = refused = 0
        for code, (kind, sound) in cases.items():
            for _ in range(600):
                fields = dict(sound)
                for name in random.sample(list(fields), random.randrange(3)):
                    if random.random() < 0.1:
                        del fields[name]
                    else:
                        fields[name] = random.choice(texts)
                exact = Command.request(code, fields=fields)
                exact.encoding = BINARY
                commands = (
                    decode(frame_of({"code": code, "extFields": fields})),
                    decode(frame_of({"code": code, "extFields": fields | {"unknown": ""}})),
                    decode(encode(exact)[4:]),
                )
                typed += commands[0].header is not None
                outcomes = set()
                for command in commands:
                    try:
                        outcomes.add(repr(command.read(kind)))
                    except BadHeader as error:
                        outcomes.add(str(error))
                        refused += 1
                self.assertEqual(len(outcomes), 1, (fields, outcomes))
        self.assertGreater(typed, 500)
        self.assertGreater(refused, 500)

    def test_bodies(self) -> None:
        """Damaged bodies, given to their own class and to others."""
        random = Random(14)
        kinds = [getattr(bodies, name) for name in bodies.__all__]
        kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body]
        samples = {}
        for each in recorded():
            body = each.frame[4 + each.about["headerLength"] :]
            if body.startswith(b"{") and not each.cut and len(body) < 3000:
                samples[(each.about["code_name"], each.about.get("reply_to"))] = body
        read = 0
        for body in samples.values():
            for _ in range(8):
                data = broken(random, body)
                for kind in random.sample(kinds, 6):
                    try:
                        value = kind.decode(data)
                        self.assertEqual(kind.decode(value.encode()), value)
                        read += 1
                    except BadBody as error:
                        self.assertLess(len(str(error)), 400)
        self.assertGreater(read, 50)

    def test_compressed_registrations(self) -> None:
        """Damaged registrations in the compressed form."""
        random = Random(15)
        sound = RegisterBrokerBody.decode(
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{},"U":{"perm":4}}}}'
        ).encode(compressed=True)
        for _ in range(2000):
            try:
                RegisterBrokerBody.decode(broken(random, sound), compressed=True)
            except BadBody:
                pass

    def test_time(self) -> None:
        """The worst inputs of the largest size take no longer than their size explains."""
        size = 256 * 1024 - 100
        for piece in (
            b'"\\"',
            b"\\",
            b"[",
            b'{"a":',
            b"{}:",
            b",1",
            b'""',
            b'"opaque" ',
            b" ",
            b"1",
            b"[],",
            b'{"a":1},',
        ):
            raw = b'{"x":' + piece * (size // len(piece))
            started = time.process_time()
            self.check(frame_of(raw))
            self.check(frame_of(raw + b"}"))
            # far less, but for a slow machine that watches coverage; what is quadratic takes minutes
            self.assertLess(time.process_time() - started, 30.0, piece)
