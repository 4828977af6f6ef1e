"""The repair of store directories, against an oracle that knows nothing of the code that repairs."""

from __future__ import annotations

import errno
import json
import posixpath
import random
import struct
from collections.abc import Callable
from zlib import crc32

import msgspec

from smartgo.schema.index import Geometry
from smartgo.schema.properties import find
from smartgo.schema.regions import Region, encode
from smartgo.store import pagereads
from smartgo.store.damagefill import TOPIC, fill, is_fill
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.logwalk import LogDamage, LogWalk
from smartgo.store.offline.repair import StoreRepair
from smartgo.store.offline.repairplan import RepairPlan
from smartgo.store.offline.storecheck import StoreCheck
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, message, small, with_golden

MAGICS = (0xDAA320A7, 0xDAA320AB, 0xDAA320B7)
GOLDEN = StoreSettings(index=True, index_geometry=Geometry(100, 400))


def holds(raw: bytes, offset: int) -> bool:
    """Tell, by the rules of reliability S7 written out once more, whether a record that was at an offset is valid."""
    size, magic, crc, queue_id, _, queue_offset, physical, flag = struct.unpack_from(">iIiiiqqi", raw)
    if size != len(raw) or magic not in MAGICS or physical != offset or queue_id < 0 or queue_offset < 0:
        return False
    at = 48 + (20 if flag & 0x10 else 8)
    if at + 36 > len(raw):
        return False
    (stored_ms,) = struct.unpack_from(">q", raw, at)
    at += 8 + (20 if flag & 0x20 else 8) + 12
    if at + 4 > len(raw):
        return False
    (length,) = struct.unpack_from(">i", raw, at)
    body = raw[at + 4 : at + 4 + length]
    at += 4 + length
    if stored_ms <= 0 or length < 0 or at + 3 > len(raw) or (crc32(body) ^ crc) & 0x7FFFFFFF:
        return False
    width = 2 if magic == 0xDAA320AB else 1
    named = int.from_bytes(raw[at : at + width], "big")
    topic = raw[at + width : at + width + named]
    at += width + named
    if named > 127 or at + 2 > len(raw) or at + 2 + int.from_bytes(raw[at : at + 2], "big") != len(raw):
        return False
    allowed = b"%|-_" + bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123))
    return bool(topic) and not topic.strip(allowed) and all(one in allowed for one in topic)


class RepairCase(StoreTestCase):
    def repair(self, env: FakeEnvironment, settings: StoreSettings, donor: str | None = None) -> RepairPlan:
        """Repair the store, open and close it as the command does."""
        settings = msgspec.structs.replace(settings, log_file_size=None, queue_file_size=None)
        work = StoreRepair(env.files, ROOT, settings, donor)
        plan = work.plan()
        work.apply(plan, env.clock)
        return plan

    def check(self, env: FakeEnvironment, settings: StoreSettings) -> list[str]:
        """What is not sound."""
        found = StoreCheck(env.files, ROOT, settings).run()
        return [f"{one.where}: {one.what}" for one in found.findings if one.weight != "note"]

    def close(self, env: FakeEnvironment, store: OpenStore) -> None:
        """Let the index come to its end, and close the store."""
        for _ in range(200):
            if not store.index_behind:
                break
            env.clock.advance(0.1)
        self.assertEqual(store.index_behind, 0)
        self.stopped(store)


