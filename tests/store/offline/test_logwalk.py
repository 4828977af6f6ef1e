"""The walk through a log that may be damaged."""

from __future__ import annotations

import errno
import posixpath
import random
import struct

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.regions import Region, encode
from smartgo.store import pagereads
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.logwalk import DamageKind, LogDamage, LogWalk
from smartgo.store.settings import StoreSettings
from tests.fakes import FakeEnvironment
from tests.golden_store import LOG_SIZE, read

ROOT = "/s"


class LogWalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A golden store in memory."""
        self.files = FakeEnvironment().files
        for path, data in read("store-a").files.items():
            self.files.make_directories(posixpath.dirname(f"{ROOT}/{path}"))
            self.files.create(f"{ROOT}/{path}", data)
        self.offsets = [one["physicalOffset"] for one in read("store-a").manifest["messages"]]
        self.sizes = [one["storeSize"] for one in read("store-a").manifest["messages"]]
        self.ends = [int(one["file"]) + one["endOfRecords"] for one in read("store-a").manifest["commitLogFiles"]]

    def walk(self, begin: int = 0) -> tuple[list[int], list[LogDamage], int]:
        """The offsets of the records, the damage, and where the log ends."""
        walk = LogWalk(OfflineStore(self.files, ROOT, StoreSettings()), begin=begin)
        found = list(walk)
        damage = [one for one in found if isinstance(one, LogDamage)]
        return [one.physical_offset for one in found if not isinstance(one, LogDamage)], damage, walk.position

    def path(self, base: int) -> str:
        """The path of a log file."""
        return f"{ROOT}/commitlog/{base:020d}"

    def overwrite(self, offset: int, data: bytes) -> None:
        """Write at a physical offset."""
        base = offset - offset % LOG_SIZE
        self.files.overwrite(self.path(base), offset - base, data)

    def test_whole(self) -> None:
        """Without damage all records come, and the end is known."""
        self.assertEqual(self.walk(), (self.offsets, [], self.ends[1]))
        self.assertEqual(self.walk(LOG_SIZE + 5)[0], [one for one in self.offsets if one >= LOG_SIZE])

    def test_unreadable(self) -> None:
        """What the disk cannot read is damage of its record, in the properties too, which have no checksum."""
        self.patch(pagereads, "PAGE", 16)
        read_at = self.files.read_at

        def failing(path: str, at: int, size: int) -> bytes:
            if path == self.path(0) and at <= self.bad and self.bad - self.bad % 16 < at + size:
                raise OSError(errno.EIO, "Input/output error", path)
            return bytes(read_at(path, at, size))

        self.patch(self.files, "read_at", failing)
        for number in (0, 30):
            begin, size = self.offsets[number], self.sizes[number]
            for self.bad in (begin + 20, begin + 100, (begin + size) // 16 * 16 - 1):
                found, damage, end = self.walk()
                self.assertEqual(found, [one for one in self.offsets if one != begin])
                self.assertEqual([(one.begin, one.end) for one in damage], [(begin, begin + size)])
                self.assertEqual(damage[0].reason, "cannot be read: Input/output error")
                self.assertEqual(end, self.ends[1])

    def test_place(self) -> None:
        """The place of an offset is told by file and byte, and by the offset where the two differ."""
        store = OfflineStore(self.files, ROOT, StoreSettings())
        self.assertEqual(store.place(7), f"{self.path(0)}, byte 7")
        self.assertEqual(store.place(LOG_SIZE + 7), f"{self.path(LOG_SIZE)}, byte 7 (offset {LOG_SIZE + 7})")

    def test_each_field(self) -> None:
        """Damage of size, magic, CRC, own offset or body costs one record, wherever it lies."""
        chance = random.Random(5)
        for _ in range(60):
            number = chance.randrange(len(self.offsets))
            offset = self.offsets[number]
            at = offset + chance.choice([0, 1, 2, 3, 4, 7, 8, 11, 28, 35])
            base = at - at % LOG_SIZE
            before = self.files.read_at(self.path(base), at - base, 1)
            self.overwrite(at, bytes([before[0] ^ 1 << chance.randrange(4)]))
            found, damage, _ = self.walk()
            expected = [one for one in self.offsets if one != offset]
            self.assertEqual(found, expected, f"byte {at - offset} of record {number}")
            last = number == len(self.offsets) - 1
            self.assertEqual([one.kind for one in damage], [DamageKind.TAIL if last else DamageKind.MIDDLE])
            self.assertEqual(damage[0].begin, offset)
            following = self.ends[0] if offset + self.sizes[number] == self.ends[0] else offset + self.sizes[number]
            if following != self.ends[0] and not last:
                self.assertEqual(damage[0].end, following)
            self.overwrite(at, before)
        self.assertEqual(self.walk()[1], [])

    def test_blank(self) -> None:
        """A damaged blank costs nothing but itself."""
        self.overwrite(self.ends[0] + 1, b"\xff")
        found, (damage,), _ = self.walk()
        self.assertEqual(found, self.offsets)
        self.assertEqual((damage.begin, damage.end, damage.kind), (self.ends[0], LOG_SIZE, DamageKind.MIDDLE))

    def test_zeros(self) -> None:
        """A page that was lost reads as zeros; the records behind it are found."""
        number = next(at for at, offset in enumerate(self.offsets) if offset > 40960)
        self.overwrite(self.offsets[number], bytes(4096))
        found, (damage,), _ = self.walk()
        after = next(one for one in self.offsets if one >= self.offsets[number] + 4096)
        self.assertEqual((damage.begin, damage.end), (self.offsets[number], after))
        self.assertEqual(found, [one for one in self.offsets if not damage.begin <= one < damage.end])

    def test_files(self) -> None:
        """Of a short file and behind a missing one the rest is read."""
        self.files.create(self.path(LOG_SIZE * 3), self.files.read(self.path(LOG_SIZE)))
        found, damage, _ = self.walk()
        self.assertEqual(found, self.offsets)  # the copies state other offsets
        self.assertEqual([one.kind for one in damage][:2], [DamageKind.MIDDLE, DamageKind.MISSING])
        self.files.remove(self.path(LOG_SIZE * 3))
        del self.files.files[self.path(0)].data[50_000:]
        found, damage, _ = self.walk()
        lost = [a for a, size in zip(self.offsets, self.sizes, strict=True) if a + size > 50_000 and a < LOG_SIZE]
        self.assertEqual(found, [one for one in self.offsets if one not in lost])
        self.assertEqual((damage[0].begin, damage[0].end), (lost[0], LOG_SIZE))

    def test_left_over(self) -> None:
        """A valid record behind the end that is older than the last two is left over from a log that was cut."""
        last, size = self.offsets[-1], self.sizes[-1]
        raw = bytearray(self.files.read_at(self.path(LOG_SIZE), last - LOG_SIZE, size))
        at = last + size + 64
        struct.pack_into(">q", raw, 28, at)
        before_ms = read("store-a").manifest["messages"][-2]["storeTimestamp"]
        struct.pack_into(">q", raw, 56, before_ms - 1)
        self.overwrite(at, bytes(raw))
        found, (damage,), end = self.walk()
        self.assertEqual((found, damage.kind, end), (self.offsets, DamageKind.TAIL, last + size))
        struct.pack_into(">q", raw, 56, struct.unpack_from(">q", raw, 56)[0] + 1)
        self.overwrite(at, bytes(raw))
        self.assertEqual(self.walk()[0], [*self.offsets, at])

    def test_known(self) -> None:
        """A known region is given out as such, and skipped, whether or not its bytes are valid."""
        regions = [
            Region(self.offsets[5], self.sizes[5] + self.sizes[6], "known"),
            Region(self.offsets[50], self.sizes[50]),
        ]
        self.files.make_directories(f"{ROOT}/quarantine")
        self.files.create(f"{ROOT}/quarantine/regions.json", encode(regions))
        self.overwrite(self.offsets[50], b"\xff")
        found, damage, _ = self.walk()
        self.assertEqual([(one.begin, one.end) for one in damage], [(one.offset, one.end) for one in regions])
        self.assertEqual({one.kind for one in damage}, {DamageKind.KNOWN})
        self.assertEqual(found, [one for at, one in enumerate(self.offsets) if at not in (5, 6, 50)])
