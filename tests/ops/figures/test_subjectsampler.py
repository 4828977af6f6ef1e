"""The sampler of groups and topics: rates, bounds, and a day of samples of everything."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.errors import NotConnected
from smartgo.ops.figures.history import History
from smartgo.ops.figures.sampler import FIGURES, FigureListener, FigureSampler
from smartgo.ops.figures.subjectsampler import SubjectSampler
from smartgo.ops.reading.progress import Progress
from smartgo.ops.reading.survey import GroupParts, SurveyedGroup
from smartgo.ops.resources.figures import EventsApi, HistoryQuery, HistoryView
from smartgo.ops.web.routes import RouteCall
from smartgo.schema.bodies import MessageQueue, TopicStatsTable
from smartgo.schema.bodies.progress import TopicOffset
from smartgo.schema.lag import Lag
from tests.fakes import FakeClock, FakeEnvironment
from tests.ops.front import Front

ADDRESS: Final = "10.0.0.1:10911"
HOUR_MS: Final = 3_600_000
RANGES: Final = (900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)
"""Seconds; those that the console offers."""


class FakeCluster:
    """
    A cluster of one broker by numbers alone: as much of a view and of a survey as samplers use.

    @ivar names: of its topics; there is a group of each name, too.
    """

    def __init__(self, clock: FakeClock, names: list[str]) -> None:
        self._clock = clock
        self.began_ms = clock.wall_ms()
        self.names = names
        self.silent = False
        self.active: dict[str, float] = {}
        places = [BrokerPlace("c", "broker-a", 0, ADDRESS)]
        self.brokers = SimpleNamespace(get=lambda: succeed(places))
        self.runtimes = SimpleNamespace(get=lambda: succeed({ADDRESS: self.runtime()}), forget=lambda: None)
        self.topics = SimpleNamespace(
            get=lambda: succeed({name: SimpleNamespace(kind="normal") for name in self.names})
        )
        self.all = SimpleNamespace(get=lambda: succeed(self.surveyed()))
        self.admin = SimpleNamespace(topics=SimpleNamespace(stats=self.stats))
        self.membership = SimpleNamespace(statuses=list)
        self.asked: list[str] = []

    def partial(self, *_: object) -> FakeCluster:
        """The same for a view."""
        return self

    def end(self, at_ms: int) -> int:
        """Messages that there are at a time: as many a second as the number of the hour, from 1."""
        hours, rest = divmod(at_ms - self.began_ms, HOUR_MS)
        return 3600 * hours * (hours + 1) // 2 + (hours + 1) * rest // 1000

    def end_of(self, name: str) -> int:
        """The messages of a topic: those of all, or what its rate makes."""
        now = self._clock.wall_ms()
        if name in self.active:
            return int(self.active[name] * (now - self.began_ms) / 1000)
        return self.end(now) if not self.active else 0

    def runtime(self) -> dict[str, str]:
        """The totals of the broker."""
        end = self.end(self._clock.wall_ms())
        return {"msgPutTotalTodayNow": str(end), "putMessageSizeTotal": str(100 * end), "commitLogDiskRatio": "0.5"}

    def stats(self, topic: str) -> Deferred[TopicStatsTable]:
        """The ends of a topic's queues."""
        self.asked.append(topic)
        if self.silent:
            raise NotConnected("nobody is there")
        half = self.end_of(topic) // 2
        queues = {0: half, 1: self.end_of(topic) - half}
        table = {MessageQueue(topic, "broker-a", number): TopicOffset(0, end) for number, end in queues.items()}
        return succeed(TopicStatsTable(table))

    def surveyed(self) -> dict[str, SurveyedGroup]:
        """Each group waits for the messages of the last minute of its topic."""
        now = self._clock.wall_ms()
        found = {}
        for name in self.names:
            end = self.end_of(name)
            waits = min(end, 60)
            lag = Lag(waits, now - 60_000 if waits else 0)
            parts = GroupParts({name: lag}, {"broker-a": lag}, {("broker-a", name): end})
            found[name] = SurveyedGroup(1, "CLUSTERING", Progress(waits, 60_000, 2.0, None, None), parts)
        return found


