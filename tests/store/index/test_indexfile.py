"""Tests of L{smartgo.store.index.indexfile}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.columns import numpy_or_none
from smartgo.schema.index import FIRST_ENTRY, Entry, Geometry, IndexHeader, seconds_since, slot_struct
from smartgo.schema.indexkeys import Keys
from smartgo.store.index import indexfile
from smartgo.store.index.indexfile import IndexFile

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

    def written(self, geometry: Geometry, keys: list[tuple[int, int, int]], random: Random, arrays: bool) -> bytes:
        """Put keys in runs, and return the file."""
        data = bytearray(geometry.size)
        file = IndexFile("20300101000000000", geometry, IndexHeader(), 0)
        file.open(memoryview(data))
        file.begin_after(IndexHeader())
        file.make_ready(geometry.size)
        left = Keys(*(list(column) for column in zip(*keys, strict=True)))
        np = numpy_or_none() if arrays else None
        if np is not None:
            left = Keys(*(np.array(column, kind) for column, kind in zip(left, ("i4", "i8", "i8"), strict=True)))
        while left:
            run = random.randrange(1, 200)
            file.put(Keys(*(column[:run] for column in left)))
            left = left.after(run)
        file.close()
        return bytes(data)

    def test_any_run(self) -> None:
        """However keys are cut into runs, and whether numpy is there or not, the bytes are as of one after another."""
        random = Random(11)
        for slots in (1, 7, 5000):
            geometry = Geometry(slots, 1200)
            keys = random_keys(random, 1000)
            wanted = one_by_one(geometry, keys)
            for arrays in (False, True):
                for fewest in (1, 64, 1 << 30):
                    self.patch(indexfile, "FEWEST", fewest)
                    self.assertEqual(self.written(geometry, keys, random, arrays), wanted)

    def test_damaged_slot(self) -> None:
        """A slot that leads nowhere counts as free."""
        geometry = Geometry(7, 300)
        for slot in (-5, 99999):
            found = []
            for fewest in (1, 1 << 30):
                self.patch(indexfile, "FEWEST", fewest)
                data = bytearray(geometry.size)
                file = IndexFile("20300101000000000", geometry, IndexHeader(), 0)
                file.open(memoryview(data))
                file.begin_after(IndexHeader())
                file.make_ready(geometry.size)
                data[geometry.slot_at(3) : geometry.slot_at(4)] = slot.to_bytes(4, "big", signed=True)
                file.put(Keys([1, 3, 3] * 30, list(range(90)), [BEGIN_MS] * 90))
                self.assertEqual(file.header.used_slots, 2)
                self.assertEqual(Entry.unpack(bytes(data), geometry.entry_at(2)).previous, 0)
                self.assertEqual(Entry.unpack(bytes(data), geometry.entry_at(3)).previous, 2)
                file.close()
                found.append(bytes(data))
            self.assertEqual(found[0], found[1])
