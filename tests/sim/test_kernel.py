"""The kernel: the order of calls, timers, and what dead processes do not do."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.trial.unittest import SynchronousTestCase

from tests.fakes import EPOCH_MS
from tests.sim.clock import ProcessClock
from tests.sim.kernel import Kernel, Life
from tests.sim.trace import Trace


class Wall:
    """A machine's wall clock."""

    wall_offset_ms = EPOCH_MS


class KernelTests(SynchronousTestCase):
    """Calls are made by time, then in the order in which they were asked for."""

    def setUp(self) -> None:
        """A kernel, and a list of what was called."""
        self.kernel = Kernel(Trace(keep=True))
        self.called: list[object] = []

    def test_order(self) -> None:
        """Time goes by the calls' times; of one moment the first asked for comes first."""
        for name, delay in ("late", 2.0), ("first", 1.0), ("second", 1.0):
            self.kernel.later(delay, self.called.append, name)
        self.kernel.run(1.5)
        self.assertEqual((self.called, self.kernel.now), (["first", "second"], 1.5))
        self.kernel.run(1.5)
        self.assertEqual((self.called, self.kernel.now), (["first", "second", "late"], 3.0))

    def test_timers(self) -> None:
        """A timer can be cancelled, moved to an earlier and to a later time."""
        clock = ProcessClock(self.kernel, Life(), Wall())
        cancelled = clock.callLater(1, self.called.append, "cancelled")
        earlier = clock.callLater(5, self.called.append, "earlier")
        later = clock.callLater(1, self.called.append, "later")
        cancelled.cancel()
        earlier.reset(2)
        later.delay(2)
        self.assertEqual([one.getTime() for one in (earlier, later)], [2, 3])
        self.assertEqual(set(clock.getDelayedCalls()), {earlier, later})
        self.kernel.run(2.5)
        self.assertEqual(self.called, ["earlier"])
        self.kernel.run(10)
        self.assertEqual(self.called, ["earlier", "later"])
        self.assertRaises(AlreadyCalled, later.cancel)
        self.assertRaises(AlreadyCancelled, cancelled.cancel)
        self.assertFalse(later.active())

    def test_dead(self) -> None:
        """A process that died makes no call."""
        life = Life()
        ProcessClock(self.kernel, life, Wall()).callLater(1, self.called.append, "dead")
        life.alive = False
        self.kernel.run(2)
        self.assertEqual(self.called, [])

    def test_drift(self) -> None:
        """A clock that runs fast calls early, and says so late."""
        clock = ProcessClock(self.kernel, Life(rate=2.0, since=100.0), Wall())
        clock.callLater(10, lambda: self.called.append((self.kernel.now, clock.seconds(), clock.wall_ms())))
        self.kernel.run(6)
        self.assertEqual(self.called, [(5.0, 110.0, EPOCH_MS + 10_000)])

    def test_errors(self) -> None:
        """A call that raises is a bug, and the others are made."""
        self.kernel.later(1, self.called.index, "absent")
        self.kernel.later(2, self.called.append, "next")
        self.kernel.run(3)
        self.assertEqual((self.called, len(self.kernel.bugs)), (["next"], 1))

    def test_wait(self) -> None:
        """To wait for a Deferred stops the time when it fires; its result stays."""
        fired: Deferred[str] = Deferred()
        self.kernel.later(3, fired.callback, "done")
        self.assertFalse(self.kernel.wait(Deferred(), 1))
        self.assertTrue(self.kernel.wait(fired, 10))
        self.assertEqual((self.kernel.now, self.successResultOf(fired)), (3.0, "done"))
