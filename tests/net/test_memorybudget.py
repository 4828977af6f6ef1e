"""The memory budget, alone and with connections."""

from __future__ import annotations

import struct
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.limits import SERVER, Limits
from smartgo.net.memorybudget import Kind, MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.remoting.dispatch import Later, LongPoll
from smartgo.schema.command import encode
from tests.remoting.doubles import ECHO, LATE, Accepted, Doing, Lates, echo, request

MIB = 1 << 20
CHUNK = 64 * 1024


class Holding:
    """A holder that remembers what it is told."""

    def __init__(self, budget: MemoryBudget, holds: int) -> None:
        self._budget = budget
        self.holds = holds
        self.unfinished = holds
        self.went_on = 0
        self.closed: list[str] = []
        budget.take(Kind.UNFINISHED_FRAMES, holds)

    def release(self) -> None:
        """Give all back."""
        self._budget.forget(self)
        self._budget.give(Kind.UNFINISHED_FRAMES, self.holds)
        self.holds = self.unfinished = 0

    def go_on(self) -> None:
        """Count."""
        self.went_on += 1

    def no_room(self, why: str) -> None:
        """Remember, and give all back as a connection does."""
        self.closed.append(why)
        self.release()


class MemoryBudgetTests(SynchronousTestCase):
    """The arithmetic."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.budget = MemoryBudget(self.clock, 64 * MIB)

    def test_counts(self) -> None:
        """What is taken is counted by kind until it is given back."""
        self.budget.take(Kind.LOCKS, 100)
        self.budget.take(Kind.LONG_POLLS, 7)
        self.budget.give(Kind.LOCKS, 60)
        self.assertEqual(
            (self.budget.used, self.budget.taken(Kind.LOCKS), self.budget.taken(Kind.LONG_POLLS)), (47, 40, 7)
        )

    def test_returns_memory(self) -> None:
        """After 64 MiB were given back in large pieces memory goes back to the system, at most every 10 s."""
        returned: list[float] = []
        budget = MemoryBudget(self.clock, 64 * MIB, return_memory=lambda: returned.append(self.clock.seconds()))
        for kind, size in ((Kind.UNFINISHED_FRAMES, 1000), (Kind.ANSWERS, MIB)):
            for _ in range(100):
                budget.take(kind, size)
                budget.give(kind, size)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for moment in range(20):
            for _ in range(64):
                budget.take(Kind.UNFINISHED_FRAMES, MIB)
                budget.give(Kind.UNFINISHED_FRAMES, MIB)
            self.clock.advance(1)
            self.assertEqual(returned, [1.0] + [11.0] * (moment >= 10))

    def test_share_shrinks(self) -> None:
        """The share is a quarter of what is free, the reserve not counted; one that holds nothing is never paused."""
        self.assertEqual(self.budget.share, 12 * MIB)
        self.budget.take(Kind.ANSWERS, 40 * MIB)
        self.assertEqual(self.budget.share, 2 * MIB)
        large, small = Holding(self.budget, 3 * MIB), Holding(self.budget, 1 * MIB)
        self.assertTrue(self.budget.must_pause(large))
        self.assertFalse(self.budget.must_pause(small))
        self.budget.take(Kind.ANSWERS, 10 * MIB)
        self.assertEqual(self.budget.share, 0)
        self.assertFalse(self.budget.must_pause(Holding(self.budget, 0)))
        self.assertFalse(self.budget.has_room(1))

    def test_goes_on(self) -> None:
        """A paused holder goes on in the same turn in which enough is given back, and no timer is left."""
        self.budget.take(Kind.ANSWERS, 47 * MIB)
        holders = [Holding(self.budget, 1 * MIB) for _ in range(3)]
        for one in holders:
            self.assertTrue(self.budget.must_pause(one))
            self.budget.pause(one)
        self.clock.advance(0.05)
        self.assertEqual([one.went_on for one in holders], [1, 0, 0], "the oldest reads on at the reserve's cost")
        self.budget.give(Kind.ANSWERS, 40 * MIB)
        self.clock.advance(0)
        self.assertEqual([one.went_on for one in holders], [1, 1, 1])
        self.budget.forget(holders[0])
        self.assertEqual((self.budget.paused, self.clock.getDelayedCalls()), (0, []))
        self.assertEqual(self.budget.pauses, 3)

    def test_one_after_another(self) -> None:
        """The holder that was favoured finishes its frame, and the next is favoured at once."""
        self.budget.take(Kind.ANSWERS, 47 * MIB)
        holders = [Holding(self.budget, 1 * MIB) for _ in range(3)]
        for one in holders:
            self.budget.pause(one)
        self.clock.advance(0.05)
        self.assertFalse(self.budget.must_pause(holders[0]))
        holders[0].release()
        self.clock.advance(0)
        self.assertEqual([one.went_on for one in holders], [1, 1, 0])

    def test_slow_favourite(self) -> None:
        """A favoured holder whose frame does not become whole within 3 s is closed; each in turn, so all end."""
        self.budget.take(Kind.ANSWERS, 47 * MIB)
        holders = [Holding(self.budget, MIB // 2) for _ in range(30)]
        for one in holders:
            self.budget.pause(one)
        self.clock.pump([0.05] * 63)
        self.assertEqual([len(one.closed) for one in holders], [1] + [0] * 29)
        self.assertIn("not whole after 3 s", holders[0].closed[0])
        self.clock.pump([0.05] * 620)
        self.assertEqual([len(one.closed) for one in holders], [1] * 30)
        self.assertIn("no room for its frame for 30 s", holders[29].closed[0])
        self.assertEqual(self.budget.refused, 30)
        self.assertEqual((self.budget.used, self.clock.getDelayedCalls()), (47 * MIB, []))

    def test_several(self) -> None:
        """As many holders read on as the reserve has room for: one frame of 16 MiB of 64 MiB, 16 frames of 1 MiB."""
        budget = MemoryBudget(self.clock, 64 * MIB, MIB)
        budget.take(Kind.ANSWERS, 30 * MIB)
        holders = [Holding(budget, MIB) for _ in range(20)]
        for one in holders:
            budget.pause(one)
        self.clock.advance(0.05)
        self.assertEqual([one.went_on for one in holders], [1] * 16 + [0] * 4)
        for one in holders:
            one.release()
        self.assertEqual((budget.paused, self.clock.getDelayedCalls()), (0, []))

    def test_must_close(self) -> None:
        """Who takes the last byte of the reserve is closed, unless he holds next to nothing."""
        self.budget.take(Kind.ANSWERS, 64 * MIB - 4096)
        tiny = Holding(self.budget, 4096)
        self.assertFalse(self.budget.must_close(tiny))
        self.assertTrue(self.budget.must_close(Holding(self.budget, 4097)))
        self.assertFalse(self.budget.must_close(tiny), "however much others hold")

    def test_largest_is_closed(self) -> None:
        """Who holds most is closed for whoever passes the budget."""
        holders = [Holding(self.budget, size * MIB) for size in (10, 30, 20)]
        for one in holders:
            self.budget.pause(one)
        last = Holding(self.budget, 5 * MIB)
        self.assertFalse(self.budget.must_close(last))
        self.assertEqual([len(one.closed) for one in holders], [0, 1, 0])
        self.assertEqual((self.budget.used, self.budget.refused), (35 * MIB, 1))
        self.assertTrue(self.budget.must_close(Holding(self.budget, 30 * MIB)), "it holds most itself")


class ConnectionsTests(SynchronousTestCase):
    """Connections under a budget of 64 MiB."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.budget = MemoryBudget(self.clock, 64 * MIB)
        self.sweeper = Sweeper(self.clock, self.budget)

    def accept(self, *processors: Any, limits: Limits = SERVER) -> Accepted:
        """One more connection."""
        return Accepted(processors or [echo()], clock=self.clock, sweeper=self.sweeper, limits=limits)

    def fill(self, accepted: Accepted, size: int) -> int:
        """Send the beginning of a frame of 16 MiB, as far as it is read; return how many bytes were."""
        accepted.protocol.dataReceived(struct.pack(">i", 16 * MIB))
        sent = 4
        while sent < size and accepted.wire.reading and not accepted.wire.aborted:
            accepted.protocol.dataReceived(bytes(CHUNK))
            sent += CHUNK
        return sent

    def test_unfinished_frames(self) -> None:
        """However many connections begin frames, reading stops before the budget is passed; others are served."""
        attackers = [self.accept() for _ in range(100)]
        for one in attackers:
            self.fill(one, 15 * MIB)
        self.assertLessEqual(self.budget.used, 64 * MIB)
        self.assertGreater(self.budget.used, 40 * MIB)
        self.assertEqual(self.budget.taken(Kind.UNFINISHED_FRAMES), self.budget.used)
        bystander = self.accept()
        bystander.hear(request(body=bytes(1024)))
        bystander.turn()
        self.assertEqual([len(one.body) for one in bystander.answers()], [1024])
        self.assertGreater(self.budget.paused, 50)
        while self.budget.used > 1 * MIB:
            self.assertLess(self.clock.seconds(), 75, "the attackers are still there")
            self.clock.advance(0.05)
            for one in attackers:
                if one.wire.aborted:
                    one.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertTrue(all(not one.connection.open for one in attackers))

    def test_all_become_whole(self) -> None:
        """Honest peers that send more at once than the budget holds are all served, one after another."""
        size = 12 * MIB
        peers = [
            self.accept(Doing(ECHO, lambda _, asked: asked.answer(body=b"%d" % len(asked.body)))) for _ in range(20)
        ]
        data = encode(request(body=bytes(size)))
        left = [memoryview(data) for _ in peers]
        peak = 0
        for _ in range(5000):
            for index, peer in enumerate(peers):
                if left[index] and peer.wire.reading:
                    peer.protocol.dataReceived(bytes(left[index][:CHUNK]))
                    left[index] = left[index][CHUNK:]
                    peak = max(peak, self.budget.used)
            self.clock.advance(0.005)
        self.assertEqual([one.body for peer in peers for one in peer.answers()], [b"%d" % size] * 20)
        self.assertLessEqual(peak, 64 * MIB)
        self.assertEqual((self.budget.used, self.budget.refused), (0, 0))

    def test_everything_is_given_back(self) -> None:
        """A connection that ends, in whatever state, gives back all that it had."""
        held = Lates(LongPoll)
        lates = Lates()
        for end in ("lost", "abort", "close", "give_up"):
            accepted = self.accept(Doing(LATE, lates), Doing(ECHO, held), limits=Limits(in_flight=2))
            accepted.hear(request(ECHO, 1, b"p" * 100), *(request(LATE, number, b"x" * 1000) for number in range(2, 9)))
            accepted.protocol.dataReceived(struct.pack(">i", MIB) + bytes(5000))
            used = {kind: self.budget.taken(kind) for kind in Kind}
            self.assertEqual(used[Kind.UNFINISHED_FRAMES], 5004)
            self.assertGreater(used[Kind.WAITING_FRAMES], 5000)
            self.assertGreater(used[Kind.REQUESTS], 2000)
            self.assertGreater(used[Kind.LONG_POLLS], 0)
            if end != "lost":
                getattr(accepted.connection.link, end)(*(["done"] if end == "close" else []))
            accepted.protocol.connectionLost(Failure(ConnectionDone()))
            self.assertEqual((self.budget.used, [self.budget.taken(kind) for kind in Kind]), (0, [0] * len(Kind)), end)

    def test_answers_unsent(self) -> None:
        """Answers that a peer does not take are counted until it does."""
        accepted = self.accept(Doing(ECHO, lambda _, asked: asked.answer(body=bytes(MIB // 2))))
        accepted.wire.full = True
        for number in range(3):
            accepted.hear(request(opaque=number))
            accepted.turn()
        before = self.budget.taken(Kind.ANSWERS)
        self.assertEqual(before, accepted.connection.unsent)
        self.assertGreater(before, MIB)
        accepted.wire.full = False
        while accepted.connection.unsent:
            accepted.wire.drained()
        self.assertEqual(self.budget.taken(Kind.ANSWERS), 0)

    def test_readers_that_take_nothing(self) -> None:
        """Peers that ask for long answers and take none are closed, and not those who send meanwhile."""
        long = Doing(ECHO, lambda _, asked: asked.answer(body=bytes(4 * MIB if asked.opaque < 15 else 60_000)))
        lates = Lates()
        bystander = self.accept(Doing(LATE, lates))
        attackers = []
        for number in range(100):  # the short ones use up what the long ones leave
            attackers.append(self.accept(long))
            attackers[-1].wire.full = True
            attackers[-1].hear(request(opaque=number))
            attackers[-1].turn()
            bystander.hear(request(LATE, number, bytes(100_000)))
            bystander.turn()
            if lates.pending:  # it was read at once
                lates.fire()
            self.clock.advance(0.05)
            bystander.turn()
        self.assertLessEqual(self.budget.used, 64 * MIB)
        self.assertTrue(bystander.connection.open)
        self.assertEqual(len(bystander.answers()), 100)
        self.assertTrue(any(one.wire.aborted for one in attackers[:15]))
        for one in (*attackers, bystander):
            one.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((self.budget.used, self.clock.getDelayedCalls()), (0, []))

    def test_long_polls_keep_no_body(self) -> None:
        """A held request is kept without its body and its header."""
        held = Lates(LongPoll)
        accepted = self.accept(Doing(LATE, held))
        accepted.hear(request(LATE, 7, bytes(MIB)))
        held.requests.clear()
        (later,) = accepted.connection.outstanding
        assert isinstance(later, Later)
        self.assertEqual((later._request.body, later._request.raw, later._request.opaque), (b"", b"", 7))
        self.assertLess(self.budget.used, 4096)
