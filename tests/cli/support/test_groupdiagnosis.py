"""A listener that never returns, over forty minutes: alerts, drain time and doctor tell one cause."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.node.ops import LocalNode
from smartgo.ops.alerts import monitor
from smartgo.schema.bodies import ConsumeFromWhere
from tests.broker.fakecluster import REGISTRY
from tests.cli.case import ClusterCase
from tests.ops.front import Front


class HangingTests(ClusterCase):
    """A group with default settings whose listener hangs."""

    seconds = 120.0

    def setUp(self) -> None:
        super().setUp()
        self.patch(monitor, "REST", 0)
        self.out("topic", "create", "Orders", "-n", "1")
        node = LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        self.front = Front(self.cluster, node)
        self.token = self.front.admin()
        self.addCleanup(self.front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = self.token
        self.calls = 0
        self.hangs = True
        for number in range(200):
            self.cluster.send("Orders", b"%d" % number, properties={"UNIQ_KEY": f"{number:032X}"})
        client = Client(self.env, REGISTRY, instance="member")
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(client.stop)
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        self.consumer = PushConsumer(client, "hangers", self.take, settings)
        self.consumer.subscribe("Orders")
        self.consumer.start()

    def take(self, messages: list[ReceivedMessage]) -> Deferred[None] | None:
        """Take messages, or never return."""
        self.calls += 1
        return Deferred() if self.hangs else None

    def states(self, rule: str) -> list[str]:
        """The states of a rule's alerts about the group."""
        items = self.front.get(f"/alerts?q={rule}", token=self.token)["items"]
        return [one["state"] for one in items if one["rule"] == rule and one["subject"] == "hangers"]

    def findings(self) -> list[str]:
        """What doctor says of the group."""
        return [one["what"] for one in self.json("doctor") if one["subject"] == "group hangers"]

    def progress(self) -> Any:
        """The progress of the group."""
        self.front.ops.view.forget()
        return self.front.get("/groups/hangers/progress", token=self.token)

    def test_never(self) -> None:
        """The alert fires after fifteen minutes, and stays when messages are given back; nothing else is advised."""
        seen: list[tuple[list[str], list[str]]] = []
        for minute in range(1, 41):
            self.cluster.pump(60.0, 2.0)
            seen.append((self.states("group-stopped"), self.states("group-late")))
            if minute in (2, 14, 17, 32, 40):
                progress = self.progress()
                self.assertEqual((progress["consumeTps"], progress["drainSeconds"]), (0.0, None), minute)
                (one,) = self.findings()
                self.assertIn("waiting, and its consumers acknowledge none", one)
        self.assertEqual([stopped for stopped, _ in seen[1:14]], [["pending"]] * 13)
        self.assertEqual([stopped for stopped, _ in seen[16:]], [["firing"]] * 24)
        self.assertEqual([late for _, late in seen], [[]] * 40)
        retries = self.cluster.broker.topics.get("%RETRY%hangers")
        self.assertIsNotNone(retries, "nothing was given back: the test proves nothing")
        stats = self.cluster.broker.stats
        self.assertGreater(sum(one.count for one in stats.back_totals()), 0)
        self.assertEqual(sum(one.count for one in stats.acknowledged_totals()), 0)

    def test_goes_on(self) -> None:
        """A listener that works again resolves the alert, and its acknowledgements count."""
        self.cluster.pump(1000.0, 2.0)
        self.assertEqual(self.states("group-stopped"), ["firing"])
        self.hangs = False
        self.cluster.pump(1000.0, 2.0)
        self.assertEqual(self.states("group-stopped"), ["firing"], "all calls of the consumer hang still")
        self.consumer.stop()
        client = Client(self.env, REGISTRY, instance="other")
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(client.stop)
        other = PushConsumer(client, "hangers", self.take)
        other.subscribe("Orders")
        other.start()
        self.cluster.pump(240.0, 1.0)
        self.assertNotEqual(self.states("group-stopped"), ["firing"])
        self.assertEqual(self.progress()["lag"], 0)
