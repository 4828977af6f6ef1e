"""The faults of a run: drawn from the seed alone, each happens, and a failing run is made smaller."""

from __future__ import annotations

import dataclasses
import gc
import random

from twisted.trial.unittest import SynchronousTestCase

from tests.fakes import FakeClock
from tests.sim.disk import Disk
from tests.sim.nemesis import Fault, plan
from tests.sim.profile import FAR, KINDS, LINKS, PAIRED, Profile
from tests.sim.reducer import reduce
from tests.sim.run import Simulation
from tests.sim.seeds import Streams

NODES = ["registry-0", "broker-a-0", "broker-a-1"]


class PlanTests(SynchronousTestCase):
    """The plan of the faults."""

    def test_plan(self) -> None:
        """Faults are numbered, in time, and do not overlap on one machine; some seeds have none."""
        none = 0
        for seed in range(60):
            profile = Profile.draw(Streams(seed))
            faults = plan(profile, Streams(seed), NODES, 600.0)
            self.assertEqual(faults, plan(profile, Streams(seed), NODES, 600.0))
            self.assertEqual([one.number for one in faults], list(range(len(faults))))
            none += not profile.kinds
            busy = dict.fromkeys(NODES, 0.0)
            for one in faults:
                self.assertIn(one.kind, profile.kinds)
                self.assertLessEqual(one.time + one.seconds, 600.0)
                if one.target in busy:
                    self.assertGreaterEqual(one.time, busy[one.target])
                    busy[one.target] = one.time + one.seconds
        self.assertTrue(0 < none < 20, none)

    def test_streams(self) -> None:
        """A draw for one purpose shifts none for another."""
        one, other = Streams(7), Streams(7)
        one.of("a").random()
        self.assertEqual(one.of("b").random(), other.of("b").random())
        self.assertNotEqual(Streams(8).of("b").random(), Streams(7).of("b").random())


class KindTests(SynchronousTestCase):
    """Each kind of fault can happen, and a cluster survives it alone."""

    def tearDown(self) -> None:
        """Drop what faults made the product log; simulations judge it themselves."""
        gc.collect()
        self.flushLoggedErrors()

    def test_pair(self) -> None:
        """A SYNC_MASTER's machine is lost, and a pair loses its power; the logs begin just below 2 GiB."""
        begins = FAR - FAR % 16384
        drawn = Profile.draw(Streams(5))
        profile = dataclasses.replace(
            drawn, sync_flush=True, sync_master=True, log_file_size=16384, log_begins=begins, kinds=("kill",)
        )
        self.patch(Profile, "draw", lambda streams: profile)
        simulation = Simulation(5, 1.0)
        simulation.nemesis.faults[:] = [
            Fault(number, 15.0 + 15.0 * number, kind, "broker-a-0", 4.0) for number, kind in enumerate(PAIRED)
        ]
        outcome = simulation.run()
        self.assertEqual(outcome.violations, ())
        self.assertEqual(set(outcome.happened), set(PAIRED))
        opened = simulation.cluster.master("a").opened
        assert opened is not None
        self.assertGreater(opened.store.log_bounds()[1], 2**31)

    def test_each(self) -> None:
        """A fault of each kind happens, ends, and the run is valid."""
        simulation = Simulation(11, 3.0)
        targets = ["broker-a-0", "broker-b-1", "registry-1", "broker-b-0", "broker-a-1"]
        faults = []
        for number, kind in enumerate((*KINDS, *LINKS)):
            target = targets[number % len(targets)]
            if kind in ("partition", "one-way", "cut", "half-open", "stall"):
                target = f"{target},{targets[(number + 1) % len(targets)]}"
            elif kind.endswith(("disk", "sync")) or kind == "crash-in-write":
                target = ("broker-a-0", "broker-b-0")[number % 2]
            faults.append(Fault(number, 15.0 + 6.0 * number, kind, target, 4.0))
        simulation.nemesis.faults[:] = faults
        outcome = simulation.run()
        self.assertEqual(outcome.violations, ())
        self.assertEqual(set(outcome.happened), {*KINDS, *LINKS})


class ReducerTests(SynchronousTestCase):
    """The reducer of failing runs."""

    def test_reduce(self) -> None:
        """Only what a failure needs is left."""
        needed = {3, 17, 18}
        left_out = reduce(40, lambda without: not needed & without)
        self.assertEqual(set(range(40)) - left_out, needed)


class DroppedTests(SynchronousTestCase):
    """What a failed sync did not write."""

    def test_dropped(self) -> None:
        """It is there until the power fails, whatever syncs succeed after that, unless it is written anew."""
        disk = Disk(FakeClock(), random.Random(1))
        disk.make_directories("/d")
        disk.allocate("/d/f", 2048)
        disk.sync_directory("/d")
        mapping = disk.map("/d/f")
        mapping.view[:1024] = b"x" * 1024
        disk.rate, disk.failing, disk.drops = 1.0, {"sync"}, True
        self.assertRaises(OSError, mapping.sync)
        disk.mend()
        mapping.view[:512] = b"y" * 512
        mapping.view[1024:] = b"z" * 1024
        mapping.sync()
        self.assertEqual(disk.read("/d/f"), b"y" * 512 + b"x" * 512 + b"z" * 1024)
        again = disk.killed(FakeClock(), random.Random(1))
        again.map("/d/f").sync()
        for one in disk, again:
            cut = one.cut_off(FakeClock(), random.Random(2))
            self.assertEqual(cut.read("/d/f"), b"y" * 512 + bytes(512) + b"z" * 1024)
