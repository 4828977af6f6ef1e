"""Parked pulls: woken by arrivals that match, answered when their time is over, never leaked."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.filter import TagFilter
from smartgo.broker.hold import PullHold
from smartgo.remoting.dispatch import Held
from smartgo.remoting.interfaces import Answer
from smartgo.schema.properties import tag_code
from tests.fakes import FakeClock


class Peer:
    """Stands for a connection; only its identity counts, and whether it is open."""

    open = True


class PullHoldTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A hold on a clock that stands still."""
        self.clock = FakeClock()
        self.hold = PullHold(self.clock, limit=6, peer_limit=4)
        self.peer: Any = Peer()
        self.resumed: list[str] = []

    def park(
        self, name: str, queue: int = 0, offset: int = 5, seconds: float = 15.0, tag: str = "", peer: Any = None
    ) -> Deferred[Answer]:
        """Park a pull that answers with its name."""

        def resume() -> Answer:
            self.resumed.append(name)
            return name.encode()

        wanted = TagFilter(frozenset({tag_code(tag)})) if tag else None
        return self.hold.park(peer or self.peer, "T", queue, offset, wanted, seconds, resume)

    def test_woken(self) -> None:
        """An arrival past the offset answers the pulls of that queue and no others."""
        mine = self.park("mine")
        other = self.park("other", queue=1)
        later = self.park("later", offset=6)
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertEqual(self.successResultOf(mine), b"mine")
        self.assertNoResult(other)
        self.assertNoResult(later)
        self.assertEqual(self.hold.count, 2)

    def test_filter(self) -> None:
        """A message that the filter refuses wakes nobody; one of several that it lets in does."""
        waiting = self.park("a", tag="TagA")
        self.hold.arrived("T", 0, 6, [tag_code("TagB")], 1)
        self.assertNoResult(waiting)
        self.hold.arrived("T", 0, 8, [tag_code("TagB"), tag_code("TagA")], 1)
        self.assertEqual(self.successResultOf(waiting), b"a")

    def test_passed(self) -> None:
        """A pull that was passed by messages it does not want goes on behind them within 5.5 s, however many come."""
        waiting = self.park("a", tag="TagA")
        untouched = self.park("b", queue=1, tag="TagA")
        for number in range(5):
            self.hold.arrived("T", 0, 6 + number, [tag_code("TagB")], 1)
            self.clock.advance(1.0)
        self.assertNoResult(waiting)
        self.clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), b"a")
        self.assertNoResult(untouched)
        soon = self.park("c", tag="TagA", seconds=1.0)
        self.hold.arrived("T", 0, 20, [tag_code("TagB")], 1)
        self.clock.advance(1.5)
        self.assertEqual(self.successResultOf(soon), b"c")

    def test_time_is_over(self) -> None:
        """Each is answered at the end of its time and at most half a second later, in the order of deadlines."""
        slow = self.park("slow", seconds=15)
        quick = self.park("quick", seconds=3)
        self.clock.advance(2.9)
        self.assertNoResult(quick)
        self.clock.advance(0.7)
        self.assertEqual(self.successResultOf(quick), b"quick")
        self.clock.advance(11.0)
        self.assertNoResult(slow)
        self.clock.advance(1.0)
        self.assertEqual(self.successResultOf(slow), b"slow")
        self.assertEqual((self.hold.count, self.clock.getDelayedCalls()), (0, []))

    def test_over_limit_of_a_peer(self) -> None:
        """Past its connection's limit a pull is answered after a second, not at once and by no arrival."""
        for number in range(4):
            self.park(str(number))
        extra = self.park("extra")
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(extra)
        self.clock.advance(0.9)
        self.assertNoResult(extra)
        self.clock.advance(0.7)
        self.assertEqual(self.successResultOf(extra), b"extra")

    def test_over_limit_of_all(self) -> None:
        """The limit for all connections counts too."""
        peers = [Peer() for _ in range(7)]
        waiting = [self.park(str(number), peer=peer) for number, peer in enumerate(peers)]
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(waiting[6])
        self.assertEqual(self.resumed, ["0", "1", "2", "3", "4", "5"])

    def test_cancelled(self) -> None:
        """The pulls of a connection that is gone are forgotten without being run again."""
        gone = self.park("gone")
        stays = self.park("stays", peer=Peer())
        self.peer.open = False
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertEqual(self.successResultOf(stays), b"stays")
        self.assertEqual((self.resumed, self.hold.count), (["stays"], 0))

    def test_cancelled_while_open(self) -> None:
        """A server that stops cancels what is held: it is answered with what there is."""
        waiting = self.park("one")
        self.assertIsInstance(waiting, Held)
        waiting.cancel()
        self.assertEqual(self.successResultOf(waiting), b"one")

    def test_resume_fails(self) -> None:
        """An error of the second try reaches the request that was parked, and the others are answered."""

        def resume() -> Answer:
            raise ValueError("no")

        bad = self.hold.park(self.peer, "T", 0, 5, None, 15, resume)
        good = self.park("good")
        self.hold.arrived("T", 0, 6, [0], 1)
        self.failureResultOf(bad, ValueError)
        self.assertEqual(self.successResultOf(good), b"good")

    def test_resume_waits(self) -> None:
        """A second try that has to wait for the disk is waited for."""
        disk: Deferred[Answer] = Deferred()
        waiting = self.hold.park(self.peer, "T", 0, 5, None, 15, lambda: disk)
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(waiting)
        disk.callback(b"read")
        self.assertEqual(self.successResultOf(waiting), b"read")

    def test_parks_again(self) -> None:
        """Answering may lead to the next pull being parked at once: it waits for the next arrival."""
        again: list[Deferred[Answer]] = []
        first = self.park("first")
        first.addCallback(lambda _: again.append(self.park("second", offset=6)))
        self.hold.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(again[0])
        self.hold.arrived("T", 0, 7, [0], 1)
        self.assertEqual(self.successResultOf(again[0]), b"second")

    def test_stop(self) -> None:
        """Stopping answers everything and leaves no timer."""
        waiting = self.park("one")
        self.hold.stop()
        self.assertEqual(self.successResultOf(waiting), b"one")
        self.assertEqual(self.clock.getDelayedCalls(), [])
