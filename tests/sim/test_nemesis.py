"""The faults of a run: drawn from the seed alone, each happens, and a failing run is made smaller."""

from __future__ import annotations

import dataclasses
import functools
import gc
import random
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.interfaces import SlaveState
from tests.chaos.history import Crash
from tests.fakes import FakeClock
from tests.sim.disk import Disk
from tests.sim.nemesis import WINDOW, Fault, plan
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
        simulation = Simulation(8, 3.0)
        targets = ["broker-a-0", "broker-b-1", "registry-1", "broker-b-0", "broker-a-1"]
        faults = []
        for number, kind in enumerate((*KINDS, *LINKS)):
            target = targets[number % len(targets)]
            if kind in ("partition", "one-way", "cut", "half-open", "stall"):
                target = "broker-a-1,broker-a-0"
            elif kind.endswith(("disk", "sync")) or kind in ("crash-in-write", "breaking"):
                target = ("broker-a-0", "broker-b-0")[number % 2]
            faults.append(Fault(number, 15.0 + 6.0 * number, kind, target, 4.0))
        simulation.nemesis.faults[:] = faults
        outcome = simulation.run()
        self.assertEqual(outcome.violations, ())
        self.assertEqual(set(outcome.happened), {*KINDS, *LINKS})

    def quiet(self, faults: list[Fault], **changes: object) -> Simulation:
        """Return a simulation of half a minute with these faults, and with none of clients."""
        profile = dataclasses.replace(Profile.draw(Streams(3)), kinds=(), **changes)  # type: ignore[arg-type]
        self.patch(Profile, "draw", lambda streams: profile)
        simulation = Simulation(3, 0.5)
        simulation.nemesis.faults[:] = faults
        return simulation

    def test_nothing_hit(self) -> None:
        """A fault that hits nothing did not happen."""
        faults = [Fault(0, 8.0, "cut", "broker-a-0,broker-a-1", 2.0), Fault(1, 12.0, "failing-disk", "broker-b-0", 2.0)]
        simulation = self.quiet(faults)
        self.patch(simulation.cluster.world.network, "connections", list)
        self.patch(Disk, "fault", lambda disk, operation, path: None)
        outcome = simulation.run()
        self.assertEqual((outcome.violations, outcome.happened), ((), {}))

    def test_window(self) -> None:
        """Where no sync failed, a disk that failed excuses no more than a power cut does."""
        for kinds, more in ({"remove"}, False), ({"sync"}, True):
            simulation = self.quiet([Fault(0, 12.0, "failing-disk", "broker-a-0", 10.0)], sync_flush=False)
            self.patch(simulation.streams, "of", functools.partial(_chosen, simulation.streams.of, kinds))
            simulation.run()
            windows = [event.window for event in simulation.recorder.events if isinstance(event, Crash)]
            self.assertEqual(windows[-1] > WINDOW, more, (kinds, windows))
            self.assertLessEqual(windows[-1], WINDOW + 10.0)

    def test_diverged_later(self) -> None:
        """What a master lost excuses no slave that has followed it since and diverges later."""
        simulation = self.quiet([Fault(0, 8.0, "power", "broker-a-0", 1.0)], sync_flush=False)
        slave = simulation.cluster.slave("a")

        def diverge() -> None:
            opened = slave.opened
            assert opened is not None
            now = opened.replication.now()
            self.assertIs(now.state, SlaveState.FOLLOWING)
            self.patch(opened.replication, "now", lambda: now._replace(state=SlaveState.DIVERGED))

        simulation.kernel.later(45, diverge)
        found = simulation.run().violations
        self.assertTrue(any("diverged, and its master lost nothing" in text for text in found), found)


def _chosen(draws: Callable[[str], random.Random], kinds: set[str], name: str) -> random.Random:
    return Chosen(kinds) if name == "fault 0" else draws(name)


class Chosen(random.Random):
    """Draws for a fault of a disk: always, and of these kinds."""

    def __init__(self, kinds: set[str]) -> None:
        super().__init__(1)
        self._kinds = kinds

    def choice(self, seq: Any) -> Any:
        """Choose the kinds, or the most."""
        return self._kinds if None in seq else max(seq)


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
