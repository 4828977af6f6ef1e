"""Tests of L{smartgo.store.scrub}, through a store."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
from twisted.logger import capturedLogs

from smartgo.schema import logcheck
from smartgo.schema.record import HEAD_SIZE
from smartgo.store import pagereads, scrub, verifiedlog
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, message, small

FILE_SIZE = 1 << 14
RATE = 1024


class ScrubTests(StoreTestCase):
    def setUp(self) -> None:
        for module, name, value in (
            (verifiedlog, "REGION", 1024),
            (scrub, "REGION", 1024),
            (logcheck, "CHUNK", 512),
        ):
            self.patch(module, name, value)
        self.env = FakeEnvironment()

    def start(self, rate: int = RATE) -> OpenStore:
        """An open store with that rate."""
        return self.opened(self.env, small(log_file_size=FILE_SIZE, scrub_rate=rate))

    def written(self, count: int = 200) -> tuple[OpenStore, list[int]]:
        """A store with messages, all of them flushed."""
        store = self.start()
        offsets = self.send(store, *[message(body=b"%d" % number * 30) for number in range(count)])
        self.env.clock.advance(2)
        return store, offsets

    def saved(self) -> dict[str, Any]:
        """The state in the store's directory."""
        found: dict[str, Any] = msgspec.json.decode(self.env.files.read(f"{ROOT}/smartgo.scrub"))
        return found

    def flip(self, offset: int) -> None:
        """Flip a bit of a body."""
        data = self.env.files.files[f"{ROOT}/commitlog/{offset - offset % FILE_SIZE:020d}"].data
        data[offset % FILE_SIZE + HEAD_SIZE] ^= 1

    def test_on_request(self) -> None:
        """All of the log is checked at the rate that is set, with progress and a result; then a week is waited."""
        store, offsets = self.written()
        size = store.log_bounds()[1]
        store.scrub.start()
        began = self.env.clock.seconds()
        self.assertAlmostEqual(store.scrub.seconds_left, size / RATE)
        self.env.clock.pump([0.0] + [1.0] * 8)
        self.assertTrue(store.scrub.running)
        self.assertEqual(store.scrub.state.position, 9 * 1024)
        while store.scrub.running:
            self.env.clock.advance(0.5)
        self.assertLess(abs(self.env.clock.seconds() - began - size / RATE), 2)
        state = store.scrub.state
        self.assertEqual((state.last_bytes, state.last_records, state.last_damaged), (size, len(offsets), 0))
        self.assertEqual(self.saved()["last_records"], len(offsets))
        self.assertEqual(store.scrub.seconds_left, 0)

    def test_finds_damage(self) -> None:
        """What went bad while the broker ran is found, set apart, and not delivered, though it was verified before."""
        store, offsets = self.written()
        self.assertEqual(len(self.bodies(store)), 200)
        self.flip(offsets[100])
        store.scrub.start()
        with capturedLogs() as logs:
            self.env.clock.pump([0.0] + [0.5] * 200)
        self.assertFalse(store.scrub.running)
        self.assertEqual([one.offset for one in store.damage.regions], [offsets[100]])
        self.assertEqual(store.scrub.state.last_damaged, 1)
        self.assertEqual(len([one for one in logs if "found {records} messages right" in one["log_format"]]), 1)
        found = [one.queue_offset for one in self.read_all(store)]
        self.assertEqual(found, [one for one in range(200) if one != 100])
        self.assertEqual(len(self.send(store, message())), 1)
        self.assertEqual(len(self.read_all(store)), 200)
        store.scrub.start()
        self.env.clock.pump([0.0] + [0.5] * 200)
        self.assertEqual((store.scrub.state.last_damaged, store.damage.found), (1, 1))  # known, and damaged still

    def test_by_itself(self) -> None:
        """One begins each week, counted from the first start, over restarts; none where the rate is 0."""
        store, _ = self.written()
        self.env.clock.advance(scrub.WEEK - 100)
        self.assertEqual(store.scrub.state.ended_ms, 0)
        self.stopped(store)
        store = self.start()
        self.env.clock.pump([99.0] + [1.0] * 60)
        self.assertGreater(store.scrub.state.ended_ms, 0)
        first = store.scrub.state.ended_ms
        self.env.clock.pump([scrub.WEEK - 10] + [1.0] * 60)
        self.assertGreater(store.scrub.state.ended_ms, first)
        self.stopped(store)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        store = self.start(0)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        store.scrub.start()
        self.assertTrue(store.scrub.running)

    def test_other_rate(self) -> None:
        """Another rate holds at once for a scrub that runs, and for the next ones; with 0 none begins by itself."""
        store, _ = self.written()
        size = store.log_bounds()[1]
        store.scrub.start()
        self.env.clock.pump([0.0, 1.0])
        store.scrub.change_rate(1)
        self.env.clock.pump([0.0, 10.0])
        self.assertEqual(store.scrub.state.position, 3 * 1024)
        self.assertAlmostEqual(store.scrub.seconds_left, size - 3 * 1024)
        store.scrub.change_rate(1 << 20)
        self.env.clock.pump([0.0] + [0.1] * 60)
        self.assertFalse(store.scrub.running)
        store.scrub.change_rate(0)
        self.env.clock.advance(3)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        store.scrub.change_rate(RATE)
        first = store.scrub.state.ended_ms
        self.env.clock.pump([scrub.WEEK, 1.0] + [1.0] * 100)
        self.assertGreater(store.scrub.state.ended_ms, first)

    def test_interrupted(self) -> None:
        """A scrub goes on after a restart; one that is stopped ends."""
        store, offsets = self.written()
        store.scrub.start()
        self.env.clock.pump([0.0] + [1.0] * 5)
        position = store.scrub.state.position
        self.stopped(store)
        store = self.start()
        self.assertEqual((store.scrub.running, store.scrub.state.position), (True, position))
        self.env.clock.pump([1.0] * 60)
        self.assertEqual(store.scrub.state.last_records, len(offsets))
        store.scrub.start()
        self.env.clock.pump([0.0, 1.0])
        store.scrub.stop()
        self.assertFalse(store.scrub.running)
        self.env.clock.pump([1.0] * 60)
        self.assertEqual(store.scrub.state.position, store.scrub.state.end)
        self.assertFalse(store.scrub.running)

    def test_unreadable(self) -> None:
        """A read that fails is tried again; what fails again is damage, and the scrub goes on."""
        store, offsets = self.written()
        read_at = self.env.files.read_at

        def failing(path: str, at: int, size: int) -> bytes:
            if "commitlog" in path and at <= offsets[20] < at + size and offsets[20] < FILE_SIZE:
                raise OSError(errno.EIO, "Input/output error", path)
            return read_at(path, at, size)

        self.patch(self.env.files, "read_at", failing)
        self.patch(verifiedlog, "PAGE", 64)
        self.patch(pagereads, "PAGE", 64)
        store.scrub.start()
        self.env.clock.pump([0.0] + [1.0] * 50)
        self.assertEqual(len(store.damage), 0)  # it may be the disk's only error for long
        self.env.clock.pump([1.0] * 200)
        self.assertFalse(store.scrub.running)
        self.assertGreaterEqual(len(store.damage), 1)
        self.assertGreater(store.scrub.state.last_records, 190)

    def test_empty(self) -> None:
        """An empty log is done at once; a state that cannot be read is made anew."""
        store = self.start()
        store.scrub.start()
        self.assertFalse(store.scrub.running)
        self.stopped(store)
        self.env.files.files[f"{ROOT}/smartgo.scrub"].data[:1] = b"x"
        self.assertFalse(self.start().scrub.running)
        self.assertFalse(self.opened(killed(self.env), small()).scrub.running)
