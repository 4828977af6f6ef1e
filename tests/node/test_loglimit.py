"""Tests of L{smartgo.node.loglimit}."""

from __future__ import annotations

from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, formatEvent
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from smartgo.node.loglimit import LogLimit


@implementer(ILogObserver)
class Timed:
    """
    Gives events a time of the test's.

    @ivar now: the time.
    """

    def __init__(self, observer: LogLimit) -> None:
        self._observer = observer
        self.now = 1000.0

    def __call__(self, event: LogEvent) -> None:
        """Pass one on."""
        event["log_time"] = self.now
        self._observer(event)


class LogLimitTests(SynchronousTestCase):
    """A log that somebody tries to flood."""

    def setUp(self) -> None:
        self.written: list[LogEvent] = []
        self.limit = LogLimit(self.written.append)
        self.clock = Timed(self.limit)
        self._log = Logger("smartgo.test", observer=self.clock)
        self._other = Logger("smartgo.other", observer=self.clock)

    def count(self, what: object) -> int:
        """Return the number of lines written since the last call."""
        found, self.written[:] = len(self.written), []
        return found

    def test_flood(self) -> None:
        """A sentence is written 300 times at once and 5 times a second, whatever its values."""
        for number in range(10_000):
            self._log.info("broker {name} left", name=f"x{number}")
        self.assertEqual((self.count("at once"), self.limit.left_out), (300, 9700))
        for _ in range(10):
            self.clock.now += 1.0
            for number in range(100):
                self._log.info("broker {name} left", name=f"y{number}")
        self.assertEqual(self.count("in 10 s"), 50)

    def test_others(self) -> None:
        """Other sentences, and the same one of another part, are not left out for it."""
        for _ in range(1000):
            self._log.info("flood")
        self.count("flood")
        self._log.info("something else")
        self._other.info("flood")
        self._log.critical("flood")
        self.assertEqual(self.count("others"), 3)

    def test_peers(self) -> None:
        """One peer, over whatever connections, leaves room for the same sentence about others."""
        for number in range(1000):
            self._log.warn("{peer} did it", peer=f"10.0.0.66:{number}")
        self.assertEqual(self.count("one peer"), 60)
        self._log.warn("{peer} did it", peer="10.0.0.1:50000")
        self._log.warn("{peer} did it", peer="[::1]:50000")
        self.assertEqual(self.count("others"), 2)
        for number in range(1000):
            self._log.warn("{peer} did it", peer=f"10.1.{number // 250}.{number % 250}:1")
        self.assertEqual(self.count("all peers"), 238)

    def test_stacks(self) -> None:
        """A stack counts as ten lines."""
        for _ in range(100):
            self._log.failure("a bug", Failure(ValueError("x")))
        self.assertEqual(self.count("stacks"), 30)

    def test_summary(self) -> None:
        """Once a minute it is written how many lines of which sentence are missing."""
        for _ in range(310):
            self._log.info("a")
        for _ in range(305):
            self._log.info("b {x}", x=1)
        self.written.clear()
        self.clock.now += 59.0
        self._log.info("c")
        self.assertEqual(self.count("before"), 1)
        self.clock.now += 2.0
        self._log.info("c")
        texts = [formatEvent(event) for event in self.written]
        self.assertEqual(
            texts,
            [
                "10 more lines like this were not logged: a", "5 more lines like this were not logged: b {x}", "c",
            ],
        )  # fmt: skip
        self.assertEqual(self.written[0]["log_level"], LogLevel.warn)
        self.written.clear()
        self.clock.now += 100.0
        self._log.info("c")
        self.assertEqual(self.count("nothing missing"), 1)

    def test_clock_set_back(self) -> None:
        """A clock that is set back keeps lines from being written for a moment only."""
        self._log.info("a")
        for _ in range(305):
            self._log.info("b")
        self.clock.now -= 3600.0
        self.written.clear()
        self._log.info("a")
        self.assertEqual([formatEvent(one) for one in self.written][-1], "a")
        for _ in range(3):
            self.clock.now += 1.0
            self._log.info("b")
        self.assertEqual(sum(event["log_format"] == "b" for event in self.written), 2)
