"""When brokers are counted, and what is said of one that was gone before its messages were counted."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.ops.figures.membershipmetrics import MembershipMetrics
from smartgo.ops.figures.sampler import UNHEARD
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.reading.contentcounter import YOUNG
from tests.broker.fakecluster import BROKER, Cluster
from tests.ops.front import Front

LABELS = {"cluster": "DefaultCluster", "broker": "broker-a"}


class YoungBrokerTests(SynchronousTestCase):
    """A broker that has just registered, with a topic of four queues; nobody looks at the console."""

    def setUp(self) -> None:
        self.front = Front(Cluster(maxHashSlotNum="100", maxIndexNum="400"))
        self.cluster = self.front.cluster
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()
        body = {"name": "Orders", "readQueues": 4, "writeQueues": 4}
        self.front.ask("POST", "/topics", body, token=self.token)

    def get(self, path: str) -> Any:
        """Ask as admin."""
        return self.front.get(path, token=self.token)

    def store(self) -> None:
        """Store ten messages."""
        for number in range(10):
            self.cluster.send("Orders", b"one", number % 4)

    def vanish(self) -> None:
        """End the broker as a kill does, and let that be seen."""
        self.cluster.env.network.kill(10911)
        self.assertTrue(self.cluster.registry.routes.unregister(BROKER, "broker-a", 0))
        self.cluster.pump(UNHEARD + 1)

    def unreachable(self) -> dict[str, Any]:
        """Return what REST says that cannot be reached."""
        [row] = self.get("/brokers")["items"]
        self.assertEqual((row["state"], self.get("/cluster")["unreachable"]), ("missing", row["unreachable"]))
        return dict(row["unreachable"])

    def sample(self, what: str) -> float | None:
        """Return a sample of C{/metrics}."""
        registry = CollectorRegistry()
        registry.register(MembershipMetrics(self.front.ops.membership))
        return registry.get_sample_value(f"smartgo_unreachable_{what}", LABELS)

    def test_first_messages(self) -> None:
        """The first messages of a broker are counted within three seconds."""
        self.cluster.pump(20.0)
        self.store()
        self.cluster.pump(3.0)
        self.vanish()
        found = self.unreachable()
        self.assertEqual((found["topics"], found["queues"], found["messages"]), (1, 4, 10))
        self.assertEqual((self.sample("messages"), self.sample("queues")), (10, 4))

    def test_gone_before(self) -> None:
        """Of messages that were not counted nothing is known: REST has null, and metrics have no sample."""
        self.cluster.pump(20.0)
        self.assertEqual(self.sample("messages"), 0, "while it can be reached nothing is lost")
        self.store()
        self.vanish()
        found = self.unreachable()
        self.assertEqual((found["messages"], self.sample("messages")), (None, None))
        if found["countedMs"] is None:
            self.assertEqual((found["topics"], found["queues"], self.sample("queues")), (None, None, None))

    def test_topic(self) -> None:
        """A topic is at a missing broker with an unknown number where its broker's number is unknown."""
        self.cluster.send("Orders")
        self.cluster.pump(20.0)
        self.front.ops.membership.counted("broker-a", {"Orders": TopicContent(4, 0)}, ["Orders"])
        self.vanish()
        [row] = self.get("/topics?kind=normal&q=Orders")["items"]
        self.assertEqual(row["unreachable"], [{"broker": "broker-a", "queues": 4, "messages": None}])

    def test_last_topic_deleted(self) -> None:
        """A broker whose last topic was deleted has nothing any more, once it was counted again."""
        self.store()
        self.cluster.pump(20.0)
        table = self.front.ops.membership.table
        self.assertEqual([one.messages for one in [table.content("broker-a")] if one], [10])
        status = self.front.ask("DELETE", "/topics/Orders", token=self.token).status
        self.assertLess(status, 300)
        self.front.ops.contents._sizes = {}
        self.cluster.pump(60.0)
        self.assertEqual([(one.count, one.messages) for one in [table.content("broker-a")] if one], [(0, 0)])

    def test_dies_before_the_count(self) -> None:
        """A broker that dies after it was sampled, and before it is counted, keeps what was counted of it."""
        self.store()
        self.cluster.pump(20.0)
        memory, contents, view = self.front.ops.membership, self.front.ops.contents, self.front.ops.view
        there = [*memory.table.places(), BrokerPlace("DefaultCluster", "broker-x", 0, "192.0.2.1:1")]
        memory.counted("broker-x", {"Orders": TopicContent(4, 10)}, ["Orders"])
        view.brokers.forget()
        view.brokers.get()
        self.cluster.pump()
        memory.observe(there)  # as it was a moment ago: the list of brokers is kept for a second
        contents._due = contents._soon_due = 0.0
        contents.look({"broker-a": 1.0, "broker-x": 1.0})
        self.cluster.pump()
        self.assertEqual(contents._sizes, {"broker-a": 1.0, "broker-x": 1.0}, "nothing was counted")
        self.assertEqual([one.messages for one in [memory.table.content("broker-x")] if one], [10])

    def test_old_and_empty(self) -> None:
        """A broker that stays empty is not looked at more often for ever; one with messages no longer."""
        self.cluster.pump(5.0)
        self.assertTrue(self.front.ops.contents.waits)
        self.cluster.pump(YOUNG + 10, 1.0)
        self.assertFalse(self.front.ops.contents.waits)
        self.store()
        self.cluster.pump(UNHEARD + 2)
        self.vanish()
        self.assertEqual(self.unreachable()["messages"], 10)
