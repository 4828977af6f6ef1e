"""Tests of L{smartgo.schema.message}."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadHeader
from smartgo.schema.message import (
    OFFSET_ID,
    OFFSET_ID_V6,
    UNIQUE_ID,
    UNIQUE_ID_V6,
    NewMessage,
    UniqueId,
    message_id,
    pack_host,
    parse_message_id,
    unique_id_ms,
    unpack_host,
)
from tests import golden_store
from tests.doctests import DocTestCase


def ms(*date: int) -> int:
    """Milliseconds since the epoch of a moment in UTC."""
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type, misc]


class ExampleTests(DocTestCase, module="smartgo.schema.message"):
    """The examples in its docstrings."""


class HostTests(SynchronousTestCase):
    def test_both_families(self) -> None:
        """A host is its address bytes and the port as int32."""
        self.assertEqual(pack_host("10.0.0.1", 5555).hex(), "0a000001000015b3")
        self.assertEqual(pack_host("::1", 1).hex(), "00" * 15 + "01" + "00000001")
        for ip, port in (("127.0.0.1", 0), ("255.1.2.3", 65535), ("2001:db8::7", 10911)):
            self.assertEqual(unpack_host(pack_host(ip, port)), (ip, port))

    def test_dressed(self) -> None:
        """An IPv4 address from an IPv6 socket is IPv4, and a scope is not part of the address."""
        self.assertEqual(pack_host("::ffff:10.0.0.1", 1), pack_host("10.0.0.1", 1))
        self.assertEqual(pack_host("fe80::1%eth0", 1), pack_host("fe80::1", 1))

    def test_bad(self) -> None:
        """A name is no address, and a host has 8 or 20 bytes."""
        self.assertRaises(ValueError, pack_host, "localhost", 1)
        for size in (0, 4, 7, 9, 19, 21):
            self.assertRaises(ValueError, unpack_host, bytes(size))


class MessageIdTests(SynchronousTestCase):
    def test_vector(self) -> None:
        """The reference vector of the protocol page."""
        self.assertEqual(message_id(pack_host("10.0.0.2", 10911), 1000), "0A00000200002A9F00000000000003E8")

    def test_round_trip(self) -> None:
        """Host and offset come back, 32 digits for IPv4 and 56 for IPv6, in either case of letters."""
        random = Random(2)
        for ip, digits in (("10.1.2.3", 32), ("2001:db8::7", 56)):
            for _ in range(50):
                host, offset = pack_host(ip, random.getrandbits(16)), random.getrandbits(63)
                text = message_id(host, offset)
                self.assertEqual(len(text), digits)
                self.assertEqual(parse_message_id(text), (host, offset))
                self.assertEqual(parse_message_id(text.lower()), (host, offset))
                schema = OFFSET_ID if digits == 32 else OFFSET_ID_V6
                self.assertEqual(schema.parse(bytes.fromhex(text)).offset, offset)

    def test_bad(self) -> None:
        """Other lengths, other characters and a negative offset are refused."""
        good = message_id(pack_host("10.0.0.2", 10911), 1000)
        negative = good[:16] + "F" + good[17:]
        for text in ("", good[:-1], good[:-2], good + "00", "G" + good[1:], good[:-3] + " 01", "é" * 32, negative):
            self.assertRaises(BadHeader, parse_message_id, text)

    def test_golden(self) -> None:
        """Real ids are made of the real store host and offset."""
        for each in golden_store.read("store-a").manifest["messages"]:
            host, offset = parse_message_id(each["msgId"])
            self.assertEqual(offset, each["physicalOffset"])
            self.assertEqual("{}:{}".format(*unpack_host(host)), "127.0.0.1:21911")
            self.assertEqual(message_id(host, offset), each["msgId"])


class UniqueIdTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """The parts come back, for both families, and the schemas say the same."""
        for schema, address in ((UNIQUE_ID, bytes(range(4))), (UNIQUE_ID_V6, bytes(range(16)))):
            unique = UniqueId(address, 65535, 0xFFFFFFFE, 2_678_399_999, 7)
            self.assertEqual(UniqueId.parse(unique.format()), unique)
            self.assertEqual(schema.build(unique._asdict()), bytes.fromhex(unique.format()))

    def test_bad(self) -> None:
        """What is no such id is refused."""
        for text in ("", "00" * 15, "zz" * 16, "00" * 27):
            self.assertRaises(BadHeader, UniqueId.parse, text)

    def test_this_month(self) -> None:
        """A span that lies in the past of this month is of this month."""
        now = ms(2026, 11, 21, 12)
        self.assertEqual(unique_id_ms(1000, now), ms(2026, 11, 1) + 1000)
        self.assertEqual(unique_id_ms(now - ms(2026, 11, 1) - 1, now), now - 1)

    def test_last_month(self) -> None:
        """A span that would lie in the future is of the month before, over the turn of a year too."""
        self.assertEqual(unique_id_ms(30 * 86_400_000, ms(2026, 11, 2)), ms(2026, 10, 31))
        self.assertEqual(unique_id_ms(86_400_000, ms(2026, 1, 1, 5)), ms(2025, 12, 2))

    def test_local_month(self) -> None:
        """The month begins when it does where the client is."""
        now = ms(2026, 10, 31, 20)  # already November at UTC+8
        self.assertEqual(unique_id_ms(0, now, 8 * 3600), ms(2026, 10, 31, 16))
        self.assertEqual(UniqueId(bytes(4), 0, 0, 0, 0).born_ms(now, 8 * 3600), ms(2026, 10, 31, 16))

    def test_golden(self) -> None:
        """The ids of real messages tell when these were born, to a few milliseconds."""
        for each in golden_store.read("store-a").manifest["messages"]:
            if each["topic"] == "Plain":
                born = UniqueId.parse(each["uniqKey"]).born_ms(each["storeTimestamp"] + 1)
                self.assertLess(abs(born - each["bornTimestamp"]), 100)


class MessageTests(SynchronousTestCase):
    def test_fields(self) -> None:
        """The fields of a message to append stand in the agreed order."""
        made = NewMessage("T", 3, b"body", b"", 1, 2, 4, b"b" * 8, b"s" * 8, 5, 6, 7)
        self.assertEqual(
            (made.flag, made.sys_flag, made.born_ms, made.reconsume_times, made.prepared_offset, made.tag_code),
            (1, 2, 4, 5, 6, 7),
        )
        plain = NewMessage("T", 0, b"", b"")
        self.assertEqual((plain.born_host, plain.store_host), (bytes(8), bytes(8)))
