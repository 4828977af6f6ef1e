"""Runs of plain sends: the compiled one and its twin in Python, by themselves and in a whole broker."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.sendrun import PureSendRun, SendAnswers, SendRules, SendRun
from smartgo.core import CORE, IS_COMPILED
from smartgo.schema.batch import encode_items
from smartgo.schema.command import Command, decode
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.message import pack_host
from smartgo.schema.properties import encode, java_hash
from smartgo.schema.record import decode as decode_record
from smartgo.schema.responses import send_pieces
from smartgo.store.tails import LogTail, QueueTail
from tests.test_layers import ROOT

HERE = pack_host("10.0.0.1", 10911)
PEER = pack_host("10.0.0.2", 40000)
PEER_V6 = pack_host("2001:db8::1", 40000)
FIELDS = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1600000000000", "h": "7",
    "i": "UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01TagA", "j": "2", "k": "false", "l": "16", "m": "false",
}  # fmt: skip
LONG = {
    "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "1",
    "sysFlag": "0", "bornTimestamp": "1600000000000", "flag": "7", "reconsumeTimes": "2",
    "properties": FIELDS["i"],
}  # fmt: skip


class Log(LogTail):
    """A log of one file in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.file = bytearray(65536)
        self.view = memoryview(self.file)
        self.base = 1 << 33
        self.end = self.base + 100
        self.limit = self.base + 60000

    def read_clock(self) -> int:
        self.now_ms = 1_700_000_000_000
        return self.now_ms


def queue_of(topic: str = "T", queue_id: int = 1) -> QueueTail:
    """A queue with room for a hundred units."""
    queue = QueueTail()
    queue.queue_id = queue_id
    queue.topic_part = bytes([len(topic)]) + topic.encode()
    queue.overhead = 91 + len(topic)
    queue.next_offset = 1000
    queue.reserved = 1100
    return queue


def json_frame(fields: dict[str, str], body: bytes = b"body", code: int = 310, **more: Any) -> bytes:
    """A frame without its length word, as a Java client writes it."""
    members = {
        "code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 5,
        "serializeTypeCurrentRPC": "JSON", "version": 401, **more,
    }  # fmt: skip
    header = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack(">i", len(header)) + header + body


def binary_frame(fields: dict[str, str], body: bytes = b"body", code: int = 310, flag: int = 0) -> bytes:
    """The same with a binary header."""
    block = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in fields.items()
    )
    header = struct.pack(">hBhiiii", code, 0, 401, 5, flag, 0, len(block)) + block
    return struct.pack(">I", len(header) | 1 << 24) + header + body


