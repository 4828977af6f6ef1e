"""Tests of L{smartgo.schema.index}."""

from __future__ import annotations

import hashlib
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.index import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    Entry,
    Geometry,
    IndexHeader,
    chain,
    entry_struct,
    file_name,
    is_file_name,
    key_hash,
    key_hashes,
    key_text,
    keys_of,
    seconds_since,
    slot_struct,
)
from smartgo.schema.message import COMMIT, PREPARED, ROLLBACK
from smartgo.schema.properties import encode
from smartgo.schema.recordscan import scan
from tests import golden_store
from tests.doctests import DocTestCase

GEOMETRY = Geometry(golden_store.INDEX_SLOTS, golden_store.INDEX_ENTRIES)


class ExampleTests(DocTestCase, module="smartgo.schema.index"):
    """The examples in its docstrings."""


class LayoutTests(SynchronousTestCase):
    def test_sizes(self) -> None:
        """A header has 40 bytes, a slot 4, an entry 20; a default file 420 000 040."""
        self.assertEqual((HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE), (40, 4, 20))
        self.assertEqual((SLOT.sizeof(), Geometry().size, GEOMETRY.size), (4, 420_000_040, 8440))

    def test_both_readers(self) -> None:
        """Schema and packers agree on random headers and entries."""
        random = Random(10)
        for _ in range(100):
            header = IndexHeader._make(
                [*(random.getrandbits(60) for _ in range(4)), random.getrandbits(31), random.getrandbits(31)]
            )
            self.assertEqual(HEADER.build(header._asdict()), header.pack())
            self.assertEqual(IndexHeader.unpack(b"x" + header.pack(), 1), header)
            entry = Entry(
                random.getrandbits(31), random.getrandbits(60), random.getrandbits(31), random.getrandbits(31)
            )
            self.assertEqual(ENTRY.build(entry._asdict()), entry.pack())
            self.assertEqual(Entry.unpack(b"x" + entry.pack(), 1), entry)

    def test_new_header(self) -> None:
        """A new file counts from 1 and has begun at nothing."""
        self.assertEqual(IndexHeader().pack(), bytes(36) + b"\0\0\0\1")

    def test_full(self) -> None:
        """A file takes one key less than it has entries, as entry 0 is not used."""
        self.assertFalse(GEOMETRY.is_full(399))
        self.assertTrue(GEOMETRY.is_full(400))

    def test_places(self) -> None:
        """Slots follow the header, entries the slots."""
        self.assertEqual((GEOMETRY.slot_at(0), GEOMETRY.slot_at(199)), (40, 40 + 99 * 4))
        self.assertEqual((GEOMETRY.entry_at(0), GEOMETRY.entry_at(399) + ENTRY_SIZE), (440, GEOMETRY.size))


class KeyTests(SynchronousTestCase):
    def test_hash(self) -> None:
        """The hash is the absolute value of Java's; the lowest integer has none and becomes 0."""
        self.assertEqual(key_hash("polygenelubricants"), 0)
        self.assertEqual(key_hash("TagA"), 2598919)
        self.assertEqual(key_hash("T#k"), abs(key_hash("T#k")))

    def test_hashes(self) -> None:
        """Hashing many texts at once gives the same, few or many, with any characters."""
        random = Random(11)
        for count in (0, 1, 15, 16, 17, 300):
            for letters in ("abc019", "ab标😀"):
                texts = ["".join(random.choices(letters, k=random.choice([0, 1, 38, 200]))) for _ in range(count)]
                texts += ["polygenelubricants"] * (count > 0)
                self.assertEqual(key_hashes(texts), [key_hash(text) for text in texts])

    def test_keys_of(self) -> None:
        """The unique key comes first, then the words of KEYS; a rollback has none."""
        raw = encode({"KEYS": " a  b ", "UNIQ_KEY": "U", "TAGS": "t"})
        for flag in (0, PREPARED, COMMIT):
            self.assertEqual(keys_of(raw, flag), ["U", "a", "b"])
        self.assertEqual(keys_of(raw, ROLLBACK), [])
        self.assertEqual(keys_of(encode({"KEYS": "a"}), 0), ["a"])
        self.assertEqual(keys_of(b"", 0), [])

    def test_seconds(self) -> None:
        """Seconds count from the file's begin, never below 0 nor above an int32, and are 0 while there is no begin."""
        cases = [(1000, 1999, 0), (1000, 2000, 1), (1000, 500, 0), (0, 10**13, 0), (1, 10**13, 0x7FFFFFFF)]
        for begin, stored, seconds in cases:
            self.assertEqual(seconds_since(begin, stored), seconds)
        self.assertEqual(Entry(0, 0, 7, 0).stored_ms(1000), 8000)