class SubjectSamplerTests(SynchronousTestCase):
    """Groups and topics."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock, ["Orders", "Bills"])
        self.history = History()

    def sampler(self, limit: int = 500) -> SubjectSampler:
        """A sampler of the cluster."""
        view = cast("Any", self.cluster)
        return SubjectSampler(self.clock, view, view, self.history, limit)

    def take(self, sampler: SubjectSampler, count: int, seconds: float = 30.0) -> None:
        """Take samples, one after another."""
        for _ in range(count):
            self.successResultOf(Deferred.fromCoroutine(sampler.sample()))
            self.clock.advance(seconds)

    def values(self, series: str) -> dict[str, list[float]]:
        """All that was recorded."""
        found = self.history.points(series, 0, 1 << 50, 10_000)
        return dict(zip(self.history.figures(series), found.values, strict=True))

    def test_rates(self) -> None:
        """The rate of a topic, and of what comes for a group, is the growth of the queues' ends; the first has none."""
        self.cluster.active = {"Orders": 4.0, "Bills": 0.5}
        self.take(self.sampler(), 3)
        self.assertEqual(self.values("topic:Orders"), {"putTps": [4.0, 4.0], "lag": [60, 60], "lagSeconds": [60, 60]})
        self.assertEqual(self.values("topic:Bills")["putTps"], [0.5, 0.5])
        self.assertEqual(
            self.values("group:Bills"),
            {"lag": [15.0, 30.0], "lagSeconds": [60, 60], "consumeTps": [2, 2], "putTps": [0.5, 0.5]},
        )
        self.assertEqual(self.values("broker-lag:broker-a"), {"lag": [0, 75, 90], "lagSeconds": [0, 60, 60]})

    def test_gap(self) -> None:
        """A broker that does not answer leaves a gap, and no false rate when it answers again."""
        self.cluster.active = {"Orders": 4.0}
        sampler = self.sampler()
        self.take(sampler, 2)
        self.cluster.silent = True
        self.take(sampler, 2)
        self.cluster.silent = False
        self.take(sampler, 2)
        self.assertEqual(self.values("topic:Orders")["putTps"], [4.0, 4.0, 4.0])
        self.assertEqual(len(self.values("group:Orders")["lag"]), 5)

    def test_limit(self) -> None:
        """Of more than the limit the most active are recorded, and those that somebody opened; the rest is counted."""
        names = [f"T{number:03}" for number in range(150)]
        self.cluster.names = names
        self.cluster.active = {"T140": 5.0, "T077": 3.0, "T149": 1.0}
        sampler = self.sampler(3)
        self.take(sampler, 8)  # all others are looked at in turn, a hundred at a time
        for kind in ("group", "topic"):
            coverage = sampler.coverage(cast("Any", kind))
            self.assertEqual((coverage.known, coverage.sampled, coverage.limit), (150, 3, 3), kind)
        for name in ("T140", "T077", "T149"):
            self.assertGreaterEqual(len(self.values(f"topic:{name}")["putTps"]), 3, name)
            self.assertGreaterEqual(len(self.values(f"group:{name}")["lag"]), 3, name)
        self.assertFalse(sampler.want("topic", "T009"))
        self.take(sampler, 2)
        self.assertTrue(sampler.want("topic", "T009"))
        self.assertGreaterEqual(len(self.values("topic:T009")["putTps"]), 1)
        self.assertFalse(sampler.want("topic", "T149"))  # it made room
        self.assertLessEqual(len(self.cluster.asked), 10 * 103)

    def test_life(self) -> None:
        """Samples come twice a minute until the sampler stops, and then no more."""
        sampler = self.sampler()
        sampler.start()
        self.clock.pump([1.0] * 95)
        self.assertEqual(len(self.cluster.asked), 2 * 4)
        sampler.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_bug(self) -> None:
        """What goes wrong is logged, and the next sample is taken."""
        sampler = self.sampler()
        whole = self.cluster.all
        self.cluster.all = SimpleNamespace(get=lambda: 1 / 0)
        sampler.start()
        self.clock.pump([1.0] * 5)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.cluster.all = whole
        self.clock.pump([1.0] * 35)
        self.assertEqual(sampler.coverage("group").known, 2)
        sampler.stop()


