"""Tests for L{smartgo.store.timer.nearentries}."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.timers import MESSAGE_ENTRY, TimerEntry, due_of, offset_of
from smartgo.store.timer.nearentries import NearEntries


def entry(due_ms: int, offset: int) -> bytes:
    """Return a packed entry."""
    return TimerEntry(due_ms, MESSAGE_ENTRY, offset, 100).pack()


class NearEntriesTests(SynchronousTestCase):
    def test_order(self) -> None:
        """The earliest come first, and none that is not due."""
        due = list(range(100))
        Random(1).shuffle(due)
        near = NearEntries(entry(one, 1000 + one) for one in due)
        self.assertEqual([due_of(one) for one in near.take_due(9, 100)], list(range(10)))
        self.assertEqual([due_of(one) for one in near.take_due(50, 3)], [10, 11, 12])
        self.assertEqual(len(near), 87)

    def test_old(self) -> None:
        """Those of old records are taken in portions, each once; what comes meanwhile is among them."""
        near = NearEntries(entry(one, one) for one in range(50))
        taken = [*near.take_old(20, 8), *near.take_old(20, 8)]
        near.add(entry(7000, 5000))
        near.add(entry(8000, 11))
        self.assertTrue(near.has_old(20))
        taken += [*near.take_old(20, 8), *near.take_old(20, 8)]
        self.assertEqual(sorted(map(offset_of, taken)), sorted([*range(20), 11]))
        self.assertFalse(near.has_old(20))
        self.assertEqual(sorted(map(offset_of, near)), [*range(20, 50), 5000])

    def test_given_back(self) -> None:
        """One that was taken from the middle and is given back is there once."""
        near = NearEntries(entry(one, one) for one in range(10))
        taken = near.take_old(4, 2)
        near.add(taken[0])
        self.assertEqual(len(near), 9)
        self.assertEqual(len(near.take_old(4, 100)), 3)
        self.assertEqual([due_of(one) for one in near.take_due(100, 100)], list(range(4, 10)))
        self.assertIsNone(near.first)

    def test_delivered_meanwhile(self) -> None:
        """What was due in the meantime is not taken as old."""
        near = NearEntries(entry(one, one) for one in range(10))
        self.assertTrue(near.has_old(5))
        near.take_due(3, 100)
        self.assertEqual([offset_of(one) for one in near.take_old(5, 100)], [4])

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(["add", "due", "old", "back"]), st.integers(0, 30)), max_size=60))
    def test_like_a_set(self, steps: list[tuple[str, int]]) -> None:
        """Whatever is done in which order, it holds what a set would."""
        near = NearEntries()
        held: set[bytes] = set()
        out: set[bytes] = set()
        number = 0
        for step, value in steps:
            if step == "add":
                number += 1
                new = entry(value, number)
                near.add(new)
                held.add(new)
            elif step == "due":
                found = near.take_due(value, 3)
                self.assertEqual(found, sorted(one for one in held if due_of(one) <= value)[:3])
                held.difference_update(found)
                out.update(found)
            elif step == "old":
                old = {one for one in held if offset_of(one) < value}
                self.assertEqual(near.has_old(value), bool(old))
                found = near.take_old(value, 4)
                self.assertEqual(len(found), min(4, len(old)))
                self.assertTrue(old.issuperset(found))
                held.difference_update(found)
                out.update(found)
            elif out:
                back = sorted(out)[value % len(out)]
                out.discard(back)
                near.add(back)
                held.add(back)
            self.assertEqual(sorted(near), sorted(held))
            self.assertEqual((len(near), near.first), (len(held), min(held, default=None)))
