"""Some hundred random histories; C{python -m tests.histories} and C{tox -e histories} run many more."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from tests.fakes import FakeClock, FakeMapping
from tests.histories.runner import kind_of, run, shrink
from tests.sim import disk
from tests.sim.disk import Disk
from tests.sim.reducer import numbers, ranges

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SEEDS = 170
"""How many seeds: so many that they take some 15 s of one core."""


class ShortTests(SynchronousTestCase):
    """The promises hold, whatever happens."""

    def tearDown(self) -> None:
        """What a disk that fails makes the product log is no failure of ours; histories look at it themselves."""
        gc.collect()
        self.flushLoggedErrors()

    def check(self, kind: str) -> None:
        """Run the seeds of one kind."""
        for seed in range(SEEDS):
            if kind_of(seed) == kind:
                outcome = run(seed)
                if outcome.broken:
                    self.fail(f"{outcome.text}\nreplay: python -m tests.histories --seed {seed}")

    def test_store(self) -> None:
        """Of a store: sends, batches, deletions, crashes, faults of its disk."""
        self.check("store")

    def test_broker(self) -> None:
        """Of a broker: the same over the wire, with delayed messages, retries, positions, topics that change."""
        self.check("broker")

    def test_pair(self) -> None:
        """Of a master and its slave: the same, and slaves that join, are emptied, die and are promoted."""
        self.check("pair")


class SeedTests(SynchronousTestCase):
    """A seed is one history."""

    def test_hash_seeds(self) -> None:
        """Two processes with different hash seeds run the same histories."""
        told = []
        for hash_seed in ("1", "2"):
            command = [sys.executable, "-m", "tests.histories", "--count", "6", "--digests", "--no-shrink"]
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if len(line.split()) == 2]
            self.assertEqual(len(lines), 6, done.stderr)
            told.append(lines)
        self.assertEqual(*told)
        here = [f"{seed} {run(seed).digest}" for seed in range(3)]
        self.assertEqual(here, told[0][:3])

    def test_ranges(self) -> None:
        """Steps that are left out are written as they are read."""
        for some in (set(), {0}, {0, 1, 2, 7, 9, 10}):
            self.assertEqual(numbers(ranges(some)), some)
        for wrong in ("5-2", "abc", "1-2-3"):
            self.assertRaises(ValueError, numbers, wrong)


class FaultTests(SynchronousTestCase):
    """A fault that is planted is found, and its history made shorter."""

    def tearDown(self) -> None:
        """See L{ShortTests.tearDown}."""
        gc.collect()
        self.flushLoggedErrors()

    def test_disk_that_lies(self) -> None:
        """A disk that keeps nothing although it says so loses messages: some history shows it, and a shorter one."""

        def lie(mapping: FakeMapping) -> None:
            """Keep nothing."""

        with mock.patch.object(disk.Mapping, "sync", lie):
            failed = next(outcome for outcome in map(run, range(0, 400, 2)) if outcome.broken == "lost")
            left_out = shrink(failed, attempts=60)
            self.assertGreater(len(left_out), failed.steps // 2)
            self.assertEqual(run(failed.seed, failed.kind, left_out).broken, "lost")


class DiskTests(SynchronousTestCase):
    """The content of a disk after a crash."""

    def setUp(self) -> None:
        """A disk with a file that is synced, and another that is not."""
        self.clock = FakeClock()
        self.disk = Disk(self.clock, random.Random(1))
        self.disk.make_directories("/d")
        for name in "synced", "unsynced":
            self.disk.allocate(f"/d/{name}", 2048)
            self.disk.map(f"/d/{name}").view[:] = b"x" * 2048
        self.disk.map("/d/synced").sync()
        self.disk.sync_directory("/d")

    def test_killed(self) -> None:
        """A killed process leaves all that it wrote, and durable is what was durable before."""
        after = self.disk.killed(self.clock, random.Random(1))
        self.assertEqual(after.read("/d/unsynced"), b"x" * 2048)
        self.disk.map("/d/synced").view[:1] = b"y"
        self.assertEqual(after.read("/d/synced"), b"x" * 2048)
        lost = [after.cut_off(self.clock, random.Random(seed)).read("/d/unsynced") for seed in range(20)]
        self.assertIn(bytes(2048), lost)

    def test_cut_off(self) -> None:
        """A power cut keeps what was synced, and blocks of everything else at random."""
        lost = [self.disk.cut_off(self.clock, random.Random(seed)) for seed in range(50)]
        self.assertEqual({one.read("/d/synced") for one in lost}, {b"x" * 2048})
        kept = {one.read("/d/unsynced").count(b"x") for one in lost}
        self.assertEqual(kept, {0, 512, 1024, 1536, 2048})

    def test_names(self) -> None:
        """Names that were not synced are kept or lost, in the order in which they came."""
        for name in "12":
            self.disk.create(f"/d/{name}", b"", sync=False)
        self.disk.remove("/d/synced")
        seen = {tuple(self.disk.cut_off(self.clock, random.Random(seed)).list("/d")) for seed in range(50)}
        both = ("synced", "unsynced")
        self.assertEqual(seen, {both, ("1", *both), ("1", "2", *both), ("1", "2", "unsynced")})
        self.disk.sync_directory("/d")
        seen = {tuple(self.disk.cut_off(self.clock, random.Random(seed)).list("/d")) for seed in range(20)}
        self.assertEqual(seen, {("1", "2", "unsynced")})

    def test_faults(self) -> None:
        """Operations fail as often as they are told to, and no others."""
        self.disk.rate, self.disk.failing = 1.0, {"create"}
        self.assertRaises(OSError, self.disk.create, "/d/new", b"")
        self.disk.sync_directory("/d")
        self.disk.mend()
        self.disk.create("/d/new", b"")
        self.assertEqual(self.disk.faults, 1)

    def test_stopped_in_the_middle(self) -> None:
        """A crash in the middle of the work leaves what was there before that operation."""
        self.disk.stop_after = 2
        for name in "123":
            self.disk.create(f"/d/{name}", b"", sync=False)
        assert self.disk.stopped is not None
        self.assertEqual(self.disk.stopped.list("/d"), ["1", "synced", "unsynced"])
