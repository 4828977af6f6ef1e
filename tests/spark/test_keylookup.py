"""Tests of L{smartgo.spark.keylookup} and L{smartgo.spark.keyfilter}: the same messages with any index, and without."""

from __future__ import annotations

import os
from random import Random
from typing import Any

from smartgo.errors import SettingError
from smartgo.schema.index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    Entry,
    Geometry,
    IndexHeader,
    key_hash,
    key_text,
    keys_of,
)
from smartgo.schema.message import NewMessage
from smartgo.schema.record import decode
from smartgo.spark.conditions import of_options
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import parse
from smartgo.spark.partitions import plan
from smartgo.spark.stores import find_stores
from tests.spark.logs import LogWriter, patch, rows, write
from tests.spark.test_reader import Case

SIZE = 1 << 16
GEOMETRY = Geometry(500, 2000)


class KeyTests(Case):
    """A log of six files whose messages have keys of a few words, and ids of their own."""

    def setUp(self) -> None:
        """Write it."""
        super().setUp()
        self.writer = LogWriter(self.root, file_size=SIZE)
        random = Random(5)
        while self.writer.begin < 5 * SIZE:
            number = len(self.writer.written)
            keys = " ".join(random.sample([f"k{one}" for one in range(300)], random.randrange(3)))
            pairs = f"UNIQ_KEY\x01ID{number:05d}\x02" + (f"KEYS\x01{keys}\x02" if keys else "")
            topic = random.choice(["T", "U"])
            self.writer.add(NewMessage(topic, 0, random.randbytes(400), pairs.encode()), stored_ms=10**12 + number)
        self.writer.close()
        self.messages = [decode(raw) for _, raw in self.writer.written]

    def index(self, name: str, first: int, last: int) -> str:
        """Write the index of some messages, as a broker does; return its path."""
        packed = [bytes(ENTRY_SIZE)]
        slots = [0] * GEOMETRY.slots
        chosen = [one for one in self.messages if first <= one.physical_offset <= last]
        for message in chosen:
            for key in keys_of(message.properties, 0):
                code = key_hash(key_text(message.topic, key))
                previous, slots[code % GEOMETRY.slots] = slots[code % GEOMETRY.slots], len(packed)
                packed.append(Entry(code, message.physical_offset, 0, previous).pack())
        begin, end = chosen[0], chosen[-1]
        used = sum(map(bool, slots))
        header = IndexHeader(
            begin.stored_ms, end.stored_ms, begin.physical_offset, end.physical_offset, used, len(packed)
        )
        raw = header.pack() + b"".join(one.to_bytes(4, "big") for one in slots) + b"".join(packed)
        path = os.path.join(self.root, "index", name)
        write(path, raw.ljust(GEOMETRY.size, b"\0"))
        return path

    def whole_index(self) -> list[str]:
        """Write two index files that cover the log."""
        middle = self.messages[len(self.messages) // 2].physical_offset
        return [self.index("20260101000000000", 0, middle), self.index("20260101000000001", middle + 1, 1 << 40)]

    def expected(self, key: str, topic: str | None = "T") -> list[int]:
        """The places of the messages that have a key."""
        return [
            one.physical_offset
            for one in self.messages
            if key in keys_of(one.properties, 0) and topic in (None, one.topic)
        ]

    def found(self, **options: str) -> list[int]:
        """The places of the messages that are read."""
        columns = ["physical_offset", "topic"]
        given: dict[str, Any] = {"partitionBytes": "64k", **options}
        return sorted(row["physical_offset"] for row in rows(self.root, columns=columns, **given))

    def bytes_read(self, **options: str) -> int:
        """How much of the log a read looks through."""
        given = parse({"path": self.root, "partitionBytes": "64k", **options})
        parts = plan(find_stores([self.root]), given, of_options(given))
        return sum(part.end - part.begin for part in parts if isinstance(part, LogRange))

    def check_all(self) -> None:
        """Fail unless some keys and ids lead to their messages and no others."""
        for number in range(0, 300, 25):
            self.assertEqual(self.found(key=f"k{number}", subscribe="T"), self.expected(f"k{number}"))
        for message in self.messages[::50]:
            (unique, *_) = keys_of(message.properties, 0)
            self.assertEqual(self.found(uniqueKey=unique, subscribe="T,U"), [message.physical_offset])

    def test_filter(self) -> None:
        """Without an index, or a topic, the log is read, and the messages of the key are the rows."""
        self.check_all()
        self.assertEqual(self.found(key="k7"), self.expected("k7", None))
        self.assertEqual(self.found(key="k"), [])
        self.assertEqual(self.found(uniqueKey="ID0000"), [])
        (message, *_) = [one for one in self.messages if len(keys_of(one.properties, 0)) > 1]
        unique, key = keys_of(message.properties, 0)[:2]
        self.assertEqual(self.found(key=key, uniqueKey=unique), [message.physical_offset])
        self.assertEqual(self.found(key="other", uniqueKey=unique), [])

    def test_index(self) -> None:
        """An index that covers the log leads to the messages; little else is read."""
        whole = self.bytes_read(subscribe="T")
        self.whole_index()
        self.check_all()
        self.assertLess(self.bytes_read(key="k7", subscribe="T"), whole // 2)
        self.assertEqual(self.bytes_read(key="k7"), whole)

    def test_part(self) -> None:
        """What an index does not cover is read: what comes before, behind, or between its entries."""
        self.index("20260101000000000", SIZE, 3 * SIZE)
        self.check_all()
        self.index("20260101000000001", 4 * SIZE, 1 << 40)
        self.check_all()

    def test_torn(self) -> None:
        """An index that lacks entries, or does not fit together, is not believed."""
        for number in range(2):
            for at, data in (
                (36, (200).to_bytes(4, "big")),  # fewer entries than there are
                (HEADER_SIZE, bytes(GEOMETRY.slots * SLOT_SIZE)),
                (GEOMETRY.entry_at(30), bytes(40 * ENTRY_SIZE)),
                (GEOMETRY.entry_at(1), bytes(GEOMETRY.entries * ENTRY_SIZE - ENTRY_SIZE)),
                (0, bytes(HEADER_SIZE)),
            ):
                path = self.whole_index()[number]
                patch(path, at, data)
                self.check_all()
            os.truncate(self.whole_index()[number], GEOMETRY.entry_at(50))
            self.check_all()

    def test_random_zeros(self) -> None:
        """Wherever pages of an index are missing, the messages are the same."""
        random = Random(1)
        wanted = {f"k{number}": self.expected(f"k{number}") for number in random.sample(range(300), 40)}
        for key, expected in wanted.items():
            path = random.choice(self.whole_index())
            begin = random.randrange(GEOMETRY.size)
            patch(path, begin, bytes(min(512, GEOMETRY.size - begin)))
            self.assertEqual(self.found(key=key, subscribe="T"), expected)

    def test_refused(self) -> None:
        """A key is one word."""
        for name in ("key", "uniqueKey"):
            for wrong in ("", "a b"):
                self.assertRaises(SettingError, parse, {"path": self.root, name: wrong})
