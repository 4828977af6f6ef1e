"""Figures over time: rings, and the sampler that fills them."""

from __future__ import annotations

from array import array

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadBody
from smartgo.ops.figures.history import BEHIND, LEVELS, History, SavedLevel, decoded, encoded
from tests.ops.front import Front

FIGURES = ("putTps", "getTps")
BEGAN = 1_700_000_040_000  # a whole minute


def filled(seconds: int, step: int = 1) -> History:
    """A history with a sample each C{step} seconds whose first figure is its number."""
    history = History()
    for second in range(0, seconds, step):
        history.add("cluster", BEGAN + second * 1000, FIGURES, (second, 2 * second))
    return history


class HistoryTests(SynchronousTestCase):
    """The rings."""

    def test_samples(self) -> None:
        """Young samples are given as they came."""
        found = filled(10).points("cluster", BEGAN + 3000, BEGAN + 5000, 100)
        self.assertEqual(found.step_ms, 0)
        self.assertEqual(found.at_ms, [BEGAN + 3000, BEGAN + 4000, BEGAN + 5000])
        self.assertEqual(found.values, [[3, 4, 5], [6, 8, 10]])

    def test_minutes(self) -> None:
        """What is older than the samples that are kept is given in means of minutes, and then of hours."""
        history = filled(3 * 3600)
        found = history.points("cluster", BEGAN, BEGAN + 179_000, 100)
        self.assertEqual((found.step_ms, found.at_ms), (60_000, [BEGAN, BEGAN + 60_000, BEGAN + 120_000]))
        self.assertEqual(found.values[0], [29.5, 89.5, 149.5])
        long = filled(40 * 86400, 30).points("cluster", BEGAN, BEGAN + 40 * 86_400_000, 2000)
        self.assertEqual(long.step_ms, 3_600_000)

    def test_young(self) -> None:
        """A span that is longer than all there ever was is given as finely as it was kept: no hour stands for it."""
        found = filled(600, 10).points("cluster", BEGAN - 6 * 3_600_000, BEGAN + 3_600_000, 1000)
        self.assertEqual((found.step_ms, len(found.at_ms)), (0, 60))
        found = filled(3 * 3600).points("cluster", BEGAN - 6 * 3_600_000, BEGAN + 4 * 3_600_000, 1000)
        self.assertEqual(found.step_ms, 60_000)

    def test_every_range(self) -> None:
        """Every range shows all that was sampled in it, whatever the hour: no gap is longer than two of its steps."""
        history = History()
        began = BEGAN + 38 * 60_000  # not at a whole hour
        for second in range(0, 30 * 3600, 10):
            history.add("cluster", began + second * 1000, FIGURES, (second, 1))
            if second % 1230:
                continue
            now = began + second * 1000
            for hours in (0.25, 1, 6, 24, 720):
                begin = now - round(hours * 3_600_000)
                found = history.points("cluster", begin, now, 300)
                step = max(found.step_ms, 10_000 + (now - max(begin, began)) // 300)  # samples have no step
                case = f"{second} s, {hours} h, step {step}"
                self.assertLessEqual(len(found.at_ms), 300, case)
                self.assertLessEqual(max(begin, began), found.at_ms[0] + step, case)
                self.assertLessEqual(found.at_ms[0] - max(begin, began), 2 * step, case)
                self.assertLessEqual(now - found.at_ms[-1], step, case)
                pairs = zip(found.at_ms, found.at_ms[1:], strict=False)
                self.assertLessEqual(max((later - one for one, later in pairs), default=0), 2 * step, case)
                self.assertEqual(set(found.values[1]), {1.0}, case)

    def test_bounded(self) -> None:
        """A ring keeps about as many points as it may, however many come."""
        saved = filled(3 * 86400, 10).saved().series[0]
        for level, ring in zip(LEVELS[1:], saved.levels, strict=True):
            self.assertLessEqual(len(ring.at) // 8, level.points * 5 // 4)
        samples = filled(10_000).points("cluster", BEGAN + 9_500_000, BEGAN + 10_000_000, 100_000)
        self.assertEqual(len(samples.at_ms), 500)

    def test_few(self) -> None:
        """No more points are given than asked for; they are means of their neighbours."""
        found = filled(100).points("cluster", BEGAN, BEGAN + 99_000, 10)
        self.assertEqual(len(found.at_ms), 10)
        self.assertEqual(found.values[0][0], 4.5)

    def test_series(self) -> None:
        """The series that was added to longest ago goes when there are too many."""
        history = History(2)
        for name in ("a", "b", "a", "c"):
            history.add(name, BEGAN + len(history.names()) * 1000, FIGURES, (1, 2))
        self.assertEqual(history.names(), ["a", "c"])
        self.assertEqual(history.points("b", 0, 1 << 50, 10).at_ms, [])

    def test_back(self) -> None:
        """A clock that was set back adds nothing until it has caught up."""
        history = filled(10)
        history.add("cluster", BEGAN + 5000, FIGURES, (99, 99))
        self.assertNotIn(99, history.points("cluster", 0, 1 << 50, 100).values[0])

    def test_put_right(self) -> None:
        """A clock that was ahead and is put right costs ten minutes of samples, however far ahead it was."""
        day = 86_400_000
        history = filled(600, 10)
        for number in range(12):
            history.add("cluster", BEGAN + 30 * day + number * 10_000, FIGURES, (99, 99))
        begin = BEGAN + 600_000
        for number in range(BEHIND + 30):
            history.add("cluster", begin + number * 10_000, FIGURES, (7, 7))
        found = history.points("cluster", BEGAN, BEGAN + 60 * day, 1000)
        self.assertEqual(found.at_ms, sorted(set(found.at_ms)))
        self.assertNotIn(99, found.values[0])
        self.assertEqual(found.at_ms[-1], begin + (BEHIND + 29) * 10_000)
        self.assertEqual([one for one in found.values[0] if one == 7], [7] * 31)
        hours = history.saved().series[0].levels[-1]
        self.assertLess(max(array("q", hours.at)), BEGAN + day)

    def test_put_right_after_restart(self) -> None:
        """That holds for the minutes and hours that were kept over a restart, too."""
        history = filled(7200, 10)
        again = History()
        again.restore(decoded(encoded(history.saved())))
        for number in range(BEHIND + 5):
            again.add("cluster", BEGAN + 600_000 + number * 10_000, FIGURES, (7, 7))
        found = again.points("cluster", BEGAN, BEGAN + 7_200_000, 1000)
        self.assertEqual(found.at_ms[-1], BEGAN + 600_000 + (BEHIND + 4) * 10_000)

    def test_kept(self) -> None:
        """Minutes and hours are there again after a restart, and go on."""
        history = filled(7200)
        again = History()
        again.restore(decoded(encoded(history.saved())))
        found = again.points("cluster", BEGAN, BEGAN + 7_200_000, 1000)
        self.assertEqual(found.values, history.points("cluster", BEGAN, BEGAN + 7_200_000, 1000).values)
        again.add("cluster", BEGAN + 7_300_000, FIGURES, (1, 1))
        again.add("cluster", BEGAN + 7_400_000, FIGURES, (1, 1))
        later = again.points("cluster", BEGAN, BEGAN + 7_400_000, 1000)
        self.assertEqual(later.at_ms, sorted(set(later.at_ms)))
        self.assertGreater(len(later.at_ms), len(found.at_ms))

    def test_broken(self) -> None:
        """What cannot be what was kept is refused."""
        self.assertRaises(BadBody, decoded, b"nonsense")
        saved = filled(7200).saved()
        saved.series[0].levels[0] = SavedLevel(60, b"\0" * 16, [b"\0" * 8, b"\0" * 8])
        self.assertRaises(BadBody, History().restore, saved)
        saved.series[0].levels[0] = SavedLevel(60, b"\0" * 9, [b"\0" * 4, b"\0" * 4])
        self.assertRaises(BadBody, History().restore, saved)
        saved.version = 2
        self.assertRaises(BadBody, History().restore, saved)


class SamplerTests(SynchronousTestCase):
    """The sampler over a cluster in memory."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def test_rates(self) -> None:
        """The history of the cluster and its brokers fills by itself, with rates made of totals."""
        cluster = self.front.cluster
        self.front.ops.subjects.stop()  # whose requests take a tenth of a second here, from time to time
        cluster.pump(12.0)
        for _ in range(50):
            cluster.send("Orders")
        cluster.pump(20.0)
        found = self.front.get("/history")
        self.assertEqual(found["series"], "cluster")
        # Requests to the registries take a tenth of a second here, too: an interval lasts 9.9 to 10.1 s.
        self.assertApproximates(max(found["values"]["putTps"]), 5.0, 0.06)
        self.assertGreater(max(found["values"]["putBytes"]), 100)
        self.assertIn("broker:127.0.0.1:10911", self.front.get("/history/series"))
        one = self.front.get("/history?series=broker:127.0.0.1:10911&points=1")
        self.assertEqual(len(one["atMs"]), 1)

    def test_groups(self) -> None:
        """The lag of every group is kept, whether or not somebody asks for it."""
        self.front.cluster.heartbeat("audit", "Orders")
        self.front.cluster.pump(70.0)
        found = self.front.get("/history?series=group:audit")
        self.assertEqual((found["values"]["lag"], found["sampled"]), ([0.0] * 2, True))
        nobody = self.front.get("/history?series=group:nobody")
        self.assertEqual((nobody["atMs"], nobody["sampled"]), ([], False))
        self.assertNotIn("group:nobody", self.front.get("/history/series"))

    def test_groups_again(self) -> None:
        """The points of groups and topics are there again after a restart, and others follow."""
        self.front.cluster.send("Orders")
        self.front.cluster.heartbeat("audit", "Orders")
        self.front.cluster.pump(200.0)
        before = {one: self.front.get(f"/history?beginMs=0&series={one}") for one in ("group:audit", "topic:Orders")}
        self.front.stop_api()
        again = Front(self.front.cluster)
        self.addCleanup(again.stop_api)
        self.front.cluster.pump(70.0)
        for name, one in before.items():
            found = again.get(f"/history?beginMs=0&series={name}")
            self.assertGreater(found["atMs"][-1], one["atMs"][-1])
            self.assertLess(found["atMs"][0], self.front.env.clock.wall_ms() - 200_000, name)

    def test_again(self) -> None:
        """The history is there again after a restart; one that cannot be read is begun anew."""
        self.front.cluster.pump(130.0, 1.0)
        self.front.stop_api()
        again = Front(self.front.cluster)
        found = again.get("/history?beginMs=0")
        self.assertGreaterEqual(len(found["atMs"]), 2)
        again.stop_api()
        self.front.env.files.replace("/store/ops/history.bin", b"nonsense")
        third = Front(self.front.cluster)
        self.assertEqual(third.get("/history?beginMs=0")["atMs"], [])
        third.stop_api()