class PureRunTests(SynchronousTestCase):
    """One class of runs."""

    kind: Any = PureSendRun

    def setUp(self) -> None:
        """A run over one log and one queue."""
        self.log = Log()
        self.queue = queue_of()
        self.known = {("T", 1): self.queue}
        self.asked: list[tuple[str, int]] = []
        self.run_of_sends = self.make()

    def make(self, **changes: Any) -> Any:
        """A run with other rules."""
        rules = {
            "store_host": HERE, "added": b"CLUSTER\x01c1", "special": (b"DELAY", b"TRAN_MSG"), "body_limit": 1000,
            "count_limit": 3, "later": False, **changes,
        }  # fmt: skip
        pieces = send_pieces("R1", True)
        answers = SendAnswers(rules["store_host"].hex().upper().encode(), *pieces)
        return self.kind(self.log, self.find, SendRules(**rules), answers)

    def find(self, topic: str, queue_id: int) -> QueueTail | None:
        """What the processor would return."""
        self.asked.append((topic, queue_id))
        return self.known.get((topic, queue_id))

    def take(self, *frames: bytes, room: int = 1 << 20, limit: int = 100, host: bytes = PEER) -> tuple[int, list[Any]]:
        """Let frames be taken; how many were, and the answers."""
        out: list[Any] = []
        return self.run_of_sends.take(list(frames), 0, host, out, room, limit), out

    def state(self) -> tuple[Any, ...]:
        """All that taking a frame may change, but what lies behind the end of the log."""
        log, queue = self.log, self.queue
        before_end = bytes(log.view[: log.end - log.base])
        return (
            log.end,
            log.stored_ms,
            queue.next_offset,
            queue.stored_ms,
            queue.pending[:],
            queue.codes[:],
            before_end,
        )

    def assert_not_taken(self, frame: bytes, why: str) -> None:
        """A frame is not taken, and nothing is changed; a plain one after it is."""
        self.run_of_sends.drain()
        before, file = self.state(), bytes(self.log.file)
        self.assertEqual(self.take(frame), (0, []), why)
        self.assertEqual(self.state(), before, why)
        self.assertEqual(bytes(self.log.file), file, why)
        self.assertEqual(self.run_of_sends.drain(), [], why)

    def assert_taken(self, frame: bytes, why: str) -> Any:
        """A frame is taken; the record that it left."""
        before = self.log.end
        self.assertEqual(self.take(frame)[0], 1, why)
        self.run_of_sends.drain()
        record = decode_record(bytes(self.log.view[before - self.log.base : self.log.end - self.log.base]))
        self.assertEqual(record.size, self.log.end - before)
        return record

    def answers(self, out: list[bytes]) -> list[Command]:
        """The answers in some pieces."""
        data, found = b"".join(out), []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            found.append(decode(data[4:size]))
            data = data[size:]
        return found

    def test_plain(self) -> None:
        """Every encoding and every code leaves the same record, unit and answer."""
        frames = (json_frame(FIELDS), binary_frame(FIELDS), json_frame(LONG, code=10), binary_frame(LONG, code=10))
        records = []
        for number, frame in enumerate(frames):
            begin = self.log.end
            taken, out = self.take(frame)
            self.assertEqual(taken, 1, number)
            (answer,) = self.answers(out)
            self.assertEqual((answer.code, answer.opaque, answer.flag, answer.encoding), (0, 5, 1, number % 2))
            said = answer.read(SendResponse)
            self.assertEqual(said.msg_id, f"{HERE.hex().upper()}{begin:016X}")
            self.assertEqual(
                (said.queue_id, said.queue_offset, said.region, said.trace_on), (1, 1000 + number, "R1", True)
            )
            record = decode_record(bytes(self.log.view[begin - self.log.base : self.log.end - self.log.base]))
            self.assertEqual((record.physical_offset, record.queue_offset), (begin, 1000 + number))
            unit = struct.unpack(">qiq", self.queue.pending[number])
            self.assertEqual(unit, (begin, self.log.end - begin, 2598919))
            records.append(record[7:])
        self.assertEqual(self.queue.codes, [2598919] * 4)
        self.assertEqual(self.queue.staged, [self.queue])
        self.assertEqual([one for one in records if one != records[0]], [])
        self.assertEqual(bytes(record.body), b"body")
        self.assertEqual(record.properties, b"UNIQ_KEY\x010A\x02CLUSTER\x01c1\x02TAGS\x01TagA")
        self.assertEqual((record.flag, record.reconsume_times, record.born_host, record.store_host), (7, 2, PEER, HERE))
        self.assertEqual((record.stored_ms, self.log.stored_ms, self.queue.stored_ms), (1_700_000_000_000,) * 3)
        self.assertEqual(self.run_of_sends.drain(), [("T", 4, record.size * 4, 4)])
        self.assertEqual(self.run_of_sends.drain(), [])

    def test_run(self) -> None:
        """A run ends before the first frame that is not taken, after the limit, and when the room is used up."""
        plain, other = json_frame(FIELDS), json_frame({**FIELDS, "b": "Other"})
        taken, out = self.take(plain, plain, other, plain)
        self.assertEqual((taken, len(out), len(self.answers(out))), (2, 1, 2))
        self.assertEqual(self.take(plain, plain, plain, limit=2)[0], 2)
        self.assertEqual(self.take(plain, plain, plain, room=0)[0], 1)
        self.assertEqual(self.take(plain, plain, plain, room=-1)[0], 0)
        out = []
        self.assertEqual(self.run_of_sends.take([other, plain, plain], 1, PEER, out, 1 << 20, 100), 2)
        self.assertEqual(self.run_of_sends.take([other], 1, PEER, out, 1 << 20, 100), 0)

    def test_one_way(self) -> None:
        """A request that wants no answer gets none."""
        self.assertEqual(self.take(json_frame(FIELDS, flag=2)), (1, []))
        self.assertEqual(self.take(binary_frame(FIELDS, flag=2)), (1, []))
        self.assertEqual(self.queue.next_offset, 1002)

    def test_clock(self) -> None:
        """The clock is read once a run, and not for a frame that is not taken."""
        self.take(json_frame({**FIELDS, "b": "Other"}))
        self.assertEqual(self.log.now_ms, 0)
        self.log.now_ms = 77
        self.assertEqual(self.assert_taken(json_frame(FIELDS), "").stored_ms, 77)

    def test_queues(self) -> None:
        """A queue is asked for once; again after C{forget}, and when it was dropped."""
        plain = json_frame(FIELDS)
        self.take(plain, plain)
        self.assertEqual(self.asked, [("T", 1)])
        self.run_of_sends.forget()
        self.take(plain)
        self.assertEqual(self.asked, [("T", 1)] * 2)
        self.queue.dropped = True
        del self.known["T", 1]
        self.assert_not_taken(plain, "a dropped queue")
        self.queue = self.known["T", 1] = queue_of()
        self.assertEqual(self.take(plain)[0], 1)
        self.assertEqual(self.queue.next_offset, 1001)

    def test_counts(self) -> None:
        """Messages are counted by topic, also those from before C{forget}."""
        self.known["U", 1] = queue_of("U")
        self.take(json_frame(FIELDS), json_frame({**FIELDS, "b": "U"}), json_frame(FIELDS))
        self.run_of_sends.forget()
        self.take(json_frame(FIELDS))
        totals: dict[str, int] = {}
        for topic, count, _, _ in self.run_of_sends.drain():
            totals[topic] = totals.get(topic, 0) + count
        self.assertEqual(totals, {"T": 3, "U": 1})

    def test_limits(self) -> None:
        """A record that just fits is taken; one byte more is not. So it is with units, bodies and properties."""
        size = self.assert_taken(json_frame(FIELDS), "").size
        self.log.limit = self.log.end + size - 1
        self.assert_not_taken(json_frame(FIELDS), "one byte too few in the file")
        self.log.limit += 1
        self.assert_taken(json_frame(FIELDS), "room in the file")
        self.assert_not_taken(json_frame(FIELDS), "a full file")
        self.log.limit = self.log.base + 60000
        self.queue.reserved = self.queue.next_offset
        self.assert_not_taken(json_frame(FIELDS), "no room for the unit")
        self.queue.reserved += 1
        self.assert_taken(json_frame(FIELDS), "room for the unit")
        self.queue.reserved += 100
        self.assert_taken(json_frame(FIELDS, b"x" * 1000), "the longest body")
        self.assert_not_taken(json_frame(FIELDS, b"x" * 1001), "a longer body")
        longest = "x" * (32767 - len("CLUSTER\x01c1\x02k\x01"))
        self.assert_taken(json_frame({**FIELDS, "i": f"k\x01{longest}"}), "the longest properties")
        self.log.end = self.log.base + 100
        self.assert_not_taken(json_frame({**FIELDS, "i": f"k\x01{longest}x"}), "longer properties")
        self.log.view, self.log.limit = memoryview(b""), -1
        self.assert_not_taken(json_frame(FIELDS), "no file")

    def test_properties(self) -> None:
        """What makes a message special, or its properties out of the ordinary, is left to the processor."""
        for text in ("DELAYS\x011", "k\x01\x7f", "KEYS\x01" + " ".join("x" * 64), "WAIT\x01no\x02TAGS\x01a b", ""):
            self.assert_taken(json_frame({**FIELDS, "i": text}), repr(text))
        for text in ("DELAY\x011", "a\x01b\x02TRAN_MSG\x01true", "KEYS\x01" + " ".join("x" * 2049), "a\x01\0",
                     "x__CRC32#\x010"):  # fmt: skip
            self.assert_not_taken(json_frame({**FIELDS, "i": text}), repr(text))

    def test_fields(self) -> None:
        """A header of which anything is out of the ordinary is left to the processor."""
        self.assert_taken(json_frame({**FIELDS, "f": "49", "n": "broker-a"}), "flags of compression and hosts")
        self.assertEqual(self.assert_taken(json_frame({**FIELDS, "f": "49"}), "").sys_flag, 1)
        for name, value in (("f", "4"), ("f", "8"), ("e", "2"), ("e", "-1"), ("e", "x"), ("h", "2147483648"),
                            ("h", "-2147483649"), ("g", "1.5"), ("g", "9" * 19), ("j", ""), ("l", "-"),
                            ("d", "1e3")):  # fmt: skip
            for frame in (json_frame, binary_frame):
                self.assert_not_taken(frame({**FIELDS, name: value}), f"{name}={value}")
        for name in "abcdefgh":
            fields = {one: value for one, value in FIELDS.items() if one != name}
            self.assert_not_taken(json_frame(fields), f"without {name}")
            self.assert_not_taken(binary_frame(fields), f"without {name}")
        for flag in (1, 3, -1):
            self.assert_not_taken(json_frame(FIELDS, flag=flag), f"flag {flag}")
            self.assert_not_taken(binary_frame(FIELDS, flag=flag), f"flag {flag}")
        for code in (11, 34, 325):
            self.assert_not_taken(json_frame(FIELDS, code=code), f"code {code}")
            self.assert_not_taken(binary_frame(FIELDS, code=code), f"code {code}")
        for flag in (-(2**31), 2**31 - 1):
            self.assertEqual(self.assert_taken(json_frame({**FIELDS, "h": str(flag)}), f"{flag}").flag, flag)
        self.assert_not_taken(json_frame(FIELDS, zz=1), "a strange member")
        self.assert_not_taken(json_frame(LONG), "long names with the code of the short ones")

    def test_large_offsets(self) -> None:
        """Answers have offsets of more than 32 bits in full."""
        self.queue.next_offset = offset = 5_000_000_000
        self.queue.reserved = offset + 100
        for number, frame in enumerate((json_frame(FIELDS), binary_frame(FIELDS))):
            (answer,) = self.answers(self.take(frame)[1])
            self.assertEqual(answer.read(SendResponse).queue_offset, offset + number)

    def test_order(self) -> None:
        """Properties are stored in Java's order, however many there are and whatever their names, or not taken."""
        chance, taken = random.Random(1), 0
        for number in range(400):
            names = {f"{chance.choice('abcXYZ_')}{chance.randrange(1000)}": "v" for _ in range(number % 27)}
            frame = json_frame({**FIELDS, "i": "\x02".join([f"{name}\x01v" for name in names])})
            self.log.end, self.queue.next_offset = self.log.base + 100, 1000
            if self.take(frame)[0]:
                record = decode_record(self.log.view, 100)
                self.assertEqual(record.properties, encode({**names, "CLUSTER": "c1"}))
                taken += 1
        self.assertGreater(taken, 300)
        alike = [name for name in map(str, range(10000)) if (lambda h: (h ^ h >> 16) & 31)(java_hash(name)) == 3]
        for count in range(4, 12):
            names = dict.fromkeys(alike[:count], "v")
            frame = json_frame({**FIELDS, "i": "\x02".join([f"{name}\x01v" for name in names])})
            self.log.end, self.queue.next_offset = self.log.base + 100, 1000
            if self.take(frame)[0]:
                record = decode_record(self.log.view, 100)
                self.assertEqual(record.properties, encode({**names, "CLUSTER": "c1"}), count)
            else:
                self.assertGreaterEqual(count, 7)

    def test_error(self) -> None:
        """What was taken before an exception is kept and answered; the exception comes at the frame that met it."""
        plain, other = json_frame(FIELDS), json_frame({**FIELDS, "b": "Other"})
        begin = self.log.end
        find = self.find

        def fail(topic: str, queue_id: int) -> QueueTail | None:
            if topic == "Other":
                raise ValueError("a bug")
            return find(topic, queue_id)

        self.find = fail  # type: ignore[method-assign]
        self.run_of_sends = self.make()
        taken, out = self.take(plain, plain, other, plain)
        self.assertEqual((taken, len(self.answers(out))), (2, 2))
        self.assertEqual((self.queue.next_offset, len(self.queue.pending), len(self.queue.codes)), (1002, 2, 2))
        (first,) = struct.unpack_from(">i", self.log.view, begin - self.log.base)
        self.assertEqual(decode_record(self.log.view, begin - self.log.base + first).physical_offset, begin + first)
        before = self.state()
        self.assertRaises(ValueError, self.take, other, plain)
        self.assertEqual(self.state(), before)
        self.assertEqual(self.take(plain)[0], 1)

    def test_behind(self) -> None:
        """Nothing is written behind the end of the log, where all is zero until it is needed."""
        self.take(json_frame(FIELDS), binary_frame(FIELDS, b"xyz"))
        self.assertEqual(self.log.file[self.log.end - self.log.base :].count(0), 65536 - (self.log.end - self.log.base))

    def test_hostile(self) -> None:
        """No beginning of a frame, and no frame with a length changed, is taken or does harm."""
        for frame in (json_frame(FIELDS, b""), binary_frame(FIELDS, b""), binary_frame(LONG, b"", code=10)):
            for size in range(len(frame)):
                self.assert_not_taken(frame[:size], f"{size} bytes of {frame!r}")
        frame = binary_frame(FIELDS)
        for at in range(4, len(frame) - 4):
            for byte in (0, 0x7F, 0x80, 0xFF):
                changed = frame[:at] + bytes([byte]) + frame[at + 1 :]
                out: list[bytes] = []
                run = self.make()
                self.log.end, self.queue.next_offset = self.log.base + 100, 1000
                if not run.take([changed], 0, PEER, out, 1 << 20, 1):
                    self.assertEqual((self.log.end, self.queue.next_offset, out), (self.log.base + 100, 1000, []))


