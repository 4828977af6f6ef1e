"""Tests of L{smartgo.spark.network.queueranges}."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.network.queueranges import Queue, QueueRange, cut, ranges, share

A, B, C = Queue("T", "a", 0), Queue("T", "a", 1), Queue("T", "b", 0)


class CutTests(SynchronousTestCase):
    def test_ranges(self) -> None:
        """What lies between two offsets of a queue is a range; nothing is none."""
        found = ranges({A: 5, B: 7, C: 9}, {B: 7, A: 10, C: 8, Queue("S", "a", 0): 4})
        self.assertEqual(found, [QueueRange(A, 5, 10)])

    def test_most(self) -> None:
        """No partition has more messages than asked for, and together they are the range."""
        found = cut([QueueRange(A, 3, 24), QueueRange(B, 0, 4)], None, 5)
        self.assertEqual(max(one.count for one in found), 5)
        self.assertEqual([(one.begin, one.end) for one in found][-1], (0, 4))
        self.assertEqual(found[0].begin, 3)
        self.assertTrue(all(one.end == after.begin for one, after in pairwise(found[:-1])))

    def test_minimum(self) -> None:
        """There are as many partitions as wanted, the longest ranges being cut, but none without messages."""
        whole = [QueueRange(A, 0, 1000), QueueRange(B, 0, 10)]
        found = cut(whole, 5, None)
        self.assertEqual([one.queue for one in found], [A] * 4 + [B])
        self.assertEqual([one.count for one in found[:4]], [250] * 4)
        self.assertEqual(len(cut([QueueRange(A, 0, 3)], 50, None)), 3)
        self.assertEqual(cut([], 5, None), [])
        self.assertEqual(cut(whole, 1, None), whole)

    def test_any(self) -> None:
        """However a range is cut, each offset is in one partition."""
        random = Random(5)
        for _ in range(200):
            whole = []
            for queue in (A, B, C):
                begin = random.randrange(100)
                whole.append(QueueRange(queue, begin, begin + random.randrange(1, 300)))
            minimum, most = (
                random.choice([None, random.randrange(1, 40)]),
                random.choice([None, random.randrange(1, 90)]),
            )
            found = cut(whole, minimum, most)
            seen = [(one.queue, at) for one in found for at in range(one.begin, one.end)]
            self.assertEqual(seen, [(one.queue, at) for one in whole for at in range(one.begin, one.end)])
            self.assertGreaterEqual(len(found), min(minimum or 0, len(seen)))
            self.assertLessEqual(max(one.count for one in found), most or 400)


class ShareTests(SynchronousTestCase):
    def test_all(self) -> None:
        """Without a limit, or below it, a micro-batch has all there is."""
        ends = {A: 10, B: 20}
        self.assertEqual(share({A: 0, B: 0}, ends, None), ends)
        self.assertEqual(share({A: 0, B: 0}, ends, 30), ends)

    def test_proportion(self) -> None:
        """A limit is shared in proportion to what waits, and nothing that waits is passed over."""
        found = share({A: 100, B: 0, C: 7}, {A: 1100, B: 1, C: 7}, 100)
        self.assertEqual(found, {A: 199, B: 1, C: 7})
