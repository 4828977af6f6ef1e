"""Tests of L{smartgo.store.index.indexfile}."""

from __future__ import annotations

import sys
from array import array
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED
from smartgo.schema.columns import numpy_or_none
from smartgo.schema.index import FIRST_ENTRY, Entry, Geometry, IndexHeader, seconds_since, slot_struct
from smartgo.schema.indexkeys import Keys
from smartgo.store.index import indexfile
from smartgo.store.index.indexfile import IndexFile
from smartgo.store.index.runkeys import index_put, pure_index_put

BEGIN_MS = 1_700_000_000_000


def one_by_one(geometry: Geometry, keys: list[tuple[int, int, int]]) -> bytes:
    """Return the file that has these keys, as C{IndexFile.putKey} writes one after the other."""
    data = bytearray(geometry.size)
    header = IndexHeader()
    for key_hash, offset, stored_ms in keys:
        count = header.index_count
        at = geometry.slot_at(key_hash)
        (previous,) = slot_struct.unpack_from(data, at)
        used = header.used_slots + (previous == 0)
        entry = Entry(key_hash, offset, seconds_since(header.begin_ms, stored_ms), previous)
        data[geometry.entry_at(count) : geometry.entry_at(count + 1)] = entry.pack()
        data[at : at + 4] = count.to_bytes(4, "big")
        if count == FIRST_ENTRY:
            header = header._replace(begin_ms=stored_ms, begin_offset=offset)
        header = header._replace(end_ms=stored_ms, end_offset=offset, used_slots=used, index_count=count + 1)
    data[: len(header.pack())] = header.pack()
    return bytes(data)


def random_keys(random: Random, count: int) -> list[tuple[int, int, int]]:
    """Return keys with store times that mostly grow, as the log has them; some hashes are there more than once."""
    found = []
    offset, stored_ms = random.randrange(1 << 50), BEGIN_MS
    for _ in range(count):
        offset += random.randrange(1, 5000)
        stored_ms += random.choice((0, 0, 1, 700, -300, 10**6))
        found.append((random.choice((random.randrange(1 << 31), random.randrange(40))), offset, stored_ms))
    return found


class PutTests(SynchronousTestCase):
    """Keys put into a file by the run."""

    def written(self, geometry: Geometry, keys: list[tuple[int, int, int]], random: Random, kind: str) -> bytes:
        """Put keys in runs, and return the file."""
        data = bytearray(geometry.size)
        file = IndexFile("20300101000000000", geometry, IndexHeader(), 0)
        file.open(memoryview(data))
        file.begin_after(IndexHeader())
        file.make_ready(geometry.size)
        left = Keys(*(list(column) for column in zip(*keys, strict=True)))
        np = numpy_or_none() if kind == "numpy" else None
        if kind == "array":
            left = Keys(*(array(code, column) for column, code in zip(left, "iqq", strict=True)))
        elif np is not None:
            left = Keys(*(np.array(column, code) for column, code in zip(left, ("i4", "i8", "i8"), strict=True)))
        while left:
            run = random.randrange(1, 200)
            file.put(Keys(*(column[:run] for column in left)))
            left = left.after(run)
        file.close()
        return bytes(data)

    def test_any_run(self) -> None:
        """However keys are cut into runs, with the core, numpy or neither, the bytes are as of one after another."""
        random = Random(11)
        for slots in (1, 7, 5000):
            geometry = Geometry(slots, 1200)
            keys = random_keys(random, 1000)
            wanted = one_by_one(geometry, keys)
            for kind in ("list", "array", "numpy"):
                for fewest, put in (
                    (1, index_put),
                    (1, pure_index_put),
                    (64, pure_index_put),
                    (1 << 30, pure_index_put),
                ):
                    self.patch(indexfile, "FEWEST", fewest)
                    self.patch(indexfile, "index_put", put)
                    self.assertEqual(self.written(geometry, keys, random, kind), wanted)

    def test_damaged_slot(self) -> None:
        """A slot that leads nowhere counts as free."""
        geometry = Geometry(7, 300)
        for slot in (-5, 2, 60, 99999):
            found = []
            for fewest, put in ((1, pure_index_put), (1 << 30, pure_index_put), (1, index_put)):
                self.patch(indexfile, "FEWEST", fewest)
                self.patch(indexfile, "index_put", put)
                data = bytearray(geometry.size)
                file = IndexFile("20300101000000000", geometry, IndexHeader(), 0)
                file.open(memoryview(data))
                file.begin_after(IndexHeader())
                file.make_ready(geometry.size)
                data[geometry.slot_at(3) : geometry.slot_at(4)] = slot.to_bytes(4, "big", signed=True)
                keys = Keys(array("i", [1, 3, 3] * 30), array("q", range(90)), array("q", [BEGIN_MS] * 90))
                file.put(keys)
                self.assertEqual(file.header.used_slots, 1 if slot == 2 else 2)
                self.assertEqual(Entry.unpack(bytes(data), geometry.entry_at(2)).previous, 2 if slot == 2 else 0)
                self.assertEqual(Entry.unpack(bytes(data), geometry.entry_at(3)).previous, 2)
                file.close()
                found.append(bytes(data))
            self.assertEqual(found[1:], found[:1] * 2)