class ChosenRunTests(PureRunTests):
    """The compiled runs."""

    kind = SendRun
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def test_headers(self) -> None:
        """A header that is no JSON, or has more than a send needs, or a thing twice, is left to the processor."""
        plain = json_frame(FIELDS)
        header, body = plain[4:-4], plain[-4:]
        self.assert_taken(json_frame(FIELDS, remark="hi"), "a remark")
        for old, new in (
            (b'"h":"7"', b'"h":"6","h":"7"'),
            (b'"a":"PG"', b'"a":"\\ud800"'),
            (b'"a":"PG"', b'"a":"\\udc00"'),
            (b'"a":"PG"', b'"a":"\xed\xa0\x80"'),
            (b'"a":"PG"', b'"a":"\xc0\x80"'),
            (b'"a":"PG"', b'"a":"\xf4\x90\x80\x80"'),
            (b'"a":"PG"', b'"a":"\x01"'),
            (b'"a":"PG"', b'"a":"\\x"'),
            (b'"a":"PG"', b'"a":PG'),
            (b'"opaque":5', b'"opaque":05'),
            (b'"opaque":5', b'"opaque":-0'),
            (b'"opaque":5', b'"opaque":2147483648'),
            (b'"opaque":5', b'"opaque":5.0'),
            (b'"opaque":5', b'"opaque":5,"opaque":6'),
            (b'"version":401}', b'"version":401}x'),
            (b'"version":401}', b'"version":401,}'),
            (b'"version":401}', b'"version":401'),
        ):
            self.assertIn(old, header)
            changed = header.replace(old, new)
            self.assert_not_taken(len(changed).to_bytes(4, "big") + changed + body, f"{new!r}")
        for excess in range(1, 5):
            longer = (len(header) + excess).to_bytes(4, "big") + header
            self.assert_not_taken(longer, f"a header of {excess} bytes more than the frame has")
        self.assert_not_taken(json_frame({**FIELDS, **{f"x{one}": "" for one in range(52)}}), "65 fields")
        self.assert_not_taken(binary_frame({**FIELDS, **{f"x{one}": "" for one in range(52)}}), "65 fields")
        self.assert_taken(json_frame({**FIELDS, **{f"x{one}": "" for one in range(51)}}), "64 fields")
        whole = binary_frame({**FIELDS, "z": "last"})
        at = whole.index(b"\0\0\0\4last") + 3
        self.assert_not_taken(whole[:at] + b"\5" + whole[at + 1 :], "a value that ends within the body")
        block = binary_frame(FIELDS, b"")[25:]
        hidden = struct.pack(">hBhiii", 310, 0, 401, 5, 0, 4 + len(block)) + struct.pack(">i", len(block)) + block
        self.assert_not_taken(struct.pack(">I", len(hidden) | 1 << 24) + hidden + body, "a remark like fields")
        for remark, fields, more in ((b"hi", block, b""), (b"", block + b"\0\1h\0\0\0\x017", b""), (b"", block, b"x")):
            changed = struct.pack(">hBhiii", 310, 0, 401, 5, 0, len(remark)) + remark
            changed += struct.pack(">i", len(fields)) + fields + more
            self.assert_not_taken(struct.pack(">I", len(changed) | 1 << 24) + changed + body, f"{changed!r}")

    def test_late_code(self) -> None:
        """A header in JSON whose code stands behind its fields is not taken: the code says which names they have."""
        for code, fields in ((310, FIELDS), (10, FIELDS), (310, LONG), (10, LONG)):
            members = {"extFields": fields, "code": code, "flag": 0, "language": "JAVA", "opaque": 5, "version": 401}
            header = json.dumps(members).encode()
            self.assert_not_taken(len(header).to_bytes(4, "big") + header + b"body", f"{code}: {[*fields]}")

    def test_cut_texts(self) -> None:
        """A value of a binary header that ends within a character is not taken, whatever the body begins with."""
        for text, rest in ((b"\xc3", b"\xa9"), (b"\xe2\x82", b"\xac"), (b"\xf0\x9f\x98", b"\x80")):
            for value, body, taken in ((text + rest, b"body", True), (text, rest + b"body", False)):
                block = binary_frame(FIELDS, b"")[25:] + b"\0\1n" + struct.pack(">i", len(value)) + value
                header = struct.pack(">hBhiiii", 310, 0, 401, 5, 0, 0, len(block)) + block
                frame = struct.pack(">I", len(header) | 1 << 24) + header + body
                if taken:
                    self.assert_taken(frame, f"{value!r}")
                else:
                    self.assert_not_taken(frame, f"{value!r}")

    def test_field_size(self) -> None:
        """A binary header with another size of all fields than they have is not taken, whole as they may be."""
        whole = binary_frame({**FIELDS, "n": "broker-a"})
        self.assert_taken(whole, "the size of all fields")
        at, size = 21, len(whole) - 4 - 21 - len(b"body")
        self.assertEqual(whole[at : at + 4], size.to_bytes(4, "big"))
        for other in (0, size - 11, size - 1, size + 1, size + 4, 1 << 31):
            self.assert_not_taken(whole[:at] + other.to_bytes(4, "big") + whole[at + 4 :], f"{other} for {size}")

    def test_escapes(self) -> None:
        """Characters that are escaped by their numbers are stored in UTF-8, whatever its length for them."""
        for number in (0x20, 0x7E, 0x7F, 0x80, 0xE9, 0x7FF, 0x800, 0x801, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF):
            frame = json_frame({**FIELDS, "i": "k\x01=" + chr(number)})
            header = frame[4:-4].replace(("=" + chr(number)).encode(), f"=\\u{number:04x}".encode())
            record = self.assert_taken(len(header).to_bytes(4, "big") + header + b"body", f"{number:x}")
            self.assertEqual(record.properties, b"k\x01=" + chr(number).encode() + b"\x02CLUSTER\x01c1", f"{number:x}")

    def test_no_queue(self) -> None:
        """What is no queue is not kept, and not taken for one later."""
        self.known["T", 1] = object()  # type: ignore[assignment]
        for _ in range(2):
            self.assertRaises(TypeError, self.take, json_frame(FIELDS))
        self.known["T", 1] = self.queue
        self.assertEqual(self.take(json_frame(FIELDS))[0], 1)

    def test_batch(self) -> None:
        """A batch becomes records that go on, but for the last, and one answer with all ids."""
        items = [(0, b"one", b"TAGS\x01TagA"), (9, b"", b""), (0, b"three", b"k\x01v\x02")]
        frame = json_frame({**FIELDS, "i": "WAIT\x01true"}, encode_items(items), code=320)
        begin = self.log.end
        taken, out = self.take(frame)
        self.assertEqual(taken, 1)
        at, records = begin - self.log.base, []
        while at < self.log.end - self.log.base:
            records.append(decode_record(self.log.view, at))
            at += records[-1].size
        self.assertEqual(self.log.file[at:].count(0), 65536 - at)
        self.assertEqual([bytes(one.body) for one in records], [b"one", b"", b"three"])
        tail = b"CLUSTER\x01c1\x02WAIT\x01true"
        self.assertEqual(
            [one.properties for one in records],
            [b"TAGS\x01TagA\x02" + tail + b"\x02", tail + b"\x02", b"k\x01v\x02" + tail],
        )
        self.assertEqual([one.queue_offset for one in records], [1000, 1001, 1002])
        self.assertEqual((self.queue.codes, len(self.queue.pending)), ([2598919, 0, 0], 1))
        self.assertEqual(
            [unit[0] for unit in struct.iter_unpack(">qiq", self.queue.pending[0])],
            [one.physical_offset for one in records],
        )
        said = self.answers(out)[0].read(SendResponse)
        self.assertEqual(said.msg_id, ",".join([f"{HERE.hex().upper()}{one.physical_offset:016X}" for one in records]))
        self.assertEqual(said.queue_offset, 1000)
        self.assertEqual(self.run_of_sends.drain(), [("T", 3, self.log.end - begin, 1)])

    def test_batch_limits(self) -> None:
        """A batch over a limit, or that is none, is left to the processor."""

        def batch(*bodies: bytes, own: bytes = b"", shared: str = "") -> bytes:
            return binary_frame({**FIELDS, "i": shared}, encode_items([(0, body, own) for body in bodies]), code=320)

        self.assertEqual(self.take(batch(b"x" * 400, b"x" * 600))[0], 1)
        self.assertEqual(self.take(batch(b"", b"", b""))[0], 1)
        self.run_of_sends.drain()
        for frame, why in (
            (batch(b"x" * 400, b"x" * 601), "longer than a body may be"),
            (batch(b"", b"", b"", b""), "too many"),
            (batch(), "empty"),
            (batch(b"x", own=b"a\x01\0"), "a NUL"),
            (batch(b"x", own=b"__CRC32#\x010"), "the CRC of another record"),
            (batch(b"x", own=b"TAGS\x01a\x02TAGS\x01b"), "two tags"),
            (batch(b"x", own=b"x" * 32767), "long properties"),
            (batch(b"x", shared="TAGS\x01a"), "a tag of all"),
            (batch(b"x", shared="DELAY\x011"), "a delay"),
            (batch(b"x")[:-1], "cut"),
            (batch(b"x") + b"\0", "a byte too many"),
        ):
            self.assert_not_taken(frame, why)
        self.queue.reserved = self.queue.next_offset + 1
        self.assert_not_taken(batch(b"", b""), "room for one unit")
        self.assertEqual(self.take(batch(b""))[0], 1)

    def test_later(self) -> None:
        """Where answers wait, what was stored is handed over in place of an answer."""
        self.run_of_sends = self.make(later=True)
        begin = self.log.end
        taken, out = self.take(json_frame({**FIELDS, "i": "WAIT\x01false"}), binary_frame(FIELDS, flag=2))
        self.assertEqual(taken, 2)
        middle, ms = out[1][6][0], 1_700_000_000_000
        self.assertEqual(out[0], (0, 5, 0, False, "T", 1, (begin, middle, 1000, ms, (begin,))))
        self.assertEqual(out[1], (1, 5, 2, True, "T", 1, (middle, self.log.end, 1001, ms, (middle,))))

    def test_six(self) -> None:
        """Records of hosts with IPv6 addresses have them, and the flags that say so."""
        begin = self.log.end
        self.assertEqual(self.take(json_frame(FIELDS), host=PEER_V6)[0], 1)
        record = decode_record(self.log.view, begin - self.log.base)
        self.assertEqual((record.born_host, record.store_host, record.sys_flag), (PEER_V6, HERE, 0x10))
        self.run_of_sends = self.make(store_host=PEER_V6)
        self.assertEqual(self.take(json_frame(FIELDS), host=PEER)[0], 1)
        record = decode_record(self.log.view, begin - self.log.base + record.size)
        self.assertEqual((record.born_host, record.store_host, record.sys_flag), (PEER, PEER_V6, 0x20))
        self.assertEqual(self.take(json_frame(FIELDS), host=b"odd")[0], 0)


