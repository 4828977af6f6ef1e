"""Tests of L{smartgo.store.damagerepair}, through a store."""

from __future__ import annotations

import errno

from smartgo.errors import LogsDiffer
from smartgo.schema import regions
from smartgo.schema.record import HEAD_SIZE
from smartgo.schema.regions import Region
from smartgo.store import damagerepair
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, held, killed, message, power_off


class RepairTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        store = self.opened(self.env)
        self.offsets = self.send(store, *[message(body=b"%d" % number * 20) for number in range(12)])
        self.stopped(store)
        self.log = self.env.files.files[f"{ROOT}/commitlog/{0:020d}"]
        self.whole = bytes(self.log.data)
        for number in (4, 5):
            self.log.data[self.offsets[number] + HEAD_SIZE] ^= 1

    def repair(self, store: OpenStore) -> None:
        """Put all regions right with what the log was."""
        for region in list(store.damage.regions):
            self.now(store.repair_damage(region, self.whole[region.offset : region.end]))

    def test_repaired(self) -> None:
        """The messages are delivered again, at once and after a power failure, and the list is empty."""
        store = self.opened(self.env)
        self.assertEqual(len(self.read_all(store)), 10)
        self.assertEqual(len(store.damage), 2)
        self.repair(store)
        self.assertEqual(self.bodies(store), [b"%d" % number * 20 for number in range(12)])
        self.assertEqual(regions.decode(self.env.files.read(f"{ROOT}/{regions.PATH}")), [])
        self.assertEqual(len(self.bodies(self.opened(power_off(self.env)))), 12)
        self.assertEqual(len(self.bodies(self.opened(killed(self.env)))), 12)

    def test_queue_made_without_it(self) -> None:
        """Where the queue was made anew without the messages, its units lead to them again."""
        del self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
        store = self.opened(self.env)
        self.assertEqual(len(self.read_all(store)), 10)
        self.repair(store)
        self.assertEqual(len(self.bodies(store)), 12)
        self.stopped(store)
        self.assertEqual(len(self.bodies(self.opened(self.env))), 12)

    def test_in_portions(self) -> None:
        """A long region is decoded in a thread, and its units are restored some at a time."""
        self.patch(damagerepair, "_PORTION", 2)
        del self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
        self.log.data[self.offsets[6] + HEAD_SIZE] ^= 1
        store = self.opened(self.env)
        self.read_all(store)
        begin, end = self.offsets[4], self.offsets[7]
        for region in list(store.damage.regions):
            store.damage.remove(region)
        store.damage.add([Region(begin, end - begin)])
        with held(self.env, "read"):
            done = store.repair_damage(store.damage.regions[0], self.whole[begin:end])
            self.assertNotEqual(bytes(self.log.data), self.whole)
        self.assertEqual(bytes(self.log.data), self.whole)
        self.assertNoResult(done)
        self.env.clock.advance(0)
        self.successResultOf(done)
        self.assertEqual(len(self.bodies(store)), 12)

    def test_refused(self) -> None:
        """What is no record, of another place or another length, is not written."""
        store = self.opened(self.env)
        self.read_all(store)
        before = bytes(self.log.data)
        region = store.damage.regions[0]
        good = self.whole[region.offset : region.end]
        bad = bytearray(good)
        bad[HEAD_SIZE] ^= 1
        other = self.whole[self.offsets[1] : self.offsets[2]]
        for data in (b"", good[:-1], bytes(bad), other, good + self.whole[region.end : region.end + 9]):
            self.failureResultOf(store.repair_damage(region, data), LogsDiffer)
        self.assertEqual((bytes(self.log.data), len(store.damage)), (before, 2))

    def test_not_written(self) -> None:
        """Where it cannot be written the region stays damaged."""
        store = self.opened(self.env)
        self.read_all(store)

        def failing(path: str, offset: int, data: bytes) -> None:
            raise OSError(errno.EIO, "Input/output error", path)

        self.patch(self.env.files, "overwrite", failing)
        region = store.damage.regions[0]
        self.failureResultOf(store.repair_damage(region, self.whole[region.offset : region.end]), OSError)
        self.assertIn(region, store.damage.regions)
