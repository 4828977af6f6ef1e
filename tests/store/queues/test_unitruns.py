"""Tests of L{smartgo.store.queues.unitruns}."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.store.queues.unitruns import UnitSequence


def unit(number: int) -> bytes:
    """The unit of the record with that place in the log."""
    return Unit(number * 100, 100, number).pack()


def runs(*offsets: int, drain_after: int = 0, given_out: int = 0) -> tuple[list[tuple[int, list[int]]], int]:
    """The runs that records with these queue offsets make: first offset, and the records' places (-1: stood in for)."""
    sequence = UnitSequence()
    found = []
    for number, offset in enumerate(offsets):
        sequence.add(offset, unit(number))
        if drain_after and number % drain_after == 0:
            found += sequence.drain()
    found += sequence.drain(last=True, given_out=given_out)
    told = []
    for offset, raw in found:
        units = [Unit.unpack(bytes(raw), at) for at in range(0, len(raw), UNIT_SIZE)]
        told.append((offset, [-1 if one.size == PREFILL.size else one.tag_hash for one in units]))
    return told, sequence.displaced


class UnitSequenceTests(SynchronousTestCase):
    def test_in_step(self) -> None:
        """Adjacent offsets make one run, wherever they begin."""
        for begin in (0, 7, 1 << 40):
            for count in (1, 2, 5):
                self.assertEqual(runs(*range(begin, begin + count)), ([(begin, list(range(count)))], 0))

    def test_one_out_of_step(self) -> None:
        """One record with a wrong offset is stood in for; those around it stay."""
        for wrong in (0, 3, 100, 1 << 60, -5):
            self.assertEqual(runs(5, 6, wrong, 8, 9), ([(5, [0, 1, -1, 3, 4])], 1), wrong)

    def test_first_out_of_step(self) -> None:
        """A first record that those after it do not follow is left out."""
        self.assertEqual(runs(100, 6, 7, 8), ([(6, [1, 2, 3])], 1))
        self.assertEqual(runs(1 << 60, 6, 7), ([(6, [1, 2])], 1))

    def test_last_out_of_step(self) -> None:
        """So is a last one."""
        self.assertEqual(runs(5, 6, 0), ([(5, [0, 1])], 1))
        self.assertEqual(runs(5, 6, 90), ([(5, [0, 1])], 1))

    def test_last_was_there(self) -> None:
        """A last record whose offset the queue is known to have had is kept, and stood in for are those before it."""
        self.assertEqual(runs(5, 6, 8, given_out=9), ([(5, [0, 1, -1, 2])], 0))
        self.assertEqual(runs(5, 6, 8, given_out=8), ([(5, [0, 1])], 1))
        self.assertEqual(runs(5, 6, 4, given_out=9), ([(5, [0, 1])], 1))
        self.assertEqual(runs(5, 6, 1 << 40, given_out=1 << 41), ([(5, [0, 1])], 1))
        self.assertEqual(runs(5, 6, 8, drain_after=1, given_out=9), ([(5, [0, 1]), (7, [-1, 2])], 0))

    def test_one_too_many(self) -> None:
        """A record that strayed in from another queue is left out."""
        self.assertEqual(runs(5, 6, 50, 7, 8), ([(5, [0, 1, 3, 4])], 1))

    def test_same_again(self) -> None:
        """Of two with the same offset the later counts."""
        self.assertEqual(runs(5, 6, 6, 7), ([(5, [0, 2, 3])], 1))
        self.assertEqual(runs(0, 0, 1, 2), ([(0, [1, 2, 3])], 1))

    def test_new_run(self) -> None:
        """Two and more that count from somewhere else are a run of their own, up or down."""
        self.assertEqual(runs(5, 6, 7, 0, 1, 2), ([(5, [0, 1, 2]), (0, [3, 4, 5])], 0))
        self.assertEqual(runs(5, 6, 7, 20, 21), ([(5, [0, 1, 2]), (20, [3, 4])], 0))
        self.assertEqual(runs(5, 6, 90, 91, 0, 1), ([(5, [0, 1]), (90, [2, 3]), (0, [4, 5])], 0))

    def test_two_out_of_step(self) -> None:
        """Of records that follow nothing at all, each is left out."""
        self.assertEqual(runs(5, 6, 40, 60, 9, 10), ([(5, [0, 1]), (9, [4, 5])], 2))

    def test_drained(self) -> None:
        """Taking out what is there at any moment changes nothing but where the runs are cut."""
        random = Random(6)
        for _ in range(500):
            offsets = list(range(10, 30))
            for _ in range(random.randrange(3)):
                offsets[random.randrange(20)] ^= 1 << random.randrange(10)
            whole, displaced = runs(*offsets)
            parts, again = runs(*offsets, drain_after=random.randrange(1, 8))
            joined: list[tuple[int, list[int]]] = []
            for offset, places in parts:
                if joined and joined[-1][0] + len(joined[-1][1]) == offset:
                    joined[-1][1].extend(places)
                else:
                    joined.append((offset, places))
            if not any(first == second for first, second in pairwise(offsets)):
                self.assertEqual((joined, again), (whole, displaced), offsets)
