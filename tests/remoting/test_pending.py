"""Calls that wait for their answers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.remoting.pending import Call, PendingCalls


def call(waiter: str, deadline: float) -> Call[str]:
    """A call with this deadline."""
    return Call(waiter, 310, deadline, 3.0, 0)


class PendingCallsTests(SynchronousTestCase):
    def test_take(self) -> None:
        """An answer finds who waits for it, once."""
        calls: PendingCalls[str] = PendingCalls()
        calls.add(7, call("me", 3.0))
        self.assertIn(7, calls)
        self.assertEqual((calls.take(7), calls.take(7), calls.take(8), len(calls)), ("me", None, None, 0))

    def test_opaques(self) -> None:
        """Opaques count up from 0, wrap after 2^31 - 1, and skip those in use."""
        calls: PendingCalls[str] = PendingCalls()
        self.assertEqual([calls.next_opaque() for _ in range(3)], [0, 1, 2])
        calls._opaque = 0x7FFFFFFF
        calls.add(0, call("old", 3.0))
        calls.add(1, call("older", 3.0))
        self.assertEqual([calls.next_opaque() for _ in range(2)], [0x7FFFFFFF, 2])

    def test_expire(self) -> None:
        """Calls expire at their deadline, whatever the order they were made in, and the earliest left is known."""
        calls: PendingCalls[str] = PendingCalls()
        for opaque, deadline in enumerate((5.0, 3.0, 9.0, 3.5)):
            calls.add(opaque, call(f"at {deadline}", deadline))
        self.assertEqual(calls.earliest, 3.0)
        self.assertEqual(calls.expire(2.99), [])
        self.assertEqual([one.waiter for one in calls.expire(5.0)], ["at 5.0", "at 3.0", "at 3.5"])
        self.assertEqual((calls.earliest, len(calls)), (9.0, 1))
        self.assertEqual([one.waiter for one in calls.expire(9.0)], ["at 9.0"])
        self.assertEqual(calls.earliest, float("inf"))

    def test_answered_is_not_expired(self) -> None:
        """A call that was answered or given up does not expire."""
        calls: PendingCalls[str] = PendingCalls()
        calls.add(1, call("answered", 3.0))
        calls.add(2, call("gave up", 3.0))
        calls.add(3, call("waits", 4.0))
        calls.take(1)
        calls.forget("gave up")
        calls.forget("unknown")
        self.assertEqual(calls.expire(3.0), [])
        self.assertEqual(calls.earliest, 4.0)

    def test_drain(self) -> None:
        """Draining returns every call and leaves none."""
        calls: PendingCalls[str] = PendingCalls()
        for opaque in range(3):
            calls.add(opaque, call(str(opaque), 3.0))
        self.assertEqual([one.waiter for one in calls.drain()], ["0", "1", "2"])
        self.assertEqual((len(calls), calls.earliest, calls.drain()), (0, float("inf"), []))
