"""Stores of brokers by the REST API."""

from __future__ import annotations

from smartgo.schema.regions import Region
from tests.ops.resources.test_cluster import ClusterCase


class StoreTests(ClusterCase):
    """What the API tells of a store, and the scrub that it begins."""

    def test_show(self) -> None:
        """Log, disk with its thresholds, retention, damage, scrub and timed messages are shown; unknown brokers not."""
        cluster = self.front.cluster
        cluster.send("T", b"body")
        cluster.send("T", b"later", properties={"TIMER_DELAY_MS": "60000"})
        self.get("/brokers/broker-a/store")  # which has the time of the oldest message looked up
        cluster.pump(1.0)
        store = self.get("/brokers/broker-a/store?id=0")
        self.assertEqual((store["broker"], store["id"], store["refusal"]), ("broker-a", 0, None))
        log = store["log"]
        self.assertEqual((log["begin"], log["files"], log["limit"]), (0, 1, 0))
        self.assertEqual(log["end"], cluster.broker.store.log_bounds()[1])
        self.assertGreater(log["earliestMs"], 0)
        self.assertEqual(
            {name: store["disk"][name] for name in ("usedRatio", "forcibleRatio", "fullRatio")},
            {"usedRatio": 0.75, "forcibleRatio": 0.85, "fullRatio": 0.9},
        )
        self.assertEqual(
            (store["retention"]["enabled"], store["retention"]["hours"], store["retention"]["obstacle"]),
            (True, [4], None),
        )
        self.assertEqual((store["timers"]["ready"], store["timers"]["waiting"]), (True, 1))
        self.assertEqual(store["timers"]["maxDelaySeconds"], 40 * 86_400)
        timers = cluster.broker.store.timers
        assert timers is not None
        self.patch(timers, "ready", False)
        store = self.get("/brokers/broker-a/store?id=0")
        self.assertEqual((store["timers"]["ready"], store["timers"]["waiting"]), (False, None))
        for path in ("/brokers/nobody/store", "/brokers/broker-a/store?id=1"):
            self.assertEqual(self.order("GET", path)[0], 404)

    def test_damage(self) -> None:
        """A damaged region is shown with its place and the file with its bytes, and counted when it was put right."""
        damage = self.front.cluster.broker.store.damage
        region = Region(100, 20, "body CRC differs", "T", 1, 7, 1_000, "00100-20.bytes")
        damage.add([region])
        found = self.get("/brokers/broker-a/store")["integrity"]
        self.assertEqual((found["regions"], found["bytes"], found["found"], found["repaired"]), (1, 20, 1, 0))
        self.assertEqual(
            found["newest"],
            [
                {
                    "offset": 100,
                    "length": 20,
                    "reason": "body CRC differs",
                    "topic": "T",
                    "queueId": 1,
                    "queueOffset": 7,
                    "foundMs": 1_000,
                    "saved": "00100-20.bytes",
                }
            ],
        )
        damage.remove(region)
        found = self.get("/brokers/broker-a/store")["integrity"]
        self.assertEqual((found["regions"], found["found"], found["repaired"]), (0, 1, 1))
        self.flushLoggedErrors()

    def test_scrub(self) -> None:
        """A scrub is begun, and its result shown when it has ended."""
        self.front.cluster.send("T", b"body")
        self.front.cluster.pump(1.0)
        status, found = self.order("POST", "/brokers/broker-a/scrub", {"running": True})
        self.assertEqual((status, found["integrity"]["scrub"]["running"]), (200, True))
        self.front.cluster.pump(30.0, 1.0)
        scrub = self.get("/brokers/broker-a/store")["integrity"]["scrub"]
        self.assertEqual((scrub["running"], scrub["lastRecords"], scrub["lastDamaged"]), (False, 1, 0))
        self.assertGreater(scrub["nextMs"], scrub["lastEndedMs"])
        self.assertGreater(scrub["rateBytes"], 0)