class FileNameTests(SynchronousTestCase):
    def test_golden(self) -> None:
        """A file is named after the moment it was made, in local time."""
        self.assertEqual(file_name(1795259806448), "20261121111646448")
        self.assertEqual(file_name(1795259806448 - 8 * 3_600_000, 8 * 3600), "20261121111646448")
        self.assertEqual(file_name(999), "19700101000000999")

    def test_is(self) -> None:
        """Seventeen digits are such a name, nothing else."""
        self.assertTrue(is_file_name("20261121111646448"))
        for name in ("", "2026112111164644", "202611211116464480", "2026112111164644x", "2026112111164644\u0661"):
            self.assertFalse(is_file_name(name))


class ChainTests(SynchronousTestCase):
    def made(self, entries: list[Entry], newest: int) -> bytes:
        """A file with these entries, numbered from 1, and one slot set."""
        data = bytearray(GEOMETRY.size)
        data[:HEADER_SIZE] = IndexHeader(index_count=1 + len(entries)).pack()
        slot_struct.pack_into(data, GEOMETRY.slot_at(5), newest)
        for number, entry in enumerate(entries, 1):
            entry_struct.pack_into(data, GEOMETRY.entry_at(number), *entry)
        return bytes(data)

    def test_order(self) -> None:
        """A chain goes from the newest to the oldest and leaves out other hashes of the same slot."""
        data = self.made([Entry(5, 10, 0, 0), Entry(105, 20, 0, 1), Entry(5, 30, 0, 2)], 3)
        self.assertEqual([entry.offset for entry in chain(data, GEOMETRY, 5)], [30, 10])
        self.assertEqual([entry.offset for entry in chain(data, GEOMETRY, 105)], [20])
        self.assertEqual(list(chain(data, GEOMETRY, 6)), [])

    def test_damaged(self) -> None:
        """A loop, a pointer forward or one past the count ends the chain."""
        for entries, newest, offsets in (
            ([Entry(5, 10, 0, 1)], 1, [10]),
            ([Entry(5, 10, 0, 2), Entry(5, 20, 0, 1)], 2, [20, 10]),
            ([Entry(5, 10, 0, -7)], 1, [10]),
            ([Entry(5, 10, 0, 0)], 2, []),
            ([Entry(5, 10, 0, 0)], -1, []),
            ([Entry(5, 10, 0, 0)], 0x7FFFFFFF, []),
        ):
            data = self.made(entries, newest)
            self.assertEqual([entry.offset for entry in chain(data, GEOMETRY, 5)], offsets)
        full = bytearray(self.made([], 0x7FFFFFF0))
        full[:HEADER_SIZE] = IndexHeader(index_count=0x7FFFFFFF).pack()
        self.assertEqual(list(chain(bytes(full), GEOMETRY, 5)), [])

    def test_golden(self) -> None:
        """Every entry of every real index file is reached from its slot and is where RocketMQ would have put it."""
        for name in golden_store.NAMES:
            store = golden_store.read(name)
            manifest = {each["file"]: each for each in store.manifest["indexFiles"]}
            stored = {
                message.physical_offset: message for base, data in store.logs() for message in scan(data, 0, base)
            }
            files = store.below("index")
            self.assertEqual([file for file, _ in files], sorted(manifest))
            indexed: list[tuple[int, int]] = []
            for file, data in files:
                self.assertEqual(hashlib.sha256(data).hexdigest(), manifest[file]["sha256"])
                header = IndexHeader.unpack(data)
                self.assertEqual(
                    header,
                    IndexHeader(
                        manifest[file]["beginTimestamp"],
                        manifest[file]["endTimestamp"],
                        manifest[file]["beginPhyOffset"],
                        manifest[file]["endPhyOffset"],
                        manifest[file]["hashSlotCount"],
                        manifest[file]["indexCount"],
                    ),
                )
                parsed = HEADER.parse(data)
                self.assertEqual(header, IndexHeader(**{field: parsed[field] for field in IndexHeader._fields}))
                self.assertEqual(len(data), GEOMETRY.size)
                slots = [slot_struct.unpack_from(data, GEOMETRY.slot_at(slot))[0] for slot in range(GEOMETRY.slots)]
                self.assertEqual(sum(slot > 0 for slot in slots), header.used_slots)
                newest = [0] * GEOMETRY.slots
                for number in range(1, header.index_count):
                    entry = Entry.unpack(data, GEOMETRY.entry_at(number))
                    parsed = ENTRY.parse(data[GEOMETRY.entry_at(number) :])
                    self.assertEqual(entry, Entry(**{field: parsed[field] for field in Entry._fields}))
                    self.assertIn(entry, list(chain(data, GEOMETRY, entry.key_hash)))
                    self.assertEqual(entry.previous, newest[entry.key_hash % GEOMETRY.slots])
                    newest[entry.key_hash % GEOMETRY.slots] = number
                    if number > 1:
                        message = stored[entry.offset]
                        self.assertEqual(entry.seconds, seconds_since(header.begin_ms, message.stored_ms))
                    indexed.append((entry.offset, entry.key_hash))
                self.assertEqual(slots, newest)
            expected = [
                (offset, key_hash(key_text(message.topic, key)))
                for offset, message in stored.items()
                for key in keys_of(message.properties, message.sys_flag)
            ]
            self.assertEqual(indexed, expected)
