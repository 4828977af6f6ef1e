"""Tests of L{smartgo.schema.record}."""

from __future__ import annotations

import struct
from random import Random
from zlib import crc32

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadRecord, MessageIllegal
from smartgo.schema import record
from smartgo.schema.message import BORN_V6, STORE_V6, NewMessage, StoredMessage, pack_host
from smartgo.schema.record import (
    BLANK,
    HEAD_SIZE,
    HEAD_STRUCT,
    MAGIC,
    MAGIC_V2,
    RECORD,
    SEAL_SIZE,
    SMARTGO_BLANK_MAGIC,
    SMARTGO_MAGIC,
    check,
    decode,
    encode,
    encode_blank,
    start_struct,
)
from smartgo.schema.recordscan import scan
from tests import golden_store

V4, OTHER_V4 = pack_host("10.0.0.1", 5555), pack_host("10.0.0.2", 10911)
V6, OTHER_V6 = pack_host("2001:db8::1", 5555), pack_host("2001:db8::2", 10911)
FROM_SPEC = (
    "00000072 daa320a7 77d18982 00000002 00000000 0000000000000005 00000000000003e8 00000000 00000174876e8000"
    "0a000001000015b3 00000174876e8001 0a00000200002a9f 00000000 0000000000000000 00000005 48656c6c6f"
    "09 546f70696354657374 0009 5441475301 54616741"
)
"""A stored message of the protocol page, produced with the official 4.9.8 jars."""


def spec_message() -> NewMessage:
    """The message of L{FROM_SPEC}."""
    return NewMessage("TopicTest", 2, b"Hello", b"TAGS\x01TagA", 0, 0, 1600000000000, V4, OTHER_V4)


def random_message(random: Random) -> NewMessage:
    """Any message."""
    return NewMessage(
        "".join(random.choices("aZ9_-%|", k=random.randint(1, 127))),
        random.getrandbits(31),
        random.randbytes(random.choice([0, 1, 5, 300])),
        random.randbytes(random.choice([0, 1, 40, 300])),
        random.getrandbits(32) - (1 << 31),
        random.getrandbits(11),
        random.getrandbits(41),
        random.choice([V4, V6]),
        random.choice([OTHER_V4, OTHER_V6]),
        random.getrandbits(31),
        random.getrandbits(62),
    )


def size_of(message: NewMessage) -> int:
    """The size of a message's record without a seal, in bytes: an IPv6 host takes 12 more than an IPv4 host."""
    longer = [message.born_host, message.store_host].count(V6) + [message.born_host, message.store_host].count(OTHER_V6)
    return HEAD_SIZE + len(message.body) + 1 + len(message.topic) + 2 + len(message.properties) + 12 * longer


def as_v2(raw: bytes, magic: int = MAGIC_V2) -> bytes:
    """The same record as 5.x writes it under the second magic: a topic length of two bytes."""
    stored = decode(raw)
    middle = len(raw) - 1 - len(stored.topic) - 2 - len(stored.properties)
    return start_struct.pack(len(raw) + 1, magic) + raw[8:middle] + b"\0" + raw[middle:]


def rebuilt(parsed: StoredMessage) -> dict[str, object]:
    """Return the values that construct builds the same record from."""
    topic = parsed.topic.encode()
    return {
        **parsed._asdict(),
        "body_length": len(parsed.body),
        "topic_length": len(topic),
        "topic": topic,
        "properties_length": len(parsed.properties),
    }


