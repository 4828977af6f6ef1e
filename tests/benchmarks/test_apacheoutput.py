"""Tests for L{benchmarks.apacheoutput}."""

from __future__ import annotations

import math

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import apacheoutput
from benchmarks.apacheoutput import Line, Progress, drained, end_of, parse, parse_line, progress, steady_rate
from tests.doctests import DocTestCase

# printed by rocketmq-example 5.5.0 against a broker 4.9.7
PRODUCER = """\
topic: BenchA, threadCount: 4, messageSize: 1024, keyEnable: false, propertySize: 0, asyncEnable: false
 compressEnable: false, reportInterval: 1000
Current Time: 2026-11-21 13:31:15,697 | Send TPS: 1571 | Max RT(ms): 661 | Average RT(ms):   2.643 | Send Failed: 0 | Response Failed: 0
Current Time: 2026-11-21 13:31:16,688 | Send TPS: 1829 | Max RT(ms): 661 | Average RT(ms):   2.185 | Send Failed: 3 | Response Failed: 2
"""  # noqa: E501
CONSUMER = """\
Consumer Started.
Current Time: 2026-11-21 13:31:29,039 | Consume TPS: 2621 | AVG(B2C) RT(ms): 8150.098 | AVG(S2C) RT(ms): 8149.186 | MAX(B2C) RT(ms): 14850 | MAX(S2C) RT(ms): 14649 | Consume Fail: 7
Current Time: 2026-11-21 13:31:30,039 | Consume TPS: 0 | AVG(B2C) RT(ms):     NaN | AVG(S2C) RT(ms):     NaN | MAX(B2C) RT(ms): 0 | MAX(S2C) RT(ms): 0 | Consume Fail: 7
"""  # noqa: E501


class ExampleTests(DocTestCase, module="benchmarks.apacheoutput"):
    """The examples in its docstrings."""


class ParseTests(SynchronousTestCase):
    """What the programs print becomes figures."""

    def test_producer(self) -> None:
        """Every line of the producer gives its rate, and its failures of both kinds added up."""
        lines = parse(PRODUCER)
        self.assertEqual([line.rate for line in lines], [1571, 1829])
        self.assertEqual([line.failed for line in lines], [0, 5])
        self.assertEqual(lines[0].figures["Average RT(ms)"], 2.643)
        self.assertAlmostEqual(lines[1].at - lines[0].at, 0.991, places=6)

    def test_consumer(self) -> None:
        """Averages of nothing are printed as NaN and read as such."""
        lines = parse(CONSUMER)
        self.assertEqual([line.rate for line in lines], [2621, 0])
        self.assertEqual(lines[0].failed, 7)
        self.assertTrue(math.isnan(lines[1].figures["AVG(B2C) RT(ms)"]))

    def test_decimal_comma(self) -> None:
        """A Java that writes decimal commas is understood."""
        line = parse_line("Current Time: 2026-11-21 13:31:15,697 | Send TPS: 5 | Average RT(ms):   2,643")
        assert line is not None
        self.assertEqual(line.figures["Average RT(ms)"], 2.643)

    def test_cut_off(self) -> None:
        """However a line is cut off, it gives nothing or the rate it would have given."""
        whole = PRODUCER.splitlines()[2]
        for cut in range(len(whole)):
            line = parse_line(whole[:cut])
            if line is not None:
                self.assertIn(line.rate, (1, 15, 157, 1571), whole[:cut])

    def test_other_lines(self) -> None:
        """What is no line of figures is passed over."""
        self.assertEqual(parse("Exception in thread x\n[Complete] Send Total: 5 Send Failed: 0\n\n"), [])


def printed(counts: list[int], at: float = 1000.0) -> list[Line]:
    """Return the lines of a consumer that had consumed C{counts[n]} messages at second n, as the program makes them."""
    window = apacheoutput.WINDOW
    return [
        Line(at + second, {"Consume TPS": float((counts[second] - counts[second - window]) // window)})
        for second in range(window, len(counts))
    ]


class ProgressTests(SynchronousTestCase):
    """The course of a consumer is worked out backwards from its windows."""

    def check(self, counts: list[int]) -> list[Progress]:
        total = counts[-1]
        course = progress(printed(counts), total)
        self.assertEqual([point.at for point in course], [1000.0 + second for second in range(len(counts))])
        for point, count in zip(course, counts, strict=True):
            # printed rates are whole numbers: up to 9 messages are lost in each window passed
            self.assertLessEqual(abs(point.consumed - count), 9 * (len(counts) // 9 + 1), point)
        return course

    def test_short(self) -> None:
        """A backlog gone before the first line was printed still shows second by second."""
        counts = [0, 0, 90_000, 270_000, 450_000, *[500_000] * 9, 500_000]
        course = self.check(counts)
        self.assertEqual(end_of(course, 500_000), 1005.0)
        self.assertLess(abs((steady_rate(course, 500_000) or 0) - 180_000), 50)

    def test_long(self) -> None:
        """A backlog that outlasts several windows shows from its beginning."""
        counts = [0, *range(50_000, 2_000_000, 100_000), *[2_000_000] * 10]
        course = self.check(counts)
        self.assertLess(abs((steady_rate(course, 2_000_000) or 0) - 100_000), 50)

    def test_too_small(self) -> None:
        """A backlog gone within a second or two has no steady rate."""
        course = self.check([0, 500, *[1000] * 10])
        self.assertIsNone(steady_rate(course, 1000))

    def test_drained(self) -> None:
        """The end is a whole empty window after some that were not, not the silence before the first message."""
        some, none = Line(1.0, {"Consume TPS": 5.0}), Line(2.0, {"Consume TPS": 0.0})
        self.assertFalse(drained([]))
        self.assertFalse(drained([none, none]))
        self.assertFalse(drained([some, some]))
        self.assertTrue(drained([none, some, none]))

    def test_not_drained(self) -> None:
        """Before the end nothing can be worked out."""
        self.assertRaises(ValueError, progress, printed([0, *range(100, 1500, 100)]), 1400)
