"""A store on the operating system's files, with real threads."""

from __future__ import annotations

import os
import shutil
import stat
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from smartgo.env.real import RealEnvironment
from smartgo.errors import StoreHeld
from smartgo.schema.index import Geometry
from smartgo.schema.record import decode
from smartgo.store.interfaces import PutStatus, ReadLimit, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.store.stores import message, records

SETTINGS: dict[str, Any] = {
    "log_file_size": 1 << 18,
    "queue_file_size": 20_000,
    "disk_full_ratio": 1.0,
    "disk_free_minimum": 0,
    "flush_interval": 0.02,
    "checkpoint_interval": 0.02,
}


class RealTests(TestCase):
    def setUp(self) -> None:
        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)
        self.root = os.path.join(os.path.abspath(self.mktemp()), "store")

    async def start(self, root: str | None = None, **changes: Any) -> OpenStore:
        """An open store."""
        store = await open_store(self.env, root or self.root, StoreSettings(**{**SETTINGS, **changes}))
        self.addCleanup(store.close)
        return store

    def copied(self) -> str:
        """Return a copy of the files as they are now, as a kill would leave them."""
        target = self.root + "-copy"
        shutil.copytree(self.root, target, ignore=shutil.ignore_patterns("*.tmp"))
        return target

    async def test_retention(self) -> None:
        """Old files go while slices of them are read: these stay as they are; no descriptor is left."""
        rules = RetentionRules(free_minimum=0, forcible=False, log_size=1 << 20, interval=0.05, file_pause=0.0)
        store = await self.start(retention=rules)
        store.append([message(body=b"first")])
        store.end_run()
        part = store.read("T", 0, 0, ReadLimit(), None).parts[0]
        before = 0
        for number in range(3000):
            store.append([message(body=b"%d" % number + b"." * 2000)])
            store.end_run()
            if number % 100 == 99:
                await deferLater(reactor, 0.02, lambda: None)
            if number == 1000:
                before = self.env.host.open_files()
        await store.flush()
        await deferLater(reactor, 0.3, lambda: None)
        oldest = os.path.join(self.root, "commitlog", "0" * 20)
        self.assertTrue(os.path.exists(oldest))
        self.assertGreater(store.log_bounds()[0], 0)
        self.assertEqual(decode(part).body, b"first")
        del part
        for _ in range(100):
            if not os.path.exists(oldest) and store.cleaner.removed.queue_files:
                break
            await deferLater(reactor, 0.05, lambda: None)
        self.assertFalse(os.path.exists(oldest))
        self.assertLessEqual(len(os.listdir(os.path.join(self.root, "commitlog"))), 5)
        self.assertLess(self.env.host.open_files(), before + 10)
        first, end = store.bounds("T", 0)
        self.assertEqual((end, len(await self.bodies(store))), (3001, 3001 - first))

    async def bodies(self, store: OpenStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        """The bodies of a queue."""
        found: list[bytes] = []
        offset = store.bounds(topic, queue_id)[0]
        while True:
            result = store.read(topic, queue_id, offset, ReadLimit(), None)
            if result.status is ReadStatus.COLD:
                result = await store.read_cold(topic, queue_id, offset, ReadLimit(), None)
            if result.status is not ReadStatus.FOUND:
                return found
            found += [bytes(one.body) for one in records(result)]
            offset = result.next_offset

    async def test_life(self) -> None:
        """Messages over many files are there after a clean stop; directories and files are for us alone (X15)."""
        store = await self.start()
        sent = [b"%d" % number * 50 for number in range(3000)]
        for number, body in enumerate(sent):
            store.append([message(queue_id=number % 2, body=body)])
            if number % 10 == 9:
                store.end_run()
        self.assertEqual(await store.flush(), PutStatus.OK)
        await store.close()
        self.assertFalse(os.path.exists(os.path.join(self.root, "abort")))
        for folder, _, names in os.walk(self.root):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            for name in names:
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600)
        logs = os.listdir(os.path.join(self.root, "commitlog"))
        self.assertGreater(len(logs), 3)
        for name in logs:
            found = os.stat(os.path.join(self.root, "commitlog", name))
            self.assertEqual(found.st_size, 1 << 18)
            self.assertGreaterEqual(found.st_blocks * 512, 1 << 18)
        store = await self.start()
        self.assertEqual((await self.bodies(store), await self.bodies(store, queue_id=1)), (sent[::2], sent[1::2]))
        await store.close()
        with open("/proc/self/maps", encoding="utf-8") as maps:
            self.assertNotIn(self.root, maps.read())

    async def test_killed(self) -> None:
        """What was appended is there after a kill, in the middle of flushes and checkpoints."""
        store = await self.start()
        sent = []
        for number in range(2000):
            sent.append(b"%d" % number * 60)
            store.append([message(body=sent[-1])])
            store.end_run()
            if number % 500 == 499:
                await store.flush()
        copy = await self.start(self.copied())
        self.assertEqual(await self.bodies(copy), sent)

    async def test_sync(self) -> None:
        """Sends under sync flush are told OK when their flush is done, and are visible then."""
        store = await self.start(sync_flush=True)
        waits = []
        for number in range(200):
            waiting = store.durable(store.append([message(body=b"%d" % number)]))
            assert waiting is not None
            waits.append(waiting)
            if number % 8 == 7:
                store.end_run()
        told = await gatherResults(waits)
        self.assertEqual(told, [PutStatus.OK] * 200)
        self.assertEqual(len(await self.bodies(store)), 200)

    async def test_held(self) -> None:
        """A second store in the same directory is refused."""
        await self.start()
        await self.assertFailure(open_store(self.env, self.root, StoreSettings(**SETTINGS)), StoreHeld)

    async def test_cold(self) -> None:
        """What lies far back is read through the thread, and found by offset and time there."""
        store = await self.start(memory_ratio=1e-9)
        for number in range(300):
            store.append([message(body=b"%d" % number)])
        store.end_run()
        self.assertEqual(store.read("T", 0, 0, ReadLimit(), None).status, ReadStatus.COLD)
        result = await store.read_cold("T", 0, 5, ReadLimit(), None)
        self.assertEqual([bytes(one.body) for one in records(result)], [b"%d" % number for number in range(5, 13)])
        first = records(result)[0]
        self.assertEqual(await store.at(first.physical_offset), bytes(result.parts[0]))
        self.assertEqual(await store.stored_ms("T", 0, 5), first.stored_ms)
        self.assertEqual(await store.offset_at("T", 0, 0), 0)

    async def test_delete(self) -> None:
        """A deleted topic leaves no file."""
        store = await self.start()
        for topic in ("T", "U"):
            store.append([message(topic)])
        store.end_run()
        await store.delete_topic("T")
        self.assertEqual(os.listdir(os.path.join(self.root, "consumequeue")), ["U"])
        self.assertEqual(os.listdir(os.path.join(self.root, "smartgo.deleted")), [])

    async def test_golden(self) -> None:
        """A store of RocketMQ's is taken over, without its broker and with the sizes it has."""
        for name in golden_store.NAMES:
            root = f"{self.root}-{name}"
            manifest = golden_store.unpack(name, root)
            store = await self.start(root, log_file_size=None, queue_file_size=None)
            for one in manifest["consumeQueues"]:
                units = store.units(one["topic"], one["queueId"], 0, 10_000)
                self.assertEqual([list(unit) for unit in units], one["units"])
            for number in range(3000):
                store.append([message("Plain", number % 4, b"x" * 500)])
            store.end_run()
            await store.close()
            again = await self.start(root, log_file_size=None, queue_file_size=None)
            self.assertGreater(len(await self.bodies(again, "Plain", 0)), 750)

    async def test_slices_outlive_files(self) -> None:
        """A slice that a slow connection still holds stays readable when its file is unmapped and the store closed."""
        store = await self.start()
        store.append([message(body=b"held for long")])
        store.end_run()
        part = store.read("T", 0, 0, ReadLimit(), None).parts[0]
        await store.close()
        self.assertIn(b"held for long", bytes(part))
        part.release()

    async def test_index(self) -> None:
        """Keys over many files are found: at once, after a clean stop, after a kill, and with the index deleted."""
        settings: dict[str, Any] = {"index": True, "index_geometry": Geometry(500, 1000)}
        store = await self.start(**settings)
        offsets = {}
        for number in range(3000):
            properties = b"UNIQ_KEY\x01U%d\x02KEYS\x01k%d" % (number, number % 100)
            offsets[number] = store.append([message(properties=properties)]).offset
            if number % 10 == 9:
                store.end_run()
        await self.assert_found(store, offsets)
        copy = self.copied()
        await store.close()
        names = os.listdir(os.path.join(self.root, "index"))
        self.assertEqual(len(names), 7)
        store = await self.start(**settings)
        await self.assert_found(store, offsets)
        await store.close()
        for root in (self.root, copy):
            for name in names[:1] if root == self.root else ():
                os.remove(os.path.join(root, "index", name))
            store = await self.start(root, **settings)
            await self.assert_found(store, offsets)
            self.assertEqual(store.index_behind, 0)
            await store.close()
        shutil.rmtree(os.path.join(self.root, "index"))
        store = await self.start(**settings)
        await self.assert_found(store, offsets)

    async def assert_found(self, store: OpenStore, offsets: dict[int, int]) -> None:
        """Search for some unique keys, and for a key."""
        for number in range(0, 3000, 97):
            found = await store.query("T", f"U{number}", 32, 0, 1 << 62)
            self.assertEqual([decode(one).physical_offset for one in found.records], [offsets[number]])
        found = await store.query("T", "k7", 64, 0, 1 << 62)
        self.assertEqual(
            [decode(one).physical_offset for one in found.records], [offsets[n] for n in range(7, 3000, 100)]
        )

    async def test_replica(self) -> None:
        """A slave that follows by pieces while messages are sent, killed on the way, ends with its master's files."""
        master = await self.start()
        slave = await self.start(self.root + "-slave", replica=True)
        random = Random(5)
        at = 0
        for number in range(6000):
            batch = [message(queue_id=number % 3, body=b"%d" % number * 30)] * (1 + (number % 50 == 0))
            master.append(batch)
            if number % 10 == 9:
                master.end_run()
                while at < master.log_bounds()[1] and random.random() < 0.6:
                    piece = master.piece(at, random.randrange(1, 9000))
                    assert piece is not None
                    slave.append_raw(at, piece)
                    at += len(piece)
            if number % 100 == 99:
                await deferLater(self.env.clock, 0.001)
            if number == 4000:
                shutil.copytree(self.root + "-slave", self.root + "-killed", ignore=shutil.ignore_patterns("*.tmp"))
                slave = await self.start(self.root + "-killed", replica=True)
                self.assertTrue(0 <= at - slave.log_bounds()[1] < 9000)
                at = slave.log_bounds()[1]
        end = master.log_bounds()[1]
        while at < end:
            data = await master.piece_cold(at, 32768)
            slave.append_raw(at, data)
            at += len(data)
        self.assertGreater(end, 3 << 18)
        self.assertEqual(await slave.crc(0, end), await master.crc(0, end))
        await master.close()
        await slave.close()
        for folder in ("commitlog", "consumequeue/T/0", "consumequeue/T/1", "consumequeue/T/2"):
            names = sorted(os.listdir(os.path.join(self.root, folder)))
            self.assertEqual(sorted(os.listdir(os.path.join(self.root + "-killed", folder))), names)
            for name in names:
                with (
                    open(os.path.join(self.root, folder, name), "rb") as one,
                    open(os.path.join(self.root + "-killed", folder, name), "rb") as other,
                ):
                    self.assertEqual(one.read(), other.read(), f"{folder}/{name}")