class DayTests(SynchronousTestCase):
    """A day of samples of a broker, a topic and a group, whose rate in each hour is the number of the hour."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.clock = self.env.clock
        self.clock.advance(38 * 60)  # no whole hour
        self.cluster = FakeCluster(self.clock, ["Orders"])
        self.begin()

    def begin(self) -> None:
        """Start the samplers, on what was kept."""
        view = cast("Any", self.cluster)
        history = History()
        self.sampler = FigureSampler(self.env, view, cast("Any", None), history, "/history.bin")
        self.sampler.load()
        self.subjects = SubjectSampler(self.clock, view, view, history)
        self.sampler.start()
        self.subjects.start()

    def end(self) -> None:
        """Stop them."""
        self.subjects.stop()
        self.successResultOf(Deferred.fromCoroutine(self.sampler.stop()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def ask(self, series: str, seconds: int) -> HistoryView:
        """What REST gives the console for a chart."""
        api = EventsApi(self.clock, self.sampler, self.subjects)
        now = self.clock.wall_ms()
        query = HistoryQuery(series, now - seconds * 1000, now, 300)
        return api.history(RouteCall(None, query, None, cast("Any", None), "", ""))

    def check(self, sampled_ms: int, rate_of: Callable[[HistoryView], list[float]], series: str) -> None:
        """Check each range: no gap, from the first sample in it to now, and the rate of each point."""
        now = self.clock.wall_ms()
        for seconds in RANGES:
            found = self.ask(series, seconds)
            case = f"{series} over {seconds} s at {(now - self.cluster.began_ms) / HOUR_MS:.2f} h"
            begin = max(now - seconds * 1000, sampled_ms)
            step = max(found.step_ms, 60_000, (now - begin) // 300 + 30_000)
            self.assertLessEqual(len(found.at_ms), 300, case)
            self.assertGreaterEqual(len(found.at_ms), min(10, (now - begin) // 60_000), case)
            self.assertLessEqual(found.at_ms[0] - begin, 2 * step, case)
            self.assertLessEqual(now - found.at_ms[-1], step, case)
            pairs = list(zip(found.at_ms, found.at_ms[1:], strict=False))
            self.assertLessEqual(max((later - one for one, later in pairs), default=0), 2 * step, case)
            for at, rate in zip(found.at_ms, rate_of(found), strict=True):
                # A point is the mean of at most two steps: of so much of the hour before as lies in them.
                first, last = (1 + max(0, one - self.cluster.began_ms) // HOUR_MS for one in (at - 2 * step, at + step))
                self.assertTrue(first - 0.1 <= rate <= last + 0.1, f"{case}: {rate} at hour {first} to {last}")

    def check_all(self, sampled_ms: int) -> None:
        """Check every series."""
        for series in ("cluster", f"broker:{ADDRESS}", "topic:Orders", "group:Orders"):
            self.check(sampled_ms, lambda found: found.values["putTps"], series)
        for seconds in RANGES:
            lags = self.ask("broker-lag:broker-a", seconds).values["lag"]
            self.assertEqual((set(lags[2:]), lags[0] > 0), ({60.0}, True))  # less in the first minute

    def test_day(self) -> None:
        """Every range shows what was sampled in it, over a whole day, and after a restart."""
        began = self.cluster.began_ms
        listener = FigureListener(lambda kind, figures: None, (), ())
        for hour in range(25):
            if hour % 5 == 1:  # somebody looks at the console
                self.sampler.listen(listener)
                self.clock.pump([1.0] * 600)
                self.sampler.leave(listener)
                self.clock.pump([1.0] * 3000)
            else:
                self.clock.pump([10.0] * 360)
            if hour in (0, 1, 2, 7, 23, 24):
                self.check_all(began)
        before = {one: self.ask("topic:Orders", one).at_ms for one in RANGES}
        self.end()
        self.begin()
        self.check(began, lambda found: found.values["putTps"], "topic:Orders")
        self.clock.pump([10.0] * 100)
        self.check_all(began)
        for seconds, at in before.items():
            if seconds > 3600:
                self.assertGreaterEqual(len(self.ask("topic:Orders", seconds).at_ms), len(at) - 2, seconds)
        self.end()

    def test_steady(self) -> None:
        """Points have the same step and the same rate, whether or not somebody listens: there are no saw teeth."""
        listener = FigureListener(lambda kind, figures: None, (), ())
        for turn in range(6):
            if turn % 2:
                self.sampler.listen(listener)
            self.clock.pump([0.5] * 240)
            if turn % 2:
                self.sampler.leave(listener)
        found = self.sampler.history.points("cluster", 0, 1 << 50, 10_000)
        rates = found.values[FIGURES.index("putTps")]
        self.assertGreater(len(rates), 65)
        self.assertTrue(all(abs(one - 1.0) <= 0.1 for one in rates), rates)
        steps = {later - one for one, later in zip(found.at_ms, found.at_ms[1:], strict=False)}
        self.assertGreaterEqual(min(steps), 9_000)
        self.assertLessEqual(max(steps), 11_000)
        self.end()


class CoverageTests(SynchronousTestCase):
    """The REST view of what is sampled."""

    def test_coverage(self) -> None:
        """REST says how many groups and topics are sampled, of how many, and the limit."""
        front = Front()
        self.addCleanup(front.stop)
        front.cluster.send("Orders")
        front.cluster.pump(5.0)
        found = front.get("/history/coverage")
        known = front.get("/groups")["total"]
        self.assertEqual(found["groups"], {"known": known, "sampled": known, "limit": 500})
        self.assertEqual(found["topics"]["known"], front.get("/topics")["total"])
