"""The counters, and how long they are remembered."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.figures import stats as counting
from smartgo.broker.figures.rates import Flow, Rate, Ring
from smartgo.broker.figures.stats import DAY_MS, BrokerStats
from tests.fakes import EPOCH_MS, FakeClock


class RingTests(SynchronousTestCase):
    """One number over the last minute, hour and day."""

    def test_against_a_list(self) -> None:
        """However the events fall, each window holds those of its buckets and no other."""
        for seed in range(20):
            random = Random(seed)
            now = float(random.randrange(100_000))
            ring = Ring(int(now) // 10, now)
            events: list[tuple[int, int]] = []
            for _ in range(300):
                now += random.choice((0.0, 0.3, 7.0, 10.0, 59.0, 600.0, 3601.0, 50_000.0))
                slot = int(now) // 10
                if slot != ring.slot:
                    ring.turn(slot)
                count = random.randrange(5)
                ring.current += count
                events.append((slot, count))
                for width, buckets, window in (1, 6, ring.minute), (60, 6, ring.hour), (360, 24, ring.day):
                    first = slot // width - buckets + 1
                    wanted = sum(count for slot, count in events if slot // width >= first)
                    self.assertEqual(window(now).sum, wanted, f"seed {seed} width {width}")

    def test_fades_without_counting(self) -> None:
        """Asking is enough to let old counts go: no timer is needed."""
        ring = Ring(0, 0.0)
        ring.current += 60
        self.assertEqual(ring.minute(30.0).sum, 60)
        self.assertEqual(ring.minute(60.0).sum, 0)
        self.assertEqual(ring.hour(60.0).sum, 60)
        self.assertEqual(ring.hour(3600.0).sum, 0)
        self.assertEqual(ring.day(3600.0 * 23).sum, 60)
        self.assertEqual(ring.day(3600.0 * 24).sum, 0)

    def test_rate_is_over_the_time_counted(self) -> None:
        """A rate divides by the window, by the age of the counter where that is less, and by a second at least."""
        ring = Ring(100, 1000.0)
        ring.current = 100
        self.assertEqual(ring.minute(1000.0).tps, 100.0)
        self.assertEqual(ring.minute(1020.0).tps, 5.0)
        ring.turn(200)
        ring.current = 55
        self.assertEqual(ring.minute(2005.0).tps, 1.0)


class RateTests(SynchronousTestCase):
    """Events a second over 10, 60 and 600 s."""

    def test_steady(self) -> None:
        """Three events a second show as 3 in all windows once these are full."""
        rate = Rate(5.0)
        for second in range(5, 705):
            rate.turn(second)
            rate.current += 3
        self.assertEqual(rate.over(10, 705.0), 3.0)
        self.assertEqual(rate.over(60, 705.0), 3.0)
        self.assertEqual(rate.over(600, 705.0), 3.0)
        self.assertEqual(rate.text(705.0), "3.0 3.0 3.0")

    def test_young(self) -> None:
        """While it is younger than a window, the rate is over its age."""
        rate = Rate(0.0)
        for second in range(5):
            rate.turn(second)
            rate.current += 10
        self.assertEqual([rate.over(window, 5.0) for window in (10, 60, 600)], [10.0, 10.0, 10.0])

    def test_asked_within_a_second(self) -> None:
        """Asking does not lose what was counted in the running second."""
        rate = Rate(0.0)
        rate.current += 5
        rate.turn(0)
        self.assertEqual(rate.over(10, 0.5), 0.0)
        rate.current += 5
        self.assertEqual(rate.over(10, 1.0), 10.0)

    def test_idle(self) -> None:
        """After the silence of a window its rate is zero, however long the silence was."""
        for pause in (11, 61, 640, 641, 700, 10_000):
            rate = Rate(0.0)
            for second in range(700):
                rate.turn(second)
                rate.current += 1
            rates = [rate.over(window, 700.0 + pause) for window in (10, 60, 600)]
            self.assertEqual([one == 0.0 for one in rates], [True, pause > 60, pause > 600 + 9], f"after {pause} s")


class FlowTests(SynchronousTestCase):
    """Messages and bytes together."""

    def test_both_turn(self) -> None:
        """Messages and bytes are counted in the same slots."""
        flow = Flow(0.0)
        flow.count, flow.size = 2, 300
        self.assertEqual((flow.nums(5.0).minute.sum, flow.bytes(5.0).minute.sum), (2, 300))
        flow.turn(5)
        flow.count, flow.size = 1, 50
        self.assertEqual((flow.nums(55.0).minute.sum, flow.bytes(55.0).minute.sum), (3, 350))
        self.assertEqual((flow.bytes(65.0).minute.sum, flow.nums(65.0).minute.sum), (50, 1))
        self.assertEqual((flow.count, flow.size), (0, 0))
        self.assertEqual((flow.bytes(65.0).hour.sum, flow.nums(65.0).hour.sum), (350, 3))


class BrokerStatsTests(SynchronousTestCase):
    """The counters of a broker."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.stats = BrokerStats(self.clock)

    def test_runtime(self) -> None:
        """Runtime information tells totals, averages and rates, each rate as three numbers."""
        self.clock.advance(1)
        for _ in range(20):
            self.stats.stored("T", 3, 600)
            self.stats.found("g", "T", 2, 400)
            self.stats.missed()
            self.clock.advance(1)
        self.stats.put_failures += 1
        shown = self.stats.runtime()
        self.assertEqual(shown["msgPutTotalTodayNow"], "60")
        self.assertEqual(shown["msgGetTotalTodayNow"], "40")
        self.assertEqual(shown["putMessageSizeTotal"], "12000")
        self.assertEqual(shown["getMessageSizeTotal"], "8000")
        self.assertEqual(shown["putMessageAverageSize"], "200.0")
        self.assertEqual(shown["putMessageFailedTimes"], "1")
        self.assertEqual(shown["putTps"].split()[0], "3.0")
        self.assertEqual(shown["getTransferedTps"], shown["getTransferredTps"])
        self.assertEqual(shown["getTransferredTps"].split()[0], "2.0")
        self.assertEqual(shown["getFoundTps"].split()[0], "1.0")
        self.assertEqual(shown["getMissTps"].split()[0], "1.0")
        self.assertEqual(shown["getTotalTps"].split()[0], "2.0")
        self.assertEqual(shown["bootTimestamp"], str(EPOCH_MS))
        for name in ("putTps", "getTransferedTps", "getFoundTps", "getMissTps", "getTotalTps"):
            self.assertEqual(len([float(one) for one in shown[name].split(" ")]), 3, name)

    def test_uptime(self) -> None:
        """The time since the start is told in days, hours, minutes and seconds."""
        self.clock.advance(86400 + 2 * 3600 + 3 * 60 + 4.5)
        self.assertEqual(self.stats.runtime()["runtime"], "[ 1 days, 2 hours, 3 minutes, 4 seconds ]")

    def test_mornings(self) -> None:
        """At midnight the total becomes the morning's, and the morning's yesterday's."""
        to_midnight = (DAY_MS - EPOCH_MS % DAY_MS) / 1000
        self.stats.stored("T", 5, 500)
        self.clock.advance(to_midnight + 1)
        self.stats.stored("T", 2, 200)
        self.clock.advance(86400)
        shown = self.stats.runtime()
        self.assertEqual(
            [shown[f"msgPutTotal{one}"] for one in ("YesterdayMorning", "TodayMorning", "TodayNow")], ["5", "7", "7"]
        )
        self.clock.advance(86400 * 3)
        shown = self.stats.runtime()
        self.assertEqual((shown["msgPutTotalYesterdayMorning"], shown["msgPutTotalTodayMorning"]), ("7", "7"))

    def test_local_midnight(self) -> None:
        """The day begins at the midnight of the offset that was given."""
        stats = BrokerStats(self.clock, utc_offset=8 * 3600)
        stats.stored("T", 1, 1)
        self.clock.advance((DAY_MS - (EPOCH_MS + 8 * 3_600_000) % DAY_MS) / 1000)
        self.assertEqual(stats.runtime()["msgPutTotalTodayMorning"], "1")
        self.assertEqual(self.stats.runtime()["msgPutTotalTodayMorning"], "0")

    def test_flows(self) -> None:
        """Rates by topic and by group are those of the last minute; what was never counted has none."""
        self.stats.stored("T", 30, 3000)
        self.stats.found("g", "T", 15, 1500)
        self.stats.sent_back("g", "T")
        self.clock.advance(30)
        self.assertEqual(self.stats.put_tps("T"), 1.0)
        self.assertEqual(self.stats.consume_tps("g", "T"), 0.5)
        self.assertEqual((self.stats.put_tps("U"), self.stats.consume_tps("g", "U")), (0.0, 0.0))
        sums = {}
        for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"):
            item = self.stats.counted(name, "T" if name.startswith("TOPIC") else "T@g")
            assert item is not None
            sums[name] = (item.values.day.sum, item.calls.day.sum)
        self.assertEqual(list(sums.values()), [(30, 30), (3000, 30), (15, 1), (1500, 1), (1, 1)])
        self.assertIsNone(self.stats.counted("TOPIC_PUT_NUMS", "U"))
        self.assertIsNone(self.stats.counted("NO_SUCH_NAME", "T"))

    def test_queues(self) -> None:
        """What a group got is also there by queue; a deleted topic's and group's goes, other keys are nothing."""
        self.stats.found("g", "T", 5, 500, 3)
        self.clock.advance(20)
        self.stats.found("g", "T", 2, 200, 3)
        self.stats.found("g", "T", 1, 100, 0)
        self.stats.found("h", "T", 4, 400, 3)
        found = {}
        for name in ("QUEUE_GET_NUMS", "QUEUE_GET_SIZE"):
            for key in ("T@3@g", "T@0@g", "T@3@h"):
                item = self.stats.counted(name, key)
                assert item is not None
                found[name, key] = (item.values.hour.sum, item.calls.hour.sum)
            for key in ("T@1@g", "T@3@i", "T@g", "g", "", "U@3@g", "T@x@g", "T@03@g", "T@@g"):
                self.assertIsNone(self.stats.counted(name, key), key)
        self.assertEqual(list(found.values()), [(7, 2), (1, 1), (4, 1), (700, 2), (100, 1), (400, 1)])
        item = self.stats.counted("GROUP_GET_NUMS", "T@g")
        assert item is not None
        self.assertEqual(item.values.hour.sum, 8)
        self.stats.forget_group("g")
        self.assertIsNone(self.stats.counted("QUEUE_GET_NUMS", "T@3@g"))
        self.stats.forget_topic("T")
        self.assertIsNone(self.stats.counted("QUEUE_GET_NUMS", "T@3@h"))

    def test_bounded_queues(self) -> None:
        """Of more queues than are kept it is not counted by queue, until others are gone; by group it always is."""
        self.patch(counting, "QUEUES", 3)
        for queue_id in range(4):
            self.stats.found("g", "T", 1, 100, queue_id)
        self.assertIsNone(self.stats.counted("QUEUE_GET_NUMS", "T@3@g"))
        self.stats.found("h", "T", 1, 100, 3)
        self.assertIsNone(self.stats.counted("QUEUE_GET_NUMS", "T@3@h"))
        self.assertIsNotNone(self.stats.counted("GROUP_GET_NUMS", "T@h"))
        self.stats.forget_group("g")
        self.clock.advance(10)
        self.stats.found("h", "T", 1, 100, 3)
        self.assertIsNotNone(self.stats.counted("QUEUE_GET_NUMS", "T@3@h"))

    def test_calls(self) -> None:
        """An average is over requests: a batch and a pull are one, whatever they hold."""
        stats = BrokerStats(self.clock)
        stats.stored("T", 30, 3000, calls=1)
        stats.stored("T", 2, 300)
        for _ in range(4):
            stats.found("g", "T", 8, 800)
        for name, key, total, calls in (
            ("TOPIC_PUT_NUMS", "T", 32, 3), ("TOPIC_PUT_SIZE", "T", 3300, 3), ("GROUP_GET_NUMS", "T@g", 32, 4),
        ):  # fmt: skip
            item = stats.counted(name, key)
            assert item is not None
            self.assertEqual((item.values.hour.sum, item.calls.hour.sum), (total, calls), name)

    def test_broker(self) -> None:
        """The whole broker's messages are there by the name of its cluster."""
        stats = BrokerStats(self.clock, "C")
        self.clock.advance(10)
        stats.stored("T", 30, 3000)
        stats.found("g", "T", 8, 800)
        self.clock.advance(45)
        stats.stored("U", 1, 100)
        sums = []
        for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"):
            item = stats.counted(name, "C")
            assert item is not None
            sums.append([window.sum for window in item.values])
            self.assertIsNone(stats.counted(name, "other"))
        self.assertEqual(sums, [[31, 31, 31], [8, 8, 8]])
        self.clock.advance(30)
        item = stats.counted("BROKER_PUT_NUMS", "C")
        assert item is not None
        self.assertEqual([window.sum for window in item.values], [1, 31, 31])

    def test_totals(self) -> None:
        """Totals by topic and group are of all time, whatever has left the windows."""
        for _ in range(3):
            self.stats.stored("T", 2, 200)
            self.stats.found("g", "T", 1, 100)
            self.stats.sent_back("g", "T")
            self.clock.advance(100_000)
        (put,), (got,), (back,) = self.stats.put_totals(), self.stats.got_totals(), self.stats.back_totals()
        self.assertEqual(put[:4], ("T", "", 6, 600))
        self.assertEqual(got[:4], ("T", "g", 3, 300))
        self.assertEqual((back[:3], back.minute.sum), (("T", "g", 3), 0))

    def test_rates(self) -> None:
        """The broker's rates are over the last 10 s."""
        for _ in range(20):
            self.stats.stored("T", 3, 1)
            self.stats.found("g", "T", 2, 1)
            self.clock.advance(1)
        self.assertEqual(self.stats.rates(), (3.0, 2.0))

    def test_forgets_the_deleted(self) -> None:
        """A deleted topic or group takes its flows along, and no other's."""
        for topic in ("T", "U"):
            self.stats.stored(topic, 1, 1)
            for group in ("g", "h"):
                self.stats.found(group, topic, 1, 1)
        self.stats.forget_topic("T")
        self.assertIsNone(self.stats.counted("TOPIC_PUT_NUMS", "T"))
        self.assertIsNone(self.stats.counted("GROUP_GET_NUMS", "T@g"))
        self.assertIsNotNone(self.stats.counted("GROUP_GET_NUMS", "U@g"))
        self.stats.forget_group("g")
        self.assertIsNone(self.stats.counted("GROUP_GET_NUMS", "U@g"))
        self.assertIsNotNone(self.stats.counted("GROUP_GET_NUMS", "U@h"))

    def test_refused(self) -> None:
        """Messages that a group sent back, to get them again, count as acknowledged never: neither early nor late."""
        for _ in range(20):
            self.stats.sent_back("g", "T")
        self.stats.sent_back("g", "T", again=False)  # a dead letter: the group is through with it
        self.clock.advance(300.0)
        self.stats.acknowledged("g", "T", 5)
        self.stats.acknowledged("g", "T", 15)
        self.assertEqual(list(self.stats.acknowledged_totals()), [])
        self.stats.acknowledged("g", "T", 3)
        self.assertEqual([one.count for one in self.stats.acknowledged_totals()], [3])
        self.stats.sent_back("g", "T")
        self.stats.acknowledged("g", "T", 4)
        self.assertEqual([one.count for one in self.stats.acknowledged_totals()], [6])
        for forget in (lambda: self.stats.forget_topic("T"), lambda: self.stats.forget_group("g")):
            self.stats.sent_back("g", "T")
            forget()
            self.stats.acknowledged("g", "T", 1)
            self.assertEqual([one.count for one in self.stats.acknowledged_totals()], [1])
            self.stats.forget_group("g")

    def test_acknowledged(self) -> None:
        """Acknowledged messages are counted by group and topic, apart from delivered ones, until either is deleted."""
        self.stats.found("g", "T", 60, 1)
        for topic, group in (("T", "g"), ("T", "h"), ("U", "g")):
            self.stats.acknowledged(group, topic, 6)
        self.clock.advance(30)
        self.assertEqual(self.stats.acknowledged_tps("g", "T"), 0.2)
        self.assertEqual(self.stats.consume_tps("g", "T"), 2.0)
        counted = self.stats.counted("GROUP_ACK_NUMS", "T@g")
        assert counted is not None
        self.assertEqual(counted.values.minute.sum, 6)
        self.stats.forget_topic("U")
        self.stats.forget_group("h")
        left = [(one.topic, one.group, one.count) for one in self.stats.acknowledged_totals()]
        self.assertEqual(left, [("T", "g", 6)])

    def test_bounded(self) -> None:
        """Beyond the limit new flows are not counted one by one, until others were idle for a day."""
        stats = BrokerStats(self.clock, limit=3)
        for number in range(5):
            stats.stored(f"T{number}", 1, 1)
        self.assertEqual((stats.put.total, stats.overflowed), (5, 2))
        self.assertIsNone(stats.counted("TOPIC_PUT_NUMS", "T4"))
        self.clock.advance(86400 + 20)
        stats.stored("T0", 1, 1)
        stats.stored("T4", 1, 1)
        self.assertIsNotNone(stats.counted("TOPIC_PUT_NUMS", "T4"))
        self.assertIsNotNone(stats.counted("TOPIC_PUT_NUMS", "T0"))
        self.assertIsNone(stats.counted("TOPIC_PUT_NUMS", "T1"))

    def test_idle_flows_go(self) -> None:
        """What was idle for a day is dropped as others come, however often somebody asked for it meanwhile."""
        self.stats.stored("Idle", 1, 1)
        self.stats.found("g", "Idle", 1, 1)
        for _ in range(25):
            self.clock.advance(3600)
            list(self.stats.put_totals())
            self.stats.consume_tps("g", "Idle")
            self.stats.stored("Busy", 1, 1)
        self.stats.stored("New", 1, 1)
        self.assertEqual([one.topic for one in self.stats.put_totals()], ["Busy", "New"])
        self.assertEqual(self.stats.flow_counts, (2, 0, 0, 0))

    def test_no_timers(self) -> None:
        """Counting and asking leave no timer behind."""
        self.stats.stored("T", 1, 1)
        self.stats.runtime()
        self.assertEqual(self.clock.getDelayedCalls(), [])
