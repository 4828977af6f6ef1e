"""Changes while a broker is missing: what they do not reach is named, and no half of an export is given."""

from __future__ import annotations

from smartgo.client.administration.brokers import BrokerPlace
from tests.ops.resources.test_offsets import OffsetCase

REASON = "it is missing: no process of it is registered"
MISSING = [{"broker": "broker-b", "reason": REASON}]


class MissingBrokerTests(OffsetCase):
    """Broker broker-b was registered, and is gone."""

    def setUp(self) -> None:
        super().setUp()
        self.front.ops.membership.observe([BrokerPlace("DefaultCluster", "broker-b", 0, "192.0.2.1:1")])
        self.cluster.pump(12.0, 1.0)

    def test_reset(self) -> None:
        """A plan names it, and so does what is applied; one for queues of other brokers lacks nothing."""
        plan = self.reset(dryRun=True)
        self.assertEqual((plan["state"], plan["missing"]), ("planned", MISSING))
        applied = self.order("POST", f"/offsets/plans/{plan['id']}/apply")[1]
        self.assertEqual((applied["state"], applied["missing"]), ("applied", MISSING))
        self.assertEqual(self.reset(queues=[{"broker": "broker-a", "queueId": 0}])["missing"], [])

    def test_empty(self) -> None:
        """So does what is said of emptying a topic, and of having done it."""
        for dry in (True, False):
            status, found = self.order("POST", "/topics/Orders/empty", {"dryRun": dry})
            self.assertEqual((status, found["missing"]), (200, MISSING))

    def test_settings(self) -> None:
        """Topics and groups are changed at the others; a change for a broker that is there lacks nothing."""
        topic = {"name": "New", "brokers": ["broker-a"]}
        self.assertEqual(self.order("POST", "/topics", topic), (201, {"brokers": ["broker-a"], "missing": []}))
        done = {"brokers": ["broker-a"], "missing": MISSING}
        self.assertEqual(self.order("PUT", "/topics/New", {}), (200, done))
        self.assertEqual(self.order("DELETE", "/topics/New"), (200, done))
        self.assertEqual(self.order("POST", "/groups", {"name": "new"}), (201, done))
        self.assertEqual(self.order("PUT", "/groups/new", {}), (200, done))
        self.assertEqual(self.order("DELETE", "/groups/new"), (200, done))

    def test_export(self) -> None:
        """Definitions are not exported without those that only this broker may have."""
        status, problem = self.order("GET", "/definitions")
        self.assertEqual((status, problem["code"]), (502, "brokers-missing"))
        self.assertIn(f"broker-b: {REASON}", problem["detail"])