class EncodeTests(SynchronousTestCase):
    def test_vector(self) -> None:
        """The bytes that the official encoder makes of a message."""
        self.assertEqual(encode(spec_message(), 5, 1000, 1600000000001), bytes.fromhex(FROM_SPEC))

    def test_head(self) -> None:
        """The head of a record with IPv4 hosts has 88 bytes, and its packer is made from the schema."""
        self.assertEqual((HEAD_SIZE, HEAD_STRUCT.format), (88, ">iiiiiqqiq8sq8siqi"))

    def test_agrees_with_construct(self) -> None:
        """Schema and packer make and read the same bytes of random messages, hosts of both families."""
        random = Random(6)
        hosts = set()
        for _ in range(300):
            message = random_message(random)
            raw = encode(message, random.getrandbits(40), random.getrandbits(50), random.getrandbits(41) + 1)
            parsed = decode(raw)
            self.assertEqual(len(raw), size_of(message))
            self.assertEqual(RECORD.build(rebuilt(parsed)), raw)
            fields = RECORD.parse(raw)
            self.assertEqual({name: fields[name] for name in rebuilt(parsed)}, rebuilt(parsed))
            self.assertEqual((parsed.born_host, parsed.store_host), (message.born_host, message.store_host))
            self.assertEqual(parsed.body, message.body)
            hosts.add(parsed.sys_flag & (BORN_V6 | STORE_V6))
        self.assertEqual(hosts, {0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6})

    def test_host_flags(self) -> None:
        """The IPv6 bits follow from the hosts, whatever the client's sys flag says."""
        message = spec_message()
        message.sys_flag = 0x33
        self.assertEqual(decode(encode(message, 0, 0, 1)).sys_flag, 0x03)
        message.born_host, message.sys_flag = V6, 0
        self.assertEqual(decode(encode(message, 0, 0, 1)).sys_flag, BORN_V6)
        message.store_host = b"short"
        self.assertRaises(ValueError, encode, message, 0, 0, 1)

    def test_crc(self) -> None:
        """The CRC covers the body as stored and has 31 bits."""
        for body in (b"", b"Hello", b"x" * 5000, memoryview(b"view")):
            message = NewMessage("T", 0, body, b"")
            self.assertEqual(decode(encode(message, 0, 0, 1)).crc, crc32(body) & 0x7FFFFFFF)

    def test_topic_limit(self) -> None:
        """A topic has at most 127 bytes."""
        self.assertEqual(decode(encode(NewMessage("t" * 127, 0, b"", b""), 0, 0, 1)).topic, "t" * 127)
        self.assertRaises(MessageIllegal, encode, NewMessage("t" * 128, 0, b"", b""), 0, 0, 1)
        self.assertRaises(MessageIllegal, encode, NewMessage("é" * 64, 0, b"", b""), 0, 0, 1)

    def test_properties_limit(self) -> None:
        """Properties have at most 32 767 bytes, the seal included."""
        self.assertEqual(len(decode(encode(NewMessage("T", 0, b"", bytes(32767)), 0, 0, 1)).properties), 32767)
        self.assertRaises(MessageIllegal, encode, NewMessage("T", 0, b"", bytes(32768)), 0, 0, 1)
        self.assertRaises(MessageIllegal, encode, NewMessage("T", 0, b"", bytes(32767)), 0, 0, 1, True)

    def test_ranges(self) -> None:
        """A number outside its field, or a record longer than any frame, is refused rather than cut."""
        for message in (
            NewMessage("T", 1 << 31, b"", b""),
            NewMessage("T", 0, b"", b"", flag=-(1 << 31) - 1),
            NewMessage("T", 0, b"", b"", born_ms=1 << 63),
            NewMessage("T", 0, bytes(record.SIZE_LIMIT), b""),
        ):
            self.assertRaises(MessageIllegal, encode, message, 0, 0, 1)

    def test_blank(self) -> None:
        """A blank names the room that is left, and is 8 bytes."""
        raw = encode_blank(10833)
        self.assertEqual(raw.hex(), "00002a51cbd43194")
        self.assertEqual(BLANK.parse(raw).size, 10833)


