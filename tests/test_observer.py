"""Tests of L{smartgo.observer}."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.observer import ObserverList, OneShotObserver, Waiters


class WaitersTests(SynchronousTestCase):
    """An event that Deferreds wait for, and that can happen again."""

    def test_next_time(self) -> None:
        """Each hears of the next time alone; who waits afterwards waits for the time after that."""
        event: Waiters[int] = Waiters()
        event.fire(1)
        self.assertFalse(event)
        first, second = event.wait(), event.wait()
        self.assertTrue(event)
        self.assertNoResult(first)
        event.fire(2)
        third = event.wait()
        self.assertEqual([self.successResultOf(one) for one in (first, second)], [2, 2])
        self.assertNoResult(third)
        event.fire(3)
        self.assertEqual(self.successResultOf(third), 3)

    def test_fails(self) -> None:
        """A failure is told to all who wait."""
        event: Waiters[int] = Waiters()
        waiting = [event.wait(), event.wait()]
        event.fire(Failure(ZeroDivisionError()))
        for one in waiting:
            self.failureResultOf(one, ZeroDivisionError)

    def test_waits_again(self) -> None:
        """Who waits again when told waits for the next time."""
        event: Waiters[int] = Waiters()
        again: list[Deferred[int]] = []
        event.wait().addCallback(lambda _: again.append(event.wait()))
        event.fire(1)
        self.assertNoResult(again[0])
        event.fire(2)
        self.assertEqual(self.successResultOf(again[0]), 2)

    def test_cancelled(self) -> None:
        """One that is cancelled hears nothing more, even when another cancels it while all are told."""
        event: Waiters[int] = Waiters()
        one, other, last = event.wait(), event.wait(), event.wait()
        one.cancel()
        self.failureResultOf(one, CancelledError)
        other.addCallback(lambda _: last.cancel())
        event.fire(1)
        self.failureResultOf(last, CancelledError)
        self.assertIsNone(self.successResultOf(other))


class OneShotObserverTests(SynchronousTestCase):
    """An event that happens once."""

    def test_before_and_after(self) -> None:
        """Who asked before is told when it happens, who asks afterwards at once; each has a Deferred of his own."""
        event: OneShotObserver[int] = OneShotObserver()
        before = event.when()
        self.assertNoResult(before)
        self.assertFalse(event.happened)
        event.fire(5)
        self.assertTrue(event.happened)
        self.assertEqual([self.successResultOf(one) for one in (before, event.when(), event.when())], [5, 5, 5])

    def test_fails(self) -> None:
        """A failure is told to everybody, too."""
        event: OneShotObserver[int] = OneShotObserver()
        before = event.when()
        event.fire(Failure(ZeroDivisionError()))
        for one in (before, event.when()):
            self.failureResultOf(one, ZeroDivisionError)

    def test_cancelled(self) -> None:
        """One that is cancelled hears nothing more, and the others do."""
        event: OneShotObserver[int] = OneShotObserver()
        one, other = event.when(), event.when()
        one.cancel()
        self.failureResultOf(one, CancelledError)
        event.fire(1)
        self.assertEqual(self.successResultOf(other), 1)

    def test_once(self) -> None:
        """It cannot happen twice."""
        event: OneShotObserver[int] = OneShotObserver()
        event.fire(1)
        self.assertRaises(RuntimeError, event.fire, 2)

    def test_of(self) -> None:
        """It is the event that a Deferred fires, or fails with."""
        work: Deferred[int] = Deferred()
        event = OneShotObserver.of(work)
        work.callback(3)
        self.assertEqual(self.successResultOf(event.when()), 3)
        broken: Deferred[int] = Deferred()
        event = OneShotObserver.of(broken)
        broken.errback(Failure(ZeroDivisionError()))
        self.failureResultOf(event.when(), ZeroDivisionError)


class ObserverListTests(SynchronousTestCase):
    """An event that happens again and again."""

    def test_tells(self) -> None:
        """All are told, in order, until they are removed; one that raises is logged and stops nobody."""
        told: list[tuple[str, int]] = []
        observers: ObserverList[[int]] = ObserverList("a test", [lambda number: told.append(("first", number))])
        observers.add(lambda number: 1 / 0)
        last = observers.add
        self.assertTrue(observers)

        def second(number: int) -> None:
            told.append(("second", number))

        last(second)
        observers.tell(1)
        observers.remove(second)
        observers.tell(2)
        self.assertEqual(told, [("first", 1), ("second", 1), ("first", 2)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual(len(observers), 2)
        self.assertFalse(ObserverList("nothing"))

    def test_removed_while_telling(self) -> None:
        """Who is removed while others are told is told this once more, and not again."""
        told: list[str] = []
        observers: ObserverList[[]] = ObserverList("a test")

        def last() -> None:
            told.append("last")

        observers.add(lambda: observers.remove(last) if len(observers) == 2 else None)
        observers.add(last)
        observers.tell()
        observers.tell()
        self.assertEqual(told, ["last"])
        self.assertRaises(ValueError, observers.remove, last)

    def test_changed_while_telling(self) -> None:
        """Who is added while it is told is told from the next time on."""
        told: list[str] = []
        observers: ObserverList[[]] = ObserverList("a test")
        observers.add(lambda: observers.add(lambda: told.append("late")))
        observers.tell()
        self.assertEqual(told, [])
        observers.tell()
        self.assertEqual(told, ["late"])
