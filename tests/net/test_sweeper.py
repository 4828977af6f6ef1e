"""The shared timers."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.ratelimitedlog import RateLimitedLog
from tests.remoting.doubles import sweeper_of


class Member:
    """Looked at each second."""

    def __init__(self, check_at: float = 0.0) -> None:
        self.check_at = check_at
        self.looks: list[float] = []

    def check(self, now: float) -> None:
        """Remember."""
        self.looks.append(now)


class Asker:
    """Waits for answers until the deadlines given."""

    def __init__(self, *deadlines: float) -> None:
        self.deadlines = list(deadlines)
        self.calls: list[float] = []
        self.expired: list[float] = []

    def expire(self, now: float) -> float:
        """Forget those that have come."""
        self.calls.append(now)
        self.expired += [one for one in self.deadlines if one <= now]
        self.deadlines = [one for one in self.deadlines if one > now]
        return min(self.deadlines, default=float("inf"))


class LookTests(SynchronousTestCase):
    """Once a second."""

    def test_one_timer(self) -> None:
        """However many members there are there is one timer, and none without members."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        self.assertEqual(clock.getDelayedCalls(), [])
        members = [Member() for _ in range(50)]
        for member in members:
            sweeper.join(member)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        clock.pump([1, 1, 1])
        self.assertEqual({tuple(member.looks) for member in members}, {(1.0, 2.0, 3.0)})
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        for member in members:
            sweeper.leave(member)
            sweeper.leave(member)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_only_when_due(self) -> None:
        """A member is looked at when its time has come, not before."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        member = Member(check_at=2.5)
        sweeper.join(member)
        clock.pump([1, 1])
        self.assertEqual(member.looks, [])
        clock.advance(1)
        self.assertEqual(member.looks, [3.0])

    def test_failing_member(self) -> None:
        """A look that raises is logged and keeps nobody else from being looked at."""

        class Failing(Member):
            def check(self, now: float) -> None:
                raise ZeroDivisionError

        clock = Clock()
        sweeper = sweeper_of(clock)
        other = Member()
        sweeper.join(Failing())
        sweeper.join(other)
        clock.pump([1, 1])
        self.assertEqual(other.looks, [1.0, 2.0])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_stamp(self) -> None:
        """The stamp is never before now and at most two seconds ahead."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        sweeper.join(Member())
        for _ in range(50):
            clock.advance(0.1)
            self.assertLessEqual(clock.seconds(), sweeper.stamp + 1e-9)
            self.assertLessEqual(sweeper.stamp, clock.seconds() + 2)

    def test_standstill(self) -> None:
        """After a standstill of the process the sockets are read for one more turn before anybody is judged."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        member = Member()
        sweeper.join(member)
        order: list[str] = []
        member.check = lambda now: order.append("judged")  # type: ignore[method-assign]
        clock.callLater(60, order.append, "read")
        clock.rightNow += 60  # no timer ran meanwhile
        clock.advance(0)
        self.assertEqual(order, ["read", "judged"])
        self.assertGreaterEqual(sweeper.stamp, 60)

    def test_told_of_standstill(self) -> None:
        """Listeners are told once of a standstill of more than 3 s, by the look or by who reads before it."""
        for read_first in (True, False):
            clock = Clock()
            sweeper = sweeper_of(clock)
            told: list[float] = []
            sweeper.when_stood_still(lambda seconds: 1 / 0)
            sweeper.when_stood_still(told.append)
            self.assertGreater(sweeper.overdue, 1e9)
            sweeper.join(Member())
            clock.pump([1.0] * 5)
            clock.advance(3.9)
            self.assertEqual(told, [])
            clock.pump([1.0] * 3)
            if read_first:
                clock.rightNow += 100.0
                sweeper.stood_still(clock.seconds())
            clock.advance(0.0 if read_first else 100.0)
            clock.pump([1.0] * 3)
            self.assertEqual(len(told), 1)
            self.assertTrue(100.0 <= told[0] <= 101.0, told)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class DeadlineTests(SynchronousTestCase):
    """Deadlines of calls."""

    def test_exact(self) -> None:
        """Askers are called at the earliest deadline, to the moment, by one timer."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        one, other = Asker(3.0, 5.0), Asker(2.5)
        sweeper.expect(one, 3.0)
        sweeper.expect(one, 5.0)
        sweeper.expect(other, 2.5)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        clock.advance(2.4)
        self.assertEqual((one.calls, other.calls), ([], []))
        clock.advance(0.1)
        self.assertEqual(other.calls, [2.5])
        clock.advance(0.5)
        self.assertEqual((one.calls[-1], other.calls), (3.0, [2.5]))
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        clock.advance(2)
        self.assertEqual(one.calls[-1], 5.0)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_no_more(self) -> None:
        """When nobody waits any longer the timer is gone."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        one, other = Asker(3.0), Asker(4.0)
        sweeper.expect(one, 3.0)
        sweeper.expect(other, 4.0)
        sweeper.no_more(one)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        sweeper.no_more(other)
        sweeper.no_more(other)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_asked_while_expiring(self) -> None:
        """A call made because another expired is waited for too."""
        clock = Clock()
        sweeper = sweeper_of(clock)

        class Again(Asker):
            def expire(self, now: float) -> float:
                if not self.calls:
                    self.deadlines.append(now + 1)
                    sweeper.expect(self, now + 1)
                return super().expire(now)

        asker = Again(3.0)
        sweeper.expect(asker, 3.0)
        clock.pump([3, 1])
        self.assertEqual(asker.calls, [3.0, 4.0])
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_standstill(self) -> None:
        """Answers that came while the process stood still are read before their calls are called late."""
        clock = Clock()
        sweeper = sweeper_of(clock)
        asker = Asker(3.0)
        sweeper.expect(asker, 3.0)
        clock.callLater(60, asker.deadlines.clear)
        clock.rightNow += 60
        clock.advance(0)
        self.assertEqual((asker.calls, asker.expired), ([60.0], []))
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_failing_asker(self) -> None:
        """An asker that raises is logged, forgotten, and keeps nobody else from its deadline."""

        class Failing(Asker):
            def expire(self, now: float) -> float:
                raise ZeroDivisionError

        clock = Clock()
        sweeper = sweeper_of(clock)
        other = Asker(3.0, 4.0)
        sweeper.expect(Failing(), 3.0)
        sweeper.expect(other, 3.0)
        clock.pump([3, 1])
        self.assertEqual(other.calls, [3.0, 4.0])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class ComplaintTests(SynchronousTestCase):
    """Rationed warnings."""

    def test_one_a_minute(self) -> None:
        """An address is complained about once a minute, the rest is counted (reliability L1)."""
        clock = Clock()
        peer_warnings = RateLimitedLog(clock)
        said: list[object] = []
        peer_warnings._log = type("Log", (), {"warn": lambda _, sentence, **fields: said.append(fields["peer"])})()
        for _ in range(60):
            peer_warnings.warn("10.0.0.1", "{peer}", peer="a")
            clock.advance(1)
        peer_warnings.warn("10.0.0.2", "{peer}", peer="b")
        self.assertEqual((said, peer_warnings.suppressed), (["a", "b"], 59))
        peer_warnings.warn("10.0.0.1", "{peer}", peer="a")
        self.assertEqual(said, ["a", "b", "a"])

    def test_one_line(self) -> None:
        """What a peer had a hand in is shown as one line of 256 characters (reliability B9)."""
        peer_warnings = RateLimitedLog(Clock())
        with capturedLogs() as logs:
            peer_warnings.warn("10.0.0.1", "{error} {count}", error="a\nb\x1b[31m\0" + "c" * 500, count=5)
        self.assertEqual(logs[0]["error"], "a\\x0ab\\x1b[31m\\x00" + "c" * 247)
        self.assertEqual(logs[0]["count"], 5)

    def test_bounded(self) -> None:
        """The memory of addresses is bounded; those complained about longest ago are forgotten first."""
        clock = Clock()
        peer_warnings = RateLimitedLog(clock)
        peer_warnings._log = type("Log", (), {"warn": lambda *_, **__: None})()
        for number in range(10_000):
            peer_warnings.warn(f"address {number}", "x")
        self.assertLessEqual(len(peer_warnings._logged), 4096)
        peer_warnings.warn("address 9999", "x")
        self.assertEqual(peer_warnings.suppressed, 1)
