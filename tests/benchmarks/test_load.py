"""Tests for the load generator, the program in benchmarks/load, over real sockets against a stand-in."""

from __future__ import annotations

import re
import shutil
import struct
import sys
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import builder, generator
from benchmarks.errors import LoadBrokeOff
from benchmarks.generator import Load, Outcome
from benchmarks.processes import Child
from tests.benchmarks.standin import Answer, Request, StandIn, encode, stored

if shutil.which("gcc") is None and shutil.which("cc") is None:
    NO_COMPILER: str | None = "the load generator is C and there is no compiler here"
else:
    NO_COMPILER = None

UNIQUE = re.compile(r"UNIQ_KEY\x01([0-9A-F]{32})\x02WAIT\x01true\x02TAGS\x01TagA")
SENT = {"msgId": "7F", "queueId": "0", "queueOffset": "5"}


def record(queue: int, offset: int, body: bytes, magic: int = 0xDAA320A7) -> bytes:
    """Return a stored message as a pull answers it."""
    tail = struct.pack(">i", len(body)) + body + b"\x01T" + struct.pack(">h", 0)
    rest = struct.pack(">iiiqqiq", 0, queue, 0, offset, 0, 0, 0) + bytes(8 + 8 + 8 + 4 + 8)
    return struct.pack(">II", 8 + len(rest) + len(tail), magic) + rest + tail