class TapeTests(SynchronousTestCase):
    """A tape of frames, played to whole brokers; L{tests.broker.sendtape} plays longer ones."""

    tapes: ClassVar = (
        ("--seed=1", "--count=400"),
        ("--seed=2", "--count=300", "--ip=2001:db8::7", "brokerIP1=2001:db8::1"),
        ("--seed=3", "--count=300", "flushDiskType=SYNC_FLUSH"),
        ("--seed=4", "--count=300", "--plain=0.8", "--sockets"),
        ("--seed=6", "--count=400", "--plain=0.8", "--sockets", "--signed"),
        ("--seed=7", "--count=300", "--plain=0.8", "--signed", "flushDiskType=SYNC_FLUSH"),
        ("--seed=8", "--count=300", "--plain=0.8", "--sockets", "flushDiskType=SYNC_FLUSH"),
        ("--seed=12", "--count=300", "--plain=0.8", "--sockets", "brokerRole=SYNC_MASTER"),
        ("--seed=7", "--count=300", "--plain=0.8", "--sockets", "--signed", "flushDiskType=SYNC_FLUSH"),
    )

    def play(self, tape: tuple[str, ...], pure: bool, *more: str) -> dict[str, Any]:
        """What a broker in another process makes of a tape."""
        command = [sys.executable, "-m", "tests.broker.sendtape", *more, *tape]
        environment = {**os.environ, "SMARTGO_PURE": str(int(pure))}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def test_equal(self) -> None:
        """Runs leave the same bytes in all files and answers as the processor does with one frame at a time."""
        for tape in self.tapes:
            alone = self.play(tape, True, "--one-by-one")
            self.assertGreater(alone["stored"], 100)
            both = not any(word.startswith(("--ip", "flush", "brokerRole", "--signed")) for word in tape)
            for pure in (True, False) if both else (False,):  # else Python takes nothing
                found = self.play(tape, pure)
                taken = found["taken"]
                if pure and "--seed=1" in tape:
                    self.assertGreater(taken, 80)
                elif not pure and found["core"] == "compiled":
                    self.assertGreater(taken, 100)
                if not pure and found["core"] == "compiled" and "--sockets" in tape:
                    self.assertGreater(found["by hub"], 20)
                for name in ("core", "taken", "by hub"):
                    del found[name]
                self.assertEqual({**alone, **found}, alone, (tape, pure))

    def test_plain(self) -> None:
        """Of frames as the official clients send them all are taken but the first to each queue of a topic."""
        found = self.play(("--seed=5", "--count=300", "--plain=1", "--quiet"), False)
        if found["core"] != "compiled":
            self.skipTest(found["core"])
        self.assertGreaterEqual(found["taken"], 300 - 12)
