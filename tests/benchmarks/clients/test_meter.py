"""Tests for L{benchmarks.clients.programs.meter}."""

from __future__ import annotations

import os
import resource
import threading

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.clients.programs import meter
from benchmarks.clients.programs.meter import Meter, Order, own_cpu, quantile
from tests.doctests import DocTestCase

SEND = Order("send", "T", "-", 128, 64, 0, 1 << 60, 1.0, 2.0)
CONSUME = Order("consume", "T", "G", 128, 1, 10, 90, 0.0, 2.0)


class ExampleTests(DocTestCase, module="benchmarks.clients.programs.meter"):
    """The examples."""


class OrderTests(SynchronousTestCase):
    """Orders travel as lines."""

    def test_round_trip(self) -> None:
        """What was written is read again."""
        for order in (SEND, CONSUME):
            self.assertEqual(Order.of(order.line()), order)

    def test_no_order(self) -> None:
        """Another word, or too few of them, is no order."""
        for line in ("stop T - 1 1 0 1 0 1", "send T -", ""):
            self.assertRaises(ValueError, Order.of, line)


class MeterTests(SynchronousTestCase):
    """The window."""

    def setUp(self) -> None:
        self.now = 100.0
        self.cpu = 7.0
        self.ended = 0

    def meter(self, order: Order) -> Meter:
        return Meter(order, self.end, lambda: self.now, lambda: self.cpu)

    def end(self) -> None:
        self.ended += 1

    def test_seconds(self) -> None:
        """
        The first message after the warm-up opens the window and is not counted; the one at its end closes it. CPU time
        is that between these two.
        """
        made = self.meter(SEND)
        self.assertTrue(made.note())
        self.now, self.cpu = 101.0, 8.0
        self.assertTrue(made.note())
        self.now, self.cpu = 102.0, 8.5
        self.assertTrue(made.note())
        self.now, self.cpu = 103.0, 9.5
        self.assertFalse(made.note())
        self.cpu = 20.0
        self.assertFalse(made.note())
        self.assertEqual(self.ended, 1)
        found = made.answer()
        self.assertEqual((found["total"], found["messages"]), (4, 2))
        self.assertEqual((found["seconds"], found["cpu_s"]), (2.0, 1.5))

    def test_limit(self) -> None:
        """A load with a limit ends there, and its window opens after the messages to skip."""
        made = self.meter(CONSUME)
        for number in range(1, 90):
            self.now += 0.01
            self.assertTrue(made.note(), number)
        self.now += 0.01
        self.assertFalse(made.note())
        found = made.answer()
        self.assertEqual((found["total"], found["messages"]), (90, 79))
        self.assertAlmostEqual(found["seconds"], 0.79)

    def test_never_opened(self) -> None:
        """A load that ends before its window opened has no message in it."""
        made = self.meter(SEND._replace(limit=2))
        made.note()
        self.assertFalse(made.note())
        self.assertEqual(made.answer()["messages"], 0)

    def test_latencies(self) -> None:
        """They are kept for the messages of the window, where one is in flight."""
        made = self.meter(SEND._replace(in_flight=1, warm_up=0.0, seconds=100.0, limit=101))
        made.note(self.now)
        for number in range(1, 101):
            began = self.now
            self.now += number / 1000
            made.note(began)
        found = made.answer()
        self.assertAlmostEqual(found["p50_ms"], 50.0)
        self.assertAlmostEqual(found["p99_ms"], 99.0)

    def test_many_in_flight(self) -> None:
        """With more in flight a latency would be the length of the queue: there is none."""
        made = self.meter(SEND._replace(warm_up=0.0))
        for _ in range(3):
            made.note(self.now)
            self.now += 1
        self.assertEqual(made.answer()["p99_ms"], 0.0)

    def test_threads(self) -> None:
        """Messages of several threads are all counted."""
        made = self.meter(SEND._replace(limit=4000, warm_up=0.0))

        def keep_noting() -> None:
            while made.note():
                pass

        threads = [threading.Thread(target=keep_noting) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(made.answer()["total"], 4000)
        self.assertEqual(self.ended, 1)


class CpuTests(SynchronousTestCase):
    """The kernel's count of this process's CPU time."""

    def test_whole_process(self) -> None:
        """It is what getrusage says, to its tick."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found = own_cpu()
        self.assertApproximates(found, usage.ru_utime + usage.ru_stime, 0.1)
        self.assertEqual(meter._TICKS, os.sysconf("SC_CLK_TCK"))

    def test_quantiles(self) -> None:
        """A quantile is one of the numbers; of none it is 0."""
        self.assertEqual(quantile([], 0.99), 0.0)
        self.assertEqual(quantile([5.0], 0.5), 5.0)
        self.assertEqual(quantile([float(number) for number in range(1, 1001)], 0.99), 990.0)
