"""Tests of L{smartgo.store.restoredunits}, through a store."""

from __future__ import annotations

import errno

from twisted.logger import capturedLogs

from smartgo.errors import LogsDiffer
from smartgo.schema import regions
from smartgo.schema.record import HEAD_SIZE, encode
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.file import ConsumeQueue
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, held, killed, message, power_off, small
from tests.store.test_dispatch import Ear


class EndOfQueueTests(StoreTestCase):
    """
    Records that are the first, the last or the only ones of their queues, damaged when the queues were made.

    @ivar places: queue and logical offset of each record of the log.
    """

    places = (("T", 0), ("T", 1), ("T", 2), ("U", 0), ("T", 3), ("V", 0), ("V", 1), ("W", 0))

    def setUp(self) -> None:
        env = FakeEnvironment()
        master = self.opened(env)
        topics = [topic for topic, _ in self.places]
        self.offsets = self.send(master, *[message(topic, body=b"%d" % n * 20) for n, topic in enumerate(topics)])
        self.stopped(master)
        self.size = self.offsets[1] - self.offsets[0]
        self.end = self.offsets[-1] + self.size
        self.whole = bytes(env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[: self.end])

    def region(self, *numbers: int) -> tuple[int, int]:
        """The beginning and the end of records that lie side by side."""
        return self.offsets[numbers[0]], self.offsets[numbers[-1]] + self.size

    def slave(self, env: FakeEnvironment, *damaged: tuple[int, ...], **changes: object) -> OpenStore:
        """A slave with the log, but for records that are damaged in its master's, in groups side by side."""
        store = self.opened(env, small(replica=True, **changes))
        at = 0
        for group in damaged:
            begin, end = self.region(*group)
            store.append_raw(at, self.whole[at:begin])
            store.expect_damage(begin, end)
            store.append_raw(begin, b"\xff" * (end - begin))
            at = end
        store.append_raw(at, self.whole[at:])
        self.assertEqual(
            [(one.offset, one.end) for one in store.damage.regions], [self.region(*one) for one in damaged]
        )
        return store

    def repair(self, store: OpenStore, backwards: bool = False) -> None:
        """Put all regions right."""
        for region in store.damage.regions[:: -1 if backwards else 1]:
            self.now(store.repair_damage(region, self.whole[region.offset : region.end]))

    def assert_whole(self, store: OpenStore, what: object = "") -> None:
        """All messages are there, each at its own offset, and no damage is known."""
        for topic in "TUVW":
            numbers = [number for number, (name, _) in enumerate(self.places) if name == topic]
            self.assertEqual(self.bodies(store, topic), [b"%d" % number * 20 for number in numbers], what)
        self.assertEqual(len(store.damage), 0, what)

    def test_slave(self) -> None:
        """They come back at their own offsets, at once, and after a stop, a kill and a power failure."""
        groups: list[list[tuple[int, ...]]] = [
            [(4,)], [(0,)], [(7,)], [(3,)], [(3, 4)], [(0, 1)], [(5, 6)], [(2,), (4,)], [(0,), (2,)], [(5,), (7,)],
            [(0, 1, 2, 3), (4,), (5, 6, 7)],
        ]  # fmt: skip
        for damaged in groups:
            for backwards in (False, True):
                what = damaged, backwards
                env = FakeEnvironment()
                store = self.slave(env, *damaged)
                self.repair(store, backwards)
                self.assert_whole(store, what)
                for after in (killed(env), power_off(env)):
                    self.assert_whole(self.opened(after, small(replica=True)), what)
                self.stopped(store)
                store = self.opened(env, small(replica=True))
                self.assert_whole(store, what)
                more = encode(message(body=b"more"), 4, self.end, env.clock.wall_ms())
                store.append_raw(self.end, more)
                self.assertEqual(self.bodies(store)[4:], [b"more"], what)

    def test_told(self) -> None:
        """Who waits for messages is told, also where readers get what is flushed alone."""
        for sync in (False, True):
            store = self.slave(FakeEnvironment(), (4,), sync_flush=sync)
            ear = Ear(store)
            store.subscribe(ear)
            self.repair(store)
            self.assertEqual(ear.heard[-1][:3], ("T", 0, 4))
            self.assert_whole(store)

    def test_taken(self) -> None:
        """An offset that a later message has is that message's; the record stays damaged."""
        store = self.slave(FakeEnvironment(), (4,))
        store.append_raw(self.end, encode(message(body=b"later"), 3, self.end, 1))
        region = store.damage.regions[0]
        self.failureResultOf(store.repair_damage(region, self.whole[region.offset : region.end]), LogsDiffer)
        self.assertEqual(self.bodies(store)[3:], [b"later"])
        self.assertEqual(store.damage.regions, [region])

    def test_out_of_step(self) -> None:
        """A record that cannot follow what its queue has is left out, and the log says so."""
        for number in (9, 1 << 50):
            store = self.slave(FakeEnvironment(), (4,))
            wrong = encode(message(body=b"4" * 20), number, self.offsets[4], 1)
            with capturedLogs() as logs:
                self.now(store.repair_damage(store.damage.regions[0], wrong))
            self.assertEqual(len(self.bodies(store)), 3)
            said = [one for one in logs if "is not delivered" in one["log_format"]]
            self.assertEqual([(one["offset"], one["topic"]) for one in said], [(number, "T")])

    def test_put_right_while_stopped(self) -> None:
        """Where somebody puts the log right while no process has it, the start makes the queues with the records."""
        env = FakeEnvironment()
        self.stopped(self.slave(env, (0,), (2,), (4,), (7,)))
        env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[: self.end] = self.whole
        self.assert_whole(self.opened(env, small(replica=True)))

    def test_deleted(self) -> None:
        """A record whose topic was deleted after it comes back in no queue."""
        env = FakeEnvironment()
        store = self.slave(env, (4,))
        self.now(store.delete_topic("T"))
        self.repair(store)
        self.assertEqual(store.bounds("T", 0), (0, 0))
        self.assertEqual(len(store.damage), 0)

    def test_killed_before_it_is_durable(self) -> None:
        """Where the power fails before the queue is on the disk, the next start makes the queue with the message."""
        env = FakeEnvironment()
        store = self.slave(env, (4,), (7,))
        self.successResultOf(store.flush())
        with held(env, "checkpoint"):
            region = store.damage.regions[0]
            done = store.repair_damage(region, self.whole[region.offset : region.end])
            self.assertEqual(len(self.bodies(store)), 4)
            self.assertNoResult(done)
            listed = regions.decode(env.files.read(f"{ROOT}/{regions.PATH}"))
            self.assertEqual([(one.offset, one.end) for one in listed], [self.region(4), self.region(7)])
            after = self.opened(power_off(env), small(replica=True))
        self.assertEqual(len(self.bodies(after)), 4)
        self.repair(after)
        self.assert_whole(after)
        self.repair(store)
        self.assert_whole(store)

    def test_no_room(self) -> None:
        """Without room for a unit the log says so, and the next start makes the queue with the message."""
        env = FakeEnvironment()
        store = self.slave(env, (7,))

        def failing(queue: ConsumeQueue, offset: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched = self.patch(ConsumeQueue, "reserve", failing)
        with capturedLogs() as logs:
            self.repair(store)
        patched.restore()
        self.assertEqual(store.bounds("W", 0), (0, 0))
        self.assertIn("comes back after the next start", next(one["log_format"] for one in logs))
        self.stopped(store)
        self.assert_whole(self.opened(env, small(replica=True)))


class EndOfMasterQueueTests(StoreTestCase):
    """The last record of a master's queue, damaged when the queue was made anew and nothing told how far it went."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        store = self.opened(self.env)
        begin = self.send(store, *[message(body=b"%d" % number * 20) for number in range(4)])[-1]
        self.send(store, message("U"))
        self.stopped(store)
        files = self.env.files.files
        log = files[f"{ROOT}/commitlog/{0:020d}"]
        self.whole = bytes(log.data)
        log.data[begin + HEAD_SIZE] ^= 1
        for path in [path for path in files if "/commitlog/" not in path]:
            del files[path]
        self.store = self.opened(self.env)
        self.assertEqual(len(self.bodies(self.store)), 3)
        self.found = self.store.damage.regions[0]

    def test_back(self) -> None:
        """It comes back, and what is sent then follows it."""
        data = self.whole[self.found.offset : self.found.end]
        self.now(self.store.repair_damage(self.found, data))
        self.send(self.store, message(body=b"more"))
        self.assertEqual(self.bodies(self.store)[3:], [b"3" * 20, b"more"])
        self.assertEqual(len(self.bodies(self.opened(killed(self.env)))), 5)

    def test_taken(self) -> None:
        """Where a message was sent before, the offset is that message's."""
        self.send(self.store, message(body=b"more"))
        data = self.whole[self.found.offset : self.found.end]
        self.failureResultOf(self.store.repair_damage(self.found, data), LogsDiffer)
        self.assertEqual(self.bodies(self.store)[3:], [b"more"])

    def test_taken_meanwhile(self) -> None:
        """So it is where a message is sent while the record is being written."""
        data = self.whole[self.found.offset : self.found.end]
        with capturedLogs() as logs, held(self.env, "tables"):
            self.store.repair_damage(self.found, data)
            self.send(self.store, message(body=b"more"))
        self.assertEqual(self.bodies(self.store)[3:], [b"more"])
        self.assertEqual(len([one for one in logs if "is not delivered" in one["log_format"]]), 1)
