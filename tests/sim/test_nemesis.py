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
from tests.chaos.history import Crash, Invoke
from tests.fakes import FakeClock
from tests.sim.cluster import BrokerNode
from tests.sim.disk import Disk
from tests.sim.nemesis import WINDOW, Fault, plan
from tests.sim.profile import FAR, KINDS, LINKS, PAIRED, Profile
from tests.sim.reducer import reduce
from tests.sim.run import Simulation
from tests.sim.seeds import Streams

cut_off = Disk.cut_off

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
        simulation.workload.rate = 0.3  # more than the 16 KiB up to 2 GiB
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
        simulation.workload.rate = 0.25
        targets = ["broker-a-0", "broker-b-1", "registry-1", "broker-b-0", "broker-a-1"]
        faults = []
        for number, kind in enumerate((*KINDS, *LINKS)):
            target = targets[number % len(targets)]
            if kind in ("partition", "one-way", "cut", "half-open", "stall"):
                target = "broker-a-1,broker-a-0"
            elif kind.endswith(("disk", "sync")) or kind in ("crash-in-write", "breaking"):
                target = ("broker-a-0", "broker-b-0")[number % 2]
            seconds = 20.0 if kind == "breaking" else 4.0  # it may break as few as one in fifty
            faults.append(Fault(number, 15.0 + 6.0 * number, kind, target, seconds))
        simulation.nemesis.faults[:] = faults
        outcome = simulation.run()
        self.assertEqual(outcome.violations, ())
        self.assertEqual(set(outcome.happened), {*KINDS, *LINKS})

    def test_storms(self) -> None:
        """In storms processes are killed and machines lose their power while there is much to send."""
        simulation = self.quiet(
            [Fault(number, 8.0 + 5 * number, "storm", f"broker-a-{number % 2}", 3.0) for number in range(4)]
        )
        begun = [0.0]
        storm = simulation.workload.storm

        def count(sends: int, seconds: float) -> None:
            begun.append(simulation.recorder.counts[Invoke])
            storm(sends, seconds)

        simulation.nemesis._let_storm = count
        outcome = simulation.run()
        self.assertEqual((outcome.violations, outcome.happened), ((), {"storm": 4}))
        self.assertGreater(begun[-1] - begun[1], 3 * 4 * 4)

    def test_slaves_log(self) -> None:
        """The operator puts a slave's log in the place of what a SYNC_MASTER has lost with its power."""
        simulation = self.quiet([Fault(0, 12.0, "power", "broker-a-0", 1.0)], sync_flush=False, sync_master=True)
        master, slave = simulation.cluster.master("a"), simulation.cluster.slave("a")
        self.patch(Disk, "cut_off", lambda disk, clock, chance: cut_off(disk, clock, random.Random(2)))
        simulation.kernel.later(11.9, simulation.workload.storm, 8, 0.05)
        simulation.kernel.later(11.5, setattr, master.machine, "slowness", 500.0)
        outcome = simulation.run()
        self.assertEqual(outcome.violations, ())
        crashes = [event for event in simulation.recorder.events if isinstance(event, Crash)]
        self.assertIn("the operator takes the slave's log", [crash.cause for crash in crashes])
        self.assertTrue(all(crash.replicates for crash in crashes if crash.window))
        self.assertFalse(slave.emptied)

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
        """Where no sync failed that the store needed, a disk that failed excuses no more than a power cut does."""
        for kinds, more in ({"remove"}, False), ({"sync"}, True), ({"sync_directory"}, True):
            simulation = self.quiet([Fault(0, 12.0, "failing-disk", "broker-a-0", 10.0)], sync_flush=False)
            self.patch(simulation.streams, "of", functools.partial(_chosen, simulation.streams.of, kinds))
            if "sync_directory" in kinds:  # one is needed where a file of the log is full
                simulation.kernel.later(12.5, simulation.workload.storm, 16, 0.5)
            simulation.run()
            windows = self.windows(simulation)
            usual = WINDOW + 2 * simulation.profile.call
            self.assertEqual(windows[-1] > usual, more, (kinds, windows))
            self.assertLessEqual(windows[-1], usual + 10.0)

    def windows(self, simulation: Simulation) -> list[float]:
        """Return the seconds before each death of a master whose messages it may have lost."""
        return [event.window for event in simulation.recorder.events if isinstance(event, Crash)]

    def test_paused(self) -> None:
        """Nothing is flushed while a process stands still: what a power cut may take goes back to before."""
        pause = Fault(0, 10.0, "pause", "broker-a-0", 5.0)
        kill = Fault(1, 11.0, "kill", "broker-a-0", 0.5)
        for faults, cut_at, more in (
            ([pause], 12.0, 2.0),
            ([pause], 15.5, 5.0),
            ([pause], 19.0, 0.0),
            ([pause, kill], 14.0, 0.0),
        ):
            simulation = self.quiet([*faults, Fault(2, cut_at, "power", "broker-a-0", 1.0)], sync_flush=False)
            outcome = simulation.run()
            self.assertEqual(outcome.violations, ())
            usual = WINDOW + 2 * simulation.profile.call
            self.assertAlmostEqual(self.windows(simulation)[-1], usual + more, msg=str((faults, cut_at)))

    def test_begins_late(self) -> None:
        """A slave that had nothing while its master filled files begins with the last, and may lack what is before."""
        for seconds, storm_at, late in (23.0, 8.0, True), (15.0, 25.0, False):  # connections last for 20 s
            faults = [Fault(0, 5.0, "isolate", "broker-a-1", seconds)]
            simulation = self.quiet(faults, log_file_size=16384, log_begins=0, sync_master=False)
            simulation.kernel.later(storm_at, simulation.workload.storm, 60, 3.0)
            outcome = simulation.run()
            self.assertEqual(outcome.violations, ())
            slave = simulation.cluster.slave("a")
            assert slave.opened is not None
            self.assertEqual((slave.whole, slave.opened.store.log_bounds()[0] > 0), (not late, late))

    def test_lost_begin(self) -> None:
        """A slave that had the first messages of its master must have them in the end."""
        for empty, violations in (True, False), (False, True):
            simulation = self.quiet([], log_file_size=16384, log_begins=0, sync_master=False)
            slave = simulation.cluster.slave("a")

            def begin_later(slave: BrokerNode = slave, empty: bool = empty) -> None:
                slave.kill()
                slave.empty() if empty else slave.machine.empty()
                slave.start()

            simulation.kernel.later(8.0, simulation.workload.storm, 60, 3.0)
            simulation.kernel.later(20.0, begin_later)
            found = simulation.run().violations
            self.assertEqual(any(one.startswith("lost") for one in found), violations, found)

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