class CompiledTests(SynchronousTestCase):
    """Keys that compiled code puts, and what it leaves to Python."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def setUp(self) -> None:
        """Make a file of five slots and room for three entries, number 0 included."""
        self.data = bytearray(40 + 5 * 4 + 3 * 20)
        self.columns = Keys(array("i", [7, 12]), array("q", [1 << 40, -1]), array("q", [BEGIN_MS + 1999, BEGIN_MS - 1]))

    def put(self, **changes: Any) -> int | None:
        """Put with some arguments changed."""
        values: dict[str, Any] = {
            "view": memoryview(self.data), "slots_at": 40, "slots": 5, "first": 1, "begin_ms": BEGIN_MS,
            "columns": self.columns, **changes,
        }  # fmt: skip
        return index_put(*values.values())

    def test_put(self) -> None:
        """Entries and slots are written, and no other byte."""
        self.assertEqual(self.put(), 1)
        first, second = (Entry.unpack(bytes(self.data), 60 + number * 20) for number in (1, 2))
        self.assertEqual((first, second), (Entry(7, 1 << 40, 1, 0), Entry(12, -1, 0, 1)))
        slots = bytes(8) + (2).to_bytes(4, "big") + bytes(8)
        self.assertEqual(bytes(self.data[:80]), bytes(40) + slots + bytes(20))

    def test_seconds(self) -> None:
        """Seconds count from the file's begin, from 0 to the highest; without a begin they are 0."""
        for begin, stored, seconds in (
            (BEGIN_MS, BEGIN_MS + 999, 0), (BEGIN_MS, BEGIN_MS + 1000, 1), (0, BEGIN_MS, 0), (-5, BEGIN_MS, 0),
            (1, sys.maxsize, 0x7FFFFFFF), (1, 0x7FFFFFFE * 1000 + 1, 0x7FFFFFFE), (1, -sys.maxsize - 1, 0),
        ):  # fmt: skip
            self.setUp()
            self.columns.stored_ms[0] = stored  # type: ignore[index]
            self.put(begin_ms=begin)
            self.assertEqual(Entry.unpack(bytes(self.data), 80).seconds, seconds)
            self.assertEqual(seconds, seconds_since(begin, stored))

    def test_not_taken(self) -> None:
        """What does not fit, or has another form, changes nothing."""
        hashes, offsets, stored = self.columns
        for changes in (
            {"columns": ([7, 12], [1, 2], [3, 4])},
            {"columns": (array("q", [7, 12]), offsets, stored)},
            {"columns": (hashes, array("q", [1]), stored)},
            {"columns": (hashes, offsets, array("i", [1, 2]))},
            {"columns": (array("i", [7, -1]), offsets, stored)},
            {"columns": (hashes, offsets, memoryview(array("q", range(4)))[::2])},
            {"view": memoryview(self.data)[:-1]},
            {"view": memoryview(bytes(self.data))},
            {"view": memoryview(bytearray(200))[1:]},
            {"first": 2},
            {"first": 0},
            {"slots": 6},
            {"slots": 0},
            {"slots_at": -4},
            {"slots_at": 44},
        ):
            self.assertIsNone(self.put(**changes), changes)
            self.assertEqual(bytes(self.data), bytes(len(self.data)))