class RandomDamageTests(RepairCase):
    """A hundred random damages a store: what is left is what the oracle says."""

    def strike(self, env: FakeEnvironment, chance: random.Random, ends: dict[str, int]) -> str:
        """Damage one file somewhere: a bit, some zeros, or some noise."""
        logs = [path for path in ends if "/commitlog/" in path]
        others = [path for path in ends if path not in logs]
        path = chance.choice(logs if chance.random() < 0.6 else others)
        data = env.files.files[path].data
        at = chance.randrange(ends[path])
        kind = chance.choice(["bit", "zeros", "noise"])
        if kind == "bit":
            data[at] ^= 1 << chance.randrange(8)
        else:
            size = min(chance.randrange(1, 400), ends[path] - at)
            data[at : at + size] = bytes(size) if kind == "zeros" else chance.randbytes(size)
        return f"{kind} at {at} of {path}"

    def damaged(self, env: FakeEnvironment, seed: int) -> None:
        """Strike a hundred times: the log, queues, the index, checkpoints; tables only where a previous content is."""
        chance = random.Random(seed)
        ends = {
            path: len(bytes(file.data).rstrip(b"\0")) or 1
            for path, file in env.files.files.items()
            if path.startswith(ROOT) and "/config/" not in path and not path.endswith(("/lock", "/abort"))
        }
        self.struck = [self.strike(env, chance, ends) for _ in range(100)]

    def judge(self, env: FakeEnvironment, settings: StoreSettings, records: dict[int, bytes], size: int) -> None:
        """Repair the store; then the log, and each queue, must hold exactly what the oracle says."""
        now = {}
        own = OfflineStore(env.files, ROOT, settings).own
        for offset, raw in records.items():
            base = offset - offset % size
            found = env.files.read_at(f"{ROOT}/commitlog/{base:020d}", offset - base, len(raw))
            torn = own is not None and b"\0" in found[-len(raw) + raw.rindex(b"KEYS") :]
            if holds(found, offset) and not torn:
                now[offset] = found
        whole = {offset for offset, raw in records.items() if now.get(offset) == raw}
        self.assertTrue(20 < len(whole) < len(records))
        self.repair(env, settings)
        store = self.opened(env, settings)
        self.close(env, store)
        walk = list(LogWalk(OfflineStore(env.files, ROOT, settings)))
        self.assertEqual([one for one in walk if isinstance(one, LogDamage)], [])
        left = {}
        for one in walk:
            assert not isinstance(one, LogDamage)
            if not is_fill(one):
                base = one.physical_offset - one.physical_offset % size
                left[one.physical_offset] = env.files.read_at(
                    f"{ROOT}/commitlog/{base:020d}", one.physical_offset - base, one.size
                )
        # The head has no checksum: a record whose offset in its queue was struck may be set apart as well.
        moved = {offset for offset in now.keys() - left.keys() if now[offset][20:28] != records[offset][20:28]}
        for offset in moved:
            del now[offset]
        self.assertEqual(sorted(left), sorted(now), self.struck)
        self.assertEqual(left, now)
        self.assertEqual(self.check(env, settings), [])
        store = self.opened(env, settings)
        served = {}
        for topic in {one.topic for one in walk if not isinstance(one, LogDamage)}:
            for queue_id in range(20):
                for one in self.read_all(store, topic, queue_id):
                    served[one.physical_offset] = one
        for offset in whole:
            raw = records[offset]
            if struct.unpack_from(">i", raw, 36)[0] & 4:
                continue  # half messages are in no queue
            self.assertIn(offset, served)
            self.assertIn(bytes(served[offset].body), raw)
        self.assertLessEqual(set(served), set(now))
        self.close(env, store)

    def test_golden(self) -> None:
        """A store of RocketMQ's, closed or not."""
        for name in golden_store.NAMES:
            manifest = golden_store.read(name).manifest
            for seed in (0, 1, 2, 3, 116):  # 116: the last record of a queue behind a damaged one
                env = with_golden(name)
                records = {}
                for one in manifest["messages"]:
                    at = one["physicalOffset"]
                    base = at - at % golden_store.LOG_SIZE
                    path = f"{ROOT}/commitlog/{base:020d}"
                    records[at] = env.files.read_at(path, at - base, one["storeSize"])
                self.damaged(env, seed)
                self.judge(env, GOLDEN, records, golden_store.LOG_SIZE)

    def test_own(self) -> None:
        """A store of smartgo's, closed or killed; its checkpoint and its table of queues are damaged as well."""
        settings = small(log_file_size=65536, index=True, index_geometry=Geometry(50, 400))
        for seed in (*range(6), 30):  # 30: the first record of a queue has another offset
            env = FakeEnvironment()
            store = self.opened(env, settings)
            for number in range(900):
                keys = f"KEYS\x01k{number}\x02UNIQ_KEY\x01{number:032x}".encode()
                self.send(store, message(f"T{number % 3}", number % 4, b"%d." % number * 9, properties=keys))
            if seed % 2:
                self.close(env, store)
            else:
                self.now(store.flush())
                env = killed(env)
            records = {}
            for one in LogWalk(OfflineStore(env.files, ROOT, settings)):
                assert not isinstance(one, LogDamage)
                base = one.physical_offset - one.physical_offset % 65536
                path = f"{ROOT}/commitlog/{base:020d}"
                records[one.physical_offset] = env.files.read_at(path, one.physical_offset - base, one.size)
            self.assertEqual(len(records), 900)
            self.damaged(env, 1000 + seed)
            self.judge(env, settings, records, 65536)
            if not seed % 2:
                self.stopped(store)