class NamesApartTests(SynchronousTestCase):
    """A disk whose directories keep their names by themselves."""

    def setUp(self) -> None:
        """Two directories with a durable file each, and one more in each of them that is not."""
        self.disk = Disk(FakeClock(), random.Random(1))
        self.disk.names_apart = True
        self.disk.make_directories("/a/b")
        self.disk.create("/a/old", b"1")
        self.disk.create("/a/b/old", b"2")
        self.disk.append("/a/new", b"3")
        self.disk.append("/a/b/new", b"4")

    def left(self) -> set[frozenset[str]]:
        """Return the sets of files that power cuts leave."""
        return {frozenset(self.disk.cut_off(FakeClock(), random.Random(seed)).files) for seed in range(100)}

    def test_apart(self) -> None:
        """To sync one directory keeps the names of no other; a replaced file in it counts as that."""
        old = {"/a/old", "/a/b/old"}
        self.assertEqual(
            self.left(), {frozenset(old | more) for more in (set(), {"/a/new"}, {"/a/b/new"}, {"/a/new", "/a/b/new"})}
        )
        self.disk.sync_directory("/a/b")
        self.assertEqual(self.left(), {frozenset({*old, "/a/b/new", *more}) for more in (set(), {"/a/new"})})
        self.disk.replace("/a/old", b"5", backup=False)
        self.assertEqual(self.left(), {frozenset({*old, "/a/b/new", "/a/new"})})

    def test_renamed(self) -> None:
        """What is renamed into another directory is in one of them, or in both."""
        self.disk.sync_directory("/a")
        self.disk.sync_directory("/a/b")
        self.disk.rename("/a/new", "/a/b/newer")
        rest = {"/a/old", "/a/b/old", "/a/b/new"}
        both = {"/a/new", "/a/b/newer"}
        self.assertEqual(self.left(), {frozenset(rest | more) for more in ({"/a/new"}, {"/a/b/newer"}, both)})
        self.disk.rename("/a/b", "/a/c")
        for files in self.left():
            self.assertTrue(files >= {"/a/c/old", "/a/c/new"} or files >= {"/a/b/old", "/a/b/new"}, files)

    def test_copied(self) -> None:
        """A killed process leaves what a power cut may take later."""
        before = self.left()
        self.disk = self.disk.killed(FakeClock(), random.Random(1))
        self.assertEqual(self.left(), before)
        self.disk = self.disk.cut_off(FakeClock(), random.Random(3))
        self.assertEqual(len(self.left()), 1)

    def test_copied_to_another(self) -> None:
        """A disk with a copy of all that another has loses nothing of that when the power fails."""
        self.disk.append("/a/new", b"5" * 2000)
        before = dict(self.disk.files)
        copy = self.disk.copied(FakeClock(), random.Random(1))
        for seed in range(20):
            cut = copy.cut_off(FakeClock(), random.Random(seed))
            self.assertEqual(
                {path: cut.read(path) for path in cut.files}, {path: self.disk.read(path) for path in before}
            )
        self.assertEqual((self.disk.files, len(self.left())), (before, 4))


class DroppedTests(SynchronousTestCase):
    """What a failed sync did not write."""

    def test_copied(self) -> None:
        """A copy of it on another disk is durable."""
        disk = Disk(FakeClock(), random.Random(1))
        disk.make_directories("/d")
        disk.create("/d/f", bytes(1024))
        mapping = disk.map("/d/f")
        mapping.view[:] = b"x" * 1024
        disk.rate, disk.failing, disk.drops = 1.0, {"sync"}, True
        self.assertRaises(OSError, mapping.sync)
        copy = disk.copied(FakeClock(), random.Random(1))
        self.assertEqual((copy.dropped_at, disk.dropped_at), (None, 0.0))
        copy.map("/d/f").sync()
        self.assertEqual(copy.cut_off(FakeClock(), random.Random(2)).read("/d/f"), b"x" * 1024)

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