class SealTests(SynchronousTestCase):
    def sealed(self, properties: bytes) -> bytes:
        """A record that carries its own CRC."""
        message = spec_message()
        message.properties = properties
        raw = encode(message, 5, 1000, 1600000000001, seal=True)
        ended = not properties or properties.endswith(b"\x02")
        self.assertEqual(len(raw), size_of(message) + SEAL_SIZE + (0 if ended else 1))
        return raw

    def test_form(self) -> None:
        """The seal is RocketMQ 5's: ten digits, lowest first, over the record before it."""
        for properties in (b"", b"TAGS\x01TagA", b"TAGS\x01TagA\x02"):
            raw = self.sealed(properties)
            value = crc32(raw[:-SEAL_SIZE]) & 0x7FFFFFFF
            digits = b"".join(str(value // 10**place % 10).encode() for place in range(10))
            self.assertEqual(raw[-SEAL_SIZE:], b"__CRC32#\x01" + digits + b"\x02")
            self.assertEqual(check(raw, 0, 1000).size, len(raw))

    def test_guards_head(self) -> None:
        """A flipped bit anywhere in a sealed record is found, but for the digits' own and the mark's."""
        raw = self.sealed(b"TAGS\x01TagA")
        for at in range(len(raw) - SEAL_SIZE):
            broken = bytearray(raw)
            broken[at] ^= 1
            self.assertRaises(BadRecord, check, bytes(broken), 0, 1000)
            if at == 76:  # prepared offset: only the seal knows
                check(bytes(broken), 0, 1000, verify_crc=False)

    def test_absent(self) -> None:
        """Properties that only look like a seal are no seal; zero digits mean that the writer had no CRC."""
        for properties in (b"__CRC32#\x01123\x02", b"x\x01__CRC32#", b"__CRC32#\x010000000000\x02"):
            message = spec_message()
            message.properties = properties
            check(encode(message, 0, 0, 1), 0, 0)


class DecodeTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A record to spoil."""
        self.raw = bytes.fromhex(FROM_SPEC)

    def spoil(self, at: int, code: str, value: int) -> bytes:
        """The record with one number changed."""
        broken = bytearray(self.raw)
        struct.pack_into(code, broken, at, value)
        return bytes(broken)

    def test_vector(self) -> None:
        """Every field of the reference record."""
        self.assertEqual(
            decode(self.raw),
            StoredMessage(
                114,
                MAGIC,
                2010220930,
                2,
                0,
                5,
                1000,
                0,
                1600000000000,
                V4,
                1600000000001,
                OTHER_V4,
                0,
                0,
                b"Hello",
                "TopicTest",
                b"TAGS\x01TagA",
            ),
        )
        self.assertEqual(decode(self.raw).message_id, "0A00000200002A9F00000000000003E8")

    def test_view(self) -> None:
        """From a memoryview the body is a piece of it, from bytes it is bytes; the rest is the same."""
        padded = b"xyz" + self.raw + b"tail"
        of_view, of_bytes = decode(memoryview(padded), 3), decode(padded, 3)
        self.assertIsInstance(of_view.body, memoryview)
        self.assertIsInstance(of_bytes.body, bytes)
        self.assertEqual(of_view, of_bytes)
        self.assertIsInstance(of_view.properties, bytes)

    def test_every_cut(self) -> None:
        """A record that is cut at any byte is no record."""
        for raw in (self.raw, as_v2(self.raw), encode(NewMessage("T", 0, b"b", b"p", born_host=V6), 0, 0, 1)):
            for cut in range(len(raw)):
                self.assertRaises(BadRecord, decode, raw[:cut])
            decode(raw)

    def test_sizes(self) -> None:
        """Sizes that do not add up are refused, too large, too small or negative."""
        for at, code, good in ((0, ">i", 114), (84, ">i", 5), (93, ">b", 9), (103, ">h", 9)):
            for value in (good + 1, good - 1, 0, -1, 127):
                self.assertRaises(BadRecord, decode, self.spoil(at, code, value) + bytes(300))

    def test_negative_lengths(self) -> None:
        """Lengths are signed: what reads as 128 or more is negative, even if the sizes would add up so."""
        head = HEAD_STRUCT.pack(91 + 200, MAGIC, 0, 0, 0, 0, 0, 0, 1, V4, 1, V4, 0, 0, 0)
        self.assertRaises(BadRecord, decode, head + b"\xc8" + b"t" * 200 + b"\0\0")
        head = HEAD_STRUCT.pack(92 + 32768, MAGIC, 0, 0, 0, 0, 0, 0, 1, V4, 1, V4, 0, 0, 0)
        self.assertRaises(BadRecord, decode, head + b"\x01t" + b"\x80\0" + bytes(32768))

    def test_magics(self) -> None:
        """The second magic has a longer topic length; the SmartGo dialect's is read; no other is."""
        self.assertEqual(decode(as_v2(self.raw))[3:], decode(self.raw)[3:])
        fields = RECORD.parse(as_v2(self.raw))
        self.assertEqual((fields.topic, fields.properties), (b"TopicTest", b"TAGS\x01TagA"))
        self.assertEqual(decode(self.spoil(4, ">i", SMARTGO_MAGIC)).topic, "TopicTest")
        for magic in (0, MAGIC + 1, record.BLANK_MAGIC, SMARTGO_BLANK_MAGIC):
            self.assertRaises(BadRecord, decode, self.spoil(4, ">i", magic))

    def test_topic_not_text(self) -> None:
        """A topic that is no UTF-8 is refused."""
        self.assertRaises(BadRecord, decode, self.spoil(94, ">B", 0xFF))

    def test_check(self) -> None:
        """Every rule of validity is one that a record can break."""
        check(self.raw, 0, 1000)
        for at, code, value, reason in (
            (28, ">q", 1001, "physical offset 1001 at 1000"),
            (12, ">i", -1, "queue id -1"),
            (20, ">q", -1, "queue offset -1"),
            (56, ">q", 0, "store timestamp 0"),
            (94, ">B", ord("."), "topic '.opicTest'"),
            (88, ">B", ord("h"), "body CRC differs"),
            (8, ">i", 1, "body CRC differs"),
        ):
            error = self.assertRaises(BadRecord, check, self.spoil(at, code, value), 0, 1000)
            self.assertEqual(str(error), reason)
        self.assertRaises(BadRecord, check, self.raw, 0, 999)
        self.assertRaises(BadRecord, check, self.raw, 0, 1000, limit=113)
        check(self.spoil(8, ">i", 1), 0, 1000, verify_crc=False)

    def test_born_is_the_clients(self) -> None:
        """A message whose client gave no birth time is a valid one."""
        self.assertEqual(check(self.spoil(40, ">q", 0), 0, 1000).born_ms, 0)

    def test_unmasked_crc(self) -> None:
        """The dialect's CRC with its top bit set is the same on 31 bits."""
        message = NewMessage("T", 0, b"\0\0", b"")
        raw = bytearray(encode(message, 0, 0, 1))
        struct.pack_into(">I", raw, 8, struct.unpack_from(">I", raw, 8)[0] | 1 << 31)
        self.assertLess(check(bytes(raw), 0, 0).crc, 0)

    def test_random_bytes(self) -> None:
        """Nothing that is no record gets through as anything but a refusal."""
        random = Random(7)
        for _ in range(3000):
            broken = bytearray(self.raw)
            for _ in range(random.randint(1, 6)):
                broken[random.randrange(len(broken))] = random.choice([0, 1, 127, 128, 255, random.getrandbits(8)])
            try:
                message = decode(bytes(broken))
            except BadRecord:
                continue
            self.assertEqual(RECORD.build(rebuilt(message)), bytes(broken))


class GoldenTests(SynchronousTestCase):
    def test_rebuilt(self) -> None:
        """Every real record, taken apart and put together as a message, gives its bytes again."""
        for name in golden_store.NAMES:
            for base, data in golden_store.read(name).logs():
                for stored in scan(data, 0, base):
                    message = NewMessage(
                        stored.topic,
                        stored.queue_id,
                        stored.body,
                        stored.properties,
                        stored.flag,
                        stored.sys_flag,
                        stored.born_ms,
                        stored.born_host,
                        stored.store_host,
                        stored.reconsume_times,
                        stored.prepared_offset,
                    )
                    at = stored.physical_offset - base
                    self.assertEqual(
                        encode(message, stored.queue_offset, stored.physical_offset, stored.stored_ms),
                        data[at : at + stored.size],
                    )