class RepairTests(RepairCase):
    def setUp(self) -> None:
        """A closed store with two queues and an index."""
        self.env = FakeEnvironment()
        self.settings = small(index=True, index_geometry=Geometry(50, 400))
        store = self.opened(self.env, self.settings)
        for number in range(90):
            keys = f"KEYS\x01k{number}".encode()
            self.send(store, message("T", number % 2, b"%d." % number * 20, properties=keys))
        self.offsets = [one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue)]
        self.offsets.sort()
        self.close(self.env, store)
        self.files = self.env.files

    def log(self, offset: int) -> tuple[str, int]:
        """Path and position of a physical offset."""
        base = offset - offset % 4096
        return f"{ROOT}/commitlog/{base:020d}", offset - base

    def flip(self, offset: int) -> None:
        """Damage the body of a record."""
        path, at = self.log(offset)
        self.files.files[path].data[at + 90] ^= 1

    def tree(self) -> dict[str, bytes]:
        """All files."""
        return {path: bytes(file.data) for path, file in self.files.files.items()}

    def test_sound(self) -> None:
        """Of a sound store nothing is changed."""
        before = self.tree()
        self.assertTrue(self.repair(self.env, self.settings).is_empty)
        self.assertEqual(self.tree(), before)

    def test_last_of_queue(self) -> None:
        """The offset of a lost last message is not given out again, nor its neighbours'."""
        self.flip(self.offsets[-1])
        self.repair(self.env, self.settings)
        store = self.opened(self.env, self.settings)
        self.assertEqual(store.bounds("T", 1), (0, 45))
        self.send(store, message("T", 1, b"new"))
        last = self.read_all(store, "T", 1)[-1]
        self.assertEqual((bytes(last.body), last.queue_offset), (b"new", 45))
        self.close(self.env, store)

    def test_last_without_table(self) -> None:
        """Nor where the table of queues is lost with it."""
        self.flip(self.offsets[-1])
        self.files.files[f"{ROOT}/smartgo.queues"].data[5] ^= 1
        self.files.files[f"{ROOT}/smartgo.checkpoint"].data[:] = bytes(4096)
        self.repair(self.env, self.settings)
        store = self.opened(self.env, self.settings)
        self.assertEqual(store.bounds("T", 1), (0, 45))
        self.close(self.env, store)

    def test_keeps(self) -> None:
        """What is replaced is in quarantine: the record's bytes with a file about them, queues, index, checkpoints."""
        path, at = self.log(self.offsets[9])
        self.flip(self.offsets[9])
        before = self.tree()
        size = self.offsets[10] - self.offsets[9]
        self.repair(self.env, self.settings)
        name = f"{ROOT}/quarantine/{self.offsets[9]:020d}-{size}"
        self.assertEqual(self.files.read(name + ".bytes"), before[path][at : at + size])
        about = json.loads(self.files.read(name + ".json"))
        self.assertEqual(
            (about["offset"], about["length"], about["reason"]), (self.offsets[9], size, "body CRC differs")
        )
        (kept,) = [one for one in self.files.list(f"{ROOT}/quarantine") if one.startswith("repair-")]
        for one, data in before.items():
            below = posixpath.relpath(one, ROOT)
            if below.startswith(("consumequeue", "index", "smartgo.", "checkpoint")):
                self.assertEqual(self.files.read(f"{ROOT}/quarantine/{kept}/{below}"), data)

    def test_shapes(self) -> None:
        """A short and a missing log file get their length; what is left of them is served."""
        self.assertGreater(self.offsets[-1], 3 * 4096)
        del self.files.files[f"{ROOT}/commitlog/{0:020d}"].data[3000:]
        self.files.remove(f"{ROOT}/commitlog/{4096:020d}")
        plan = self.repair(self.env, self.settings)
        self.assertEqual((plan.grown, plan.made), ([(f"{ROOT}/commitlog/{0:020d}", 1096)], [4096]))
        store = self.opened(self.env, self.settings)
        expected = [one for one in self.offsets if one + 300 < 3000 or one >= 8192]
        served = {one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue)}
        self.assertLessEqual(set(expected), served)
        self.assertEqual({one for one in served if 3000 <= one < 8192}, set())
        self.close(self.env, store)
        self.assertEqual(self.check(self.env, self.settings), [])

    def test_donor(self) -> None:
        """What another directory of the same log has is taken from there; nothing is missing then."""
        before = self.tree()
        for path, data in before.items():
            target = path.replace(ROOT, "/slave", 1)
            self.files.make_directories(posixpath.dirname(target))
            self.files.create(target, data)
        for number in (3, 20, 21, 50):
            self.flip(self.offsets[number])
        path, at = self.log(self.offsets[21])
        self.files.files["/slave" + path.removeprefix(ROOT)].data[at + 90] ^= 2  # both have lost that one
        plan = self.repair(self.env, self.settings, "/slave")
        self.assertEqual([piece.donated for piece in plan.pieces if piece.begin == self.offsets[3]], [True])
        store = self.opened(self.env, self.settings)
        served = sorted(one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue))
        lost = {self.offsets[21]}  # of the one range the other directory has record 20
        self.assertEqual(served, [one for one in self.offsets if one not in lost])
        self.close(self.env, store)

    def test_donor_for_the_unreadable(self) -> None:
        """What the disk cannot read is taken from there too; with what the other's disk cannot read nothing is done."""
        self.patch(pagereads, "PAGE", 16)
        for path, data in self.tree().items():
            target = path.replace(ROOT, "/slave", 1)
            self.files.make_directories(posixpath.dirname(target))
            self.files.create(target, data)
        places = [self.log(self.offsets[number]) for number in (3, 20)]
        bad = {(path, at + 96) for path, at in places}
        other = places[1][0].replace(ROOT, "/slave", 1)
        bad.add((other, places[1][1] + self.offsets[21] - self.offsets[20] - 1))
        read_at, overwrite = self.files.read_at, self.files.overwrite

        def failing(path: str, at: int, size: int) -> bytes:
            if any(path == one and at <= place and place - place % 16 < at + size for one, place in bad):
                raise OSError(errno.EIO, "Input/output error", path)
            return bytes(read_at(path, at, size))

        def written(path: str, at: int, data: bytes) -> None:
            """A disk has other blocks for those that it cannot read."""
            bad.difference_update([one for one in bad if one[0] == path and at <= one[1] < at + len(data)])
            overwrite(path, at, data)

        self.patch(self.files, "read_at", failing)
        self.patch(self.files, "overwrite", written)
        found = self.check(self.env, self.settings)
        self.assertEqual(len([one for one in found if "cannot be read: Input/output error" in one]), 2, found)
        plan = self.repair(self.env, self.settings, "/slave")
        places_of = [(self.offsets.index(piece.begin), piece.donated) for piece in plan.pieces]
        self.assertEqual(places_of, [(3, True), (20, False)])
        store = self.opened(self.env, self.settings)
        served = sorted(one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue))
        self.assertEqual(served, [one for one in self.offsets if one != self.offsets[20]])
        self.close(self.env, store)

    def test_donor_of_some(self) -> None:
        """Of neighbouring damaged records those that are valid elsewhere are taken from there; others are set apart."""
        before = self.tree()
        for path, data in before.items():
            target = path.replace(ROOT, "/slave", 1)
            self.files.make_directories(posixpath.dirname(target))
            self.files.create(target, data)
        for number in range(30, 40):
            self.flip(self.offsets[number])
        for number in (33, 34, 37):
            path, at = self.log(self.offsets[number])
            self.files.files["/slave" + path.removeprefix(ROOT)].data[at + 90] ^= 2
        plan = self.repair(self.env, self.settings, "/slave")
        places = [(self.offsets.index(piece.begin), piece.donated) for piece in plan.pieces]
        self.assertEqual(places, [(30, True), (33, False), (35, True), (37, False), (38, True)])
        said = [step.what.partition("over: ")[2] for step in plan.steps if "passed over" in step.what]
        self.assertEqual(said, ["/slave has no valid record there either"] * 2)
        store = self.opened(self.env, self.settings)
        served = sorted(one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue))
        lost = {self.offsets[number] for number in (33, 34, 37)}
        self.assertEqual(served, [one for one in self.offsets if one not in lost])
        self.close(self.env, store)
        self.assertEqual(self.check(self.env, self.settings), [])

    def test_known_regions(self) -> None:
        """A region of the list is repaired too, and taken off the list."""
        self.flip(self.offsets[5])
        size = self.offsets[6] - self.offsets[5]
        self.files.make_directories(f"{ROOT}/quarantine")
        self.files.create(f"{ROOT}/quarantine/regions.json", encode([Region(self.offsets[5], size, "found before")]))
        self.repair(self.env, self.settings)
        self.assertEqual(self.files.read(f"{ROOT}/quarantine/regions.json"), b"[]")
        self.assertEqual(OfflineStore(self.files, ROOT, StoreSettings()).regions, [])

    def test_deleted_topic(self) -> None:
        """Messages of a topic that was deleted do not come back with a repair."""
        store = self.opened(self.env, self.settings)
        self.send(store, message("U", 0, b"other"))
        self.now(store.delete_topic("T"))
        self.close(self.env, store)
        self.flip(self.offsets[5])
        self.repair(self.env, self.settings)
        store = self.opened(self.env, self.settings)
        self.assertEqual([self.read_all(store, "T", queue) for queue in (0, 1)], [[], []])
        self.assertEqual(self.bodies(store, "U"), [b"other"])
        self.close(self.env, store)

    def test_queue_only(self) -> None:
        """Where only a queue is wrong, the log stays as it is, and so do other queues."""
        path = f"{ROOT}/consumequeue/T/0/{0:020d}"
        self.files.files[path].data[20 * 3 + 7] ^= 1
        before = self.tree()
        plan = self.repair(self.env, self.settings)
        self.assertEqual((plan.queues, plan.index, plan.pieces), ([("T", 0)], False, []))
        store = self.opened(self.env, self.settings)
        self.assertEqual(len(self.bodies(store, "T", 0)), 45)
        self.close(self.env, store)
        after = self.tree()
        for one in before:
            if "/commitlog/" in one or one.startswith(f"{ROOT}/consumequeue"):
                self.assertEqual(after[one], before[one] if one != path else after[one])
        self.assertEqual(self.check(self.env, self.settings), [])

    def test_tables(self) -> None:
        """A table that cannot be read is replaced by its previous content; without one it is left, and said."""
        self.files.make_directories(f"{ROOT}/config")
        self.files.create(f"{ROOT}/config/topics.json", b"{")
        self.files.create(f"{ROOT}/config/topics.json.bak", b'{"a":1}')
        self.files.create(f"{ROOT}/config/other.json", b"")
        plan = self.repair(self.env, self.settings)
        self.assertEqual(self.files.read(f"{ROOT}/config/topics.json"), b'{"a":1}')
        self.assertEqual([step.kind for step in plan.steps], ["left", "table"])

    def test_timers(self) -> None:
        """The timer log is made anew with the log, and kept; where the log is sound it stays."""
        self.files.make_directories(f"{ROOT}/timer")
        self.files.create(f"{ROOT}/timer/slot", b"of the log as it was")
        self.assertFalse(self.repair(self.env, self.settings).timers)
        self.flip(self.offsets[5])
        self.assertTrue(self.repair(self.env, self.settings).timers)
        self.assertFalse(self.files.exists(f"{ROOT}/timer"))
        (kept,) = [one for one in self.files.list(f"{ROOT}/quarantine") if one.startswith("repair-")]
        self.assertEqual(self.files.read(f"{ROOT}/quarantine/{kept}/timer/slot"), b"of the log as it was")

    def test_again(self) -> None:
        """A repair that was cut short at any of its changes is finished by the next one."""
        for number in (3, 20, 50):
            self.flip(self.offsets[number])
        whole = killed(self.env)
        for limit in range(40):
            env = killed(whole)
            self.patch(env.files, "overwrite", FewChanges(env.files.overwrite, limit // 2))
            self.patch(env.files, "rename", FewChanges(env.files.rename, limit - limit // 2))
            try:
                self.repair(env, self.settings)
            except OSError:
                env = killed(env)
                env.clock.advance(1)
                self.repair(env, self.settings)
            store = self.opened(env, self.settings)
            served = sorted(one.physical_offset for queue in (0, 1) for one in self.read_all(store, "T", queue))
            self.assertEqual(served, [one for at, one in enumerate(self.offsets) if at not in (3, 20, 50)], limit)
            self.close(env, store)


class FewChanges:
    """A function that works so many times, and then fails."""

    def __init__(self, function: Callable[..., None], left: int) -> None:
        self._function = function
        self._left = left

    def __call__(self, *arguments: object) -> None:
        if not self._left:
            raise OSError(5, "cut short")
        self._left -= 1
        self._function(*arguments)


class FillTests(StoreTestCase):
    def test_sizes(self) -> None:
        """Any room for a record is filled by valid ones, exactly; only less than one cannot be."""
        for size in [*range(1, 400), 5 << 20, 9 << 20, (8 << 20) + 1]:
            data = fill(4096, size, False, "a reason", 77)
            if data is None:
                self.assertLess(size, 92)
                continue
            self.assertEqual(len(data), size)
            at = 0
            while at < size:
                (length,) = struct.unpack_from(">i", data, at)
                self.assertTrue(holds(data[at : at + length], 4096 + at), size)
                at += length
        self.assertEqual(fill(0, 92, False, "", 1) is None, False)
        record = fill(0, 400, False, "a reason", 1) or b""
        self.assertIn(TOPIC.encode(), record)
        self.assertEqual(
            find(
                record[-40:].partition(b"SMARTGO_REASON")[1] + record.partition(b"SMARTGO_REASON")[2], "SMARTGO_REASON"
            ),
            "a reason",
        )

    def test_end_of_file(self) -> None:
        """The end of a file becomes records and the shortest blank; a blank alone where no record has room."""
        for size in (8, 9, 99):
            self.assertEqual((fill(0, size, True, "", 1) or b"")[:8], struct.pack(">iI", size, 0xCBD43194))
        for size in (100, 5000):
            data = fill(0, size, True, "", 1) or b""
            self.assertTrue(holds(data[:-8], 0))
            self.assertEqual(data[-8:], struct.pack(">iI", 8, 0xCBD43194))
        self.assertIsNone(fill(0, 7, True, "", 1))