class LoadTests(SynchronousTestCase):
    """The requests of the generator, and its reading of answers."""

    skip = NO_COMPILER

    def drive(
        self, answer: Answer, load: Load, count: int | None = None, seconds: float = 0.1, patience: int = 60
    ) -> Outcome:
        """Put a load on a stand-in that answers so; the load waits C{patience} seconds for an answer."""
        self.server = StandIn(answer)
        self.addCleanup(self.server.stop)
        binary: Path = builder.generator()
        line = generator.command(binary, load, f"127.0.0.1:{self.server.port}", None, count=count, seconds=seconds)
        return generator.run([*line, "--timeout", str(patience)], 120)

    def test_sends(self) -> None:
        """Sends carry fourteen fields, go to the queues and topics in turn, and each has a unique key of its own."""
        load = Load("send", ("TopicA", "TopicB"), 3, 2, 4, 100)
        outcome = self.drive(lambda requests: [b"".join(map(stored, requests))], load, 120)
        self.assertEqual((outcome.total_messages, outcome.codes), (120, {"0": 120}))
        self.assertEqual(len(self.server.requests), 120)
        keys = set()
        for request in self.server.requests:
            self.assertEqual((request.code, len(request.body), request.binary), (310, 100, False))
            self.assertEqual("".join(sorted(request.fields)), "abcdefghijklmn")
            self.assertEqual(
                (request.fields["c"], request.fields["m"], len(request.fields["g"])), ("TBW102", "false", 13)
            )
            matched = UNIQUE.fullmatch(request.fields["i"])
            assert matched is not None, request.fields["i"]
            keys.add(matched[1])
        self.assertEqual(len(keys), 120)
        lanes = Counter((request.fields["b"], request.fields["e"]) for request in self.server.requests)
        self.assertEqual(set(lanes.values()), {20})
        self.assertEqual(len(lanes), 6)

    def test_binary(self) -> None:
        """Binary headers carry the same fields, and binary answers are understood."""
        load = Load("send", ("T",), 1, 1, 8, 10, binary=True)
        outcome = self.drive(lambda requests: [encode(each, fields=SENT) for each in requests], load, 40)
        self.assertEqual(outcome.codes, {"0": 40})
        for request in self.server.requests:
            self.assertTrue(request.binary)
            self.assertEqual("".join(sorted(request.fields)), "abcdefghijklmn")
            self.assertIsNotNone(UNIQUE.fullmatch(request.fields["i"]))

    def test_rate(self) -> None:
        """With a rate no more messages are sent than are due, and about as many."""
        load = Load("send", ("T",), 1, 2, 8, 10, rate=500)
        outcome = self.drive(lambda requests: [b"".join(map(stored, requests))], load, seconds=0.6)
        due = 500 * outcome.seconds  # a busy machine ends the window late
        self.assertTrue(due / 5 <= outcome.total_messages <= due + 50, (outcome.total_messages, due))

    def test_any_order_any_cut(self) -> None:
        """Answers may come in any order, in any pieces, and in any JSON."""

        def answer(requests: list[Request]) -> list[bytes]:
            stream = b"".join(encode(each, fields=SENT, remark='a "quoted\\ }') for each in reversed(requests))
            return [stream[at : at + 7] for at in range(0, len(stream), 7)]

        outcome = self.drive(answer, Load("send", ("T",), 2, 2, 5, 10), 60)
        self.assertEqual((outcome.codes, outcome.total_messages), ({"0": 60}, 60))

    def test_opaque_varies(self) -> None:
        """Opaque numbers are not used twice while a request is in flight, and take more digits as they grow."""
        self.drive(lambda requests: [b"".join(map(stored, requests))], Load("send", ("T",), 1, 1, 4, 10), 2000)
        opaques = [request.opaque for request in self.server.requests]
        self.assertEqual(len(set(opaques)), len(opaques))
        self.assertGreater(len({len(str(opaque)) for opaque in opaques}), 2)

    def test_codes(self) -> None:
        """Codes but success are counted with their first remark, and such messages are sent again."""
        turn = iter(range(1 << 20))

        def answer(requests: list[Request]) -> list[bytes]:
            return [encode(each, 2, remark="busy \u00e4") if next(turn) % 4 == 3 else stored(each) for each in requests]

        outcome = self.drive(answer, Load("send", ("T",), 1, 1, 2, 10), 30)
        self.assertEqual(outcome.total_messages, 30)
        self.assertEqual(outcome.codes["0"], 30)
        self.assertIn(outcome.codes["2"], (9, 10))
        self.assertEqual(outcome.remarks, {"2": r"busy \u00e4"})
        self.assertEqual(outcome.total_failures, outcome.codes["2"])

    def test_always_refused(self) -> None:
        """A broker that refuses everything ends the run with its remark."""

        def answer(requests: list[Request]) -> list[bytes]:
            return [encode(each, 17, remark="no such topic") for each in requests]

        load = Load("send", ("T",), 1, 1, 2, 10)
        error = self.assertRaises(LoadBrokeOff, self.drive, answer, load, seconds=60)  # it ends itself long before
        self.assertIn("code 17, remark no such topic", str(error))

    def test_batches(self) -> None:
        """Batches hold whole items with keys of their own, and count as their messages."""
        load = Load("batch", ("T",), 2, 2, 2, 20, 5)
        outcome = self.drive(lambda requests: [encode(each, fields=SENT) for each in requests], load, 50)
        self.assertEqual((outcome.total_messages, outcome.codes), (50, {"0": 10}))
        keys = set()
        for request in self.server.requests:
            self.assertEqual((request.code, request.fields["m"], request.fields["i"]), (320, "true", "WAIT\x01true"))
            at = 0
            for _ in range(5):
                size, magic, crc, flag, body_size = struct.unpack_from(">IIIII", request.body, at)
                self.assertEqual((magic, crc, flag, body_size), (0, 0, 0, 20))
                (properties_size,) = struct.unpack_from(">h", request.body, at + 40)
                matched = UNIQUE.fullmatch(request.body[at + 42 : at + 42 + properties_size].decode())
                assert matched is not None
                keys.add(matched[1])
                self.assertEqual(size, 42 + properties_size)
                at += size
            self.assertEqual(at, len(request.body))
        self.assertEqual(len(keys), 50)

    def test_bare(self) -> None:
        """The messages of a bare batch have no properties."""
        self.drive(
            lambda requests: [b"".join(map(stored, requests))], Load("batch", ("T",), 1, 1, 1, 20, 5, bare=True), 10
        )
        for request in self.server.requests:
            self.assertEqual(len(request.body), 5 * 42)
            for at in range(0, len(request.body), 42):
                self.assertEqual(struct.unpack_from(">I", request.body, at), (42,))
                self.assertEqual(struct.unpack_from(">h", request.body, at + 40), (0,))

    def test_spread(self) -> None:
        """One name makes many topics, which are taken in turn."""
        load = Load("send", ("T",), 2, 1, 4, 10, spread=30)
        self.drive(lambda requests: [b"".join(map(stored, requests))], load, 120)
        lanes = Counter((request.fields["b"], request.fields["e"]) for request in self.server.requests)
        self.assertEqual(set(lanes), {(f"T-{number}", str(queue)) for number in range(30) for queue in range(2)})
        self.assertEqual(set(lanes.values()), {2})

    def pulls(self, total: int) -> Answer:
        """Answer pulls from queues of C{total} messages."""

        def answer(requests: list[Request]) -> list[bytes]:
            pieces = []
            for each in requests:
                queue, offset = int(each.fields["queueId"]), int(each.fields["queueOffset"])
                end = min(total, offset + int(each.fields["maxMsgNums"]))
                body = b"".join(record(queue, at, b"x" * 50) for at in range(offset, end))
                fields = {"nextBeginOffset": str(end), "minOffset": "0", "maxOffset": str(total)}
                pieces.append(encode(each, 0, fields, "FOUND", body))
            return pieces

        return answer

    def test_begin(self) -> None:
        """Pulls may begin further on."""
        self.drive(self.pulls(80), Load("pull", ("T",), 2, 1, 2, 1024, 10, begin=60), 40)
        offsets = [int(request.fields["queueOffset"]) for request in self.server.requests]
        self.assertEqual((offsets[:2], max(offsets)), ([60, 60], 70))

    def test_pulls(self) -> None:
        """Pulls begin at 0, go on where the answer says, and start over at the end."""
        for binary in (False, True):
            load = Load("pull", ("T",), 2, 1, 2, 1024, 32, binary)
            outcome = self.drive(self.pulls(80), load, 400)
            self.assertGreaterEqual(outcome.total_messages, 400)
            self.assertEqual(set(outcome.codes), {"0"})
            for queue in ("0", "1"):
                asked = [each for each in self.server.requests if each.fields["queueId"] == queue]
                self.assertEqual([each.fields["queueOffset"] for each in asked[:5]], ["0", "32", "64", "0", "32"])
                self.assertEqual((asked[0].code, asked[0].fields["sysFlag"]), (11, "4"))
                self.assertEqual((asked[0].fields["subscription"], asked[0].fields["expressionType"]), ("*", "TAG"))

    def test_wrong_records(self) -> None:
        """Records of another queue or offset, of another magic, cut short or missing end the run."""
        good = record(0, 0, b"abc")
        bodies = [
            record(1, 0, b"abc"),
            record(0, 1, b"abc"),
            record(0, 0, b"abc", 0xDAA320AB),
            good[:-1],
            good + good,
            b"",
        ]
        for body in bodies:
            fields = {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "9"}

            def answer(requests: list[Request], body: bytes = body, fields: dict[str, str] = fields) -> list[bytes]:
                return [encode(each, 0, fields, body=body) for each in requests]

            error = self.assertRaises(LoadBrokeOff, self.drive, answer, Load("pull", ("T",), 1, 1, 1, 10, 32))
            self.assertIn("not those asked for", str(error))

    def test_silence(self) -> None:
        """A broker that stops answering ends the run."""
        load = Load("send", ("T",), 1, 1, 3, 10)
        error = self.assertRaises(LoadBrokeOff, self.drive, lambda requests: [], load, patience=1)
        self.assertIn("no answer for 1 s on a connection with 3 requests in flight", str(error))

    def test_closed(self) -> None:
        """A broker that closes a connection ends the run."""
        error = self.assertRaises(LoadBrokeOff, self.drive, lambda requests: [b""], Load("send", ("T",), 1, 1, 3, 10))
        self.assertIn("closed a connection", str(error))

    def test_wrong_answers(self) -> None:
        """Answers to nothing asked, answers without their fields and what is no answer at all end the run."""
        cases = {
            "not made": lambda each: stored(each._replace(opaque=each.opaque ^ 1)),
            "no queueOffset": lambda each: encode(each, 0, {"msgId": "7F"}),
            "JSON header": lambda each: struct.pack(">II", 4 + 9, 9) + b'{"code":0',
            "binary header": lambda each: struct.pack(">II", 4 + 9, 9 | 1 << 24) + b"123456789",
            "longer than its frame": lambda each: struct.pack(">II", 4, 9),
            "serialize type": lambda each: struct.pack(">II", 4, 7 << 24),
            "frame of 3 bytes": lambda each: struct.pack(">II", 3, 0),
            "frame of 16777217 bytes": lambda each: struct.pack(">II", 16777217, 0),
        }
        for words, make in cases.items():
            error = self.assertRaises(
                LoadBrokeOff,
                self.drive,
                lambda requests, make=make: [make(each) for each in requests],
                Load("send", ("T",), 1, 1, 2, 10),
            )
            self.assertIn(words, str(error))

    def test_requests_of_the_broker(self) -> None:
        """What the broker asks or tells by itself is passed over."""
        notice = encode(Request(0, 0, {}, b"", False), 40).replace(b'"flag": 1', b'"flag": 2')

        def answer(requests: list[Request]) -> list[bytes]:
            return [notice + stored(each) + notice for each in requests]

        self.assertEqual(self.drive(answer, Load("send", ("T",), 1, 1, 2, 10), 50).codes, {"0": 50})

    def test_idle(self) -> None:
        """Idle connections send one heart-beat in half a minute, spread, and stay."""
        outcome = self.drive(lambda requests: [encode(each) for each in requests], Load("idle", connections=5))
        self.assertEqual(outcome.codes, {"0": 5})
        self.assertEqual([request.code for request in self.server.requests], [34] * 5)

    def test_nobody_listens(self) -> None:
        """Where nobody listens the run does not begin."""
        line = generator.command(builder.generator(), Load("send"), "127.0.0.1:1", None)
        self.assertIn("cannot connect to 127.0.0.1:1", str(self.assertRaises(LoadBrokeOff, generator.run, line, 10)))

    def test_bad_options(self) -> None:
        """Options that make no sense are refused with what would."""
        for options in (["--mode", "x"], ["--queues", "0"], ["--seconds", "-1"], ["--topics", 'a"b'], ["extra"]):
            error = self.assertRaises(LoadBrokeOff, generator.run, [str(builder.generator()), *options], 10)
            self.assertIn("load: ", str(error))

    def test_window(self) -> None:
        """A timed run ends by itself, counts answers of its window alone, and its times lie in order."""
        load = Load("send", ("T",), 1, 1, 1, 10)
        outcome = self.drive(lambda requests: [b"".join(map(stored, requests))], load, seconds=0.2)
        self.assertTrue(0 < outcome.seconds < 60, outcome.seconds)  # of a machine that may have other things to do
        self.assertGreaterEqual(outcome.total_messages, outcome.messages)
        times = outcome.latency_us
        self.assertTrue(0 < times.p50 <= times.p99 <= times.p999 <= times.max)
        self.assertGreater(outcome.rate, 0)

    def test_threads(self) -> None:
        """The broker's CPU time is that of all its threads, with that of its main thread apart."""
        burn = "import threading; f = lambda: [0 for _ in iter(int, 1)]; "
        told = "print(1, flush=True)"
        cases = ((f"{told}; f()", True), (f"threading.Thread(target=f).start(); {told}", False))
        for source, all_in_main in cases:
            broker = Child([sys.executable, "-c", burn + source], Path(self.mktemp()) / "log")
            self.addCleanup(broker.stop)
            while not broker.log.read_text():
                self.assertTrue(broker.alive)
            load = Load("send", ("T",), 1, 1, 1, 10)
            while not (outcome := self.measure(load, broker.pid)).server_cpu_us:
                self.assertTrue(broker.alive)
            main = outcome.server_main_us
            self.assertLess(abs(main - (outcome.server_cpu_us if all_in_main else 0)), outcome.server_cpu_us / 2)

    def measure(self, load: Load, pid: int) -> Outcome:
        """Load a stand-in for a moment, and take another process for the broker."""
        server = StandIn(lambda requests: [b"".join(map(stored, requests))])
        self.addCleanup(server.stop)
        return generator.run(
            generator.command(builder.generator(), load, f"127.0.0.1:{server.port}", pid, warm_up=0.5, seconds=0.5), 120
        )
