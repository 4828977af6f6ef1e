"""Tests of L{smartgo.spark.network.pullwindow}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.network.pullwindow import Ask, PullWindow


def offsets(body: bytes) -> list[int]:
    """The offsets in what L{serve} answered."""
    return list(memoryview(body).cast("i")) if body else []


def serve(ask: Ask, most: int, queue_end: int) -> tuple[int, bytes]:
    """Answer as a broker does that gives out so many messages at most; the messages are their offsets."""
    end = min(ask.offset + min(ask.most, most), queue_end)
    return end, b"".join(number.to_bytes(4, "little") for number in range(ask.offset, end))


class PullWindowTests(SynchronousTestCase):
    def test_any_order(self) -> None:
        """Whatever the order and length of answers, and the pulls repeated, all offsets come once and in order."""
        random = Random(7)
        for _ in range(300):
            begin, count = random.randrange(1000), random.randrange(400)
            window = PullWindow(
                begin, begin + count, random.choice([1, 32, 50]), random.randrange(1, 9), random.choice([1, 4000])
            )
            asked: list[Ask] = []
            found: list[int] = []
            while not window.is_done:
                asked += window.asks()
                self.assertLessEqual(len(asked), 8)
                choice = random.random()
                ask = asked.pop(random.randrange(len(asked)))
                if choice < 0.1:
                    window.again(ask)
                elif choice < 0.13:
                    window.restart()
                    asked.clear()
                else:
                    window.answer(ask, *serve(ask, random.randrange(1, 40), begin + count))
                for part in window.ready():
                    self.assertEqual(offsets(part.body), list(range(part.begin, part.end)))
                    found += offsets(part.body)
            self.assertEqual(found, list(range(begin, begin + count)))

    def test_depth(self) -> None:
        """Only so many pulls are under way, each for no more than is left of its block."""
        window = PullWindow(0, 70, stride=32, depth=2)
        self.assertEqual(list(window.asks()), [Ask(0, 32), Ask(32, 32)])
        self.assertEqual(list(window.asks()), [])
        window.answer(Ask(0, 32), 20, b"x")
        self.assertEqual(list(window.asks()), [Ask(20, 12)])

    def test_kept(self) -> None:
        """When much waits for what is in front of it, only that is asked for."""
        window = PullWindow(0, 1000, stride=10, depth=3, kept=5)
        first, second, third = window.asks()
        window.answer(second, 20, b"12345")
        self.assertEqual(list(window.ready()), [])
        self.assertEqual(list(window.asks()), [])
        window.answer(first, 4, b"1")
        self.assertEqual([one.body for one in window.ready()], [b"1"])
        self.assertEqual(list(window.asks()), [Ask(4, 6)])
        window.answer(Ask(4, 6), 10, b"2")
        self.assertEqual([one.body for one in window.ready()], [b"2", b"12345"])
        self.assertEqual(list(window.asks()), [Ask(30, 10), Ask(40, 10)])
        self.assertEqual(third, Ask(20, 10))

    def test_skipped(self) -> None:
        """What is gone is not asked for any more, and an answer about it is not wanted."""
        window = PullWindow(0, 100, stride=10, depth=3)
        first, second, third = window.asks()
        self.assertTrue(window.is_wanted(second))
        window.again(first)
        self.assertEqual(window.first_missing, 0)
        window.skip(0, 25)
        self.assertFalse(window.is_wanted(second))
        window.again(second)
        self.assertFalse(window.is_wanted(third))
        window.again(third)
        self.assertEqual(window.first_missing, 25)
        self.assertEqual(list(window.asks()), [Ask(25, 5), Ask(30, 10), Ask(40, 10)])

    def test_behind(self) -> None:
        """An answer of a filtering broker that goes on behind its block counts up to the block's end."""
        window = PullWindow(0, 100, stride=10, depth=1)
        (ask,) = window.asks()
        window.answer(ask, 57, b"abc")
        self.assertEqual([(one.begin, one.end) for one in window.ready()], [(0, 10)])
        self.assertEqual(list(window.asks()), [Ask(10, 10)])

    def test_empty(self) -> None:
        """Nothing is asked for where nothing is wanted."""
        self.assertTrue(PullWindow(5, 5).is_done)
        self.assertEqual(list(PullWindow(5, 5).asks()), [])
