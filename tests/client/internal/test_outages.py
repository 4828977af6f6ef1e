"""One line when a broker stops answering, and one when it answers again."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.outages import BrokerOutages
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import NotConnected
from smartgo.schema.bodies import MessageQueue
from tests.broker.fakecluster import REGISTRY, Cluster


def said(events: Sequence[LogEvent]) -> list[str]:
    """Level and text of what a client logged, without what only a closer look shows."""
    return [
        f"{event['log_level'].name}: {formatEvent(event)}"
        for event in events
        if event["log_namespace"].startswith("smartgo.client") and "heartbeat" not in event["log_format"]
    ]


class OutageTests(SynchronousTestCase):
    def test_once(self) -> None:
        """However many calls fail, an outage has one line at its begin and one at its end."""
        outages = BrokerOutages()
        with capturedLogs() as events:
            outages.answered("vm")
            for _ in range(5):
                outages.failed("vm", NotConnected("cannot connect to h:1"))
            outages.failed("other", NotConnected("no"))
            outages.answered("vm")
            outages.answered("vm")
        self.assertEqual(
            said(events),
            [
                "warn: broker vm does not answer; trying again: cannot connect to h:1",
                "warn: broker other does not answer; trying again: no",
                "info: broker vm answers again",
            ],
        )
        self.assertEqual(outages.down, {"other"})

    def test_restart(self) -> None:
        """A consumer of four queues says two lines about a restart of its broker, and goes on."""
        cluster = Cluster()
        for number in range(4):
            cluster.send("T", b"before", queue_id=number)
        client = Client(cluster.env, REGISTRY)
        seen: list[ReceivedMessage] = []
        consumer = PushConsumer(client, "g", seen.extend, ConsumerSettings(stop_timeout=0.0))
        consumer.subscribe("T")
        consumer.start()
        cluster.pump(25.0)
        self.assertEqual(len(seen), 4)
        with capturedLogs() as events:
            stopping: Deferred[None] = cluster.service.stopService()
            cluster.pump(15.0)
            self.successResultOf(stopping)
            cluster.service = Broker(cluster.env, cluster.configuration, cluster.sweeper)
            cluster.service.startService()
            cluster.pump(60.0)
            cluster.send("T", b"after")
            cluster.pump(5.0)
        lines = said(events)
        self.assertEqual([line.partition(";")[0] for line in lines], [
            "warn: broker broker-a does not answer", "info: broker broker-a answers again",
        ])  # fmt: skip
        self.assertEqual([one.body for one in seen[4:]], [b"after"])
        client.stop()
        cluster.pump(1.0)
        cluster.stop()


class QueueNameTests(SynchronousTestCase):
    def test_plain(self) -> None:
        """Logs and errors name a queue in words."""
        self.assertEqual(f"{MessageQueue('T', 'vm', 2)}", "queue 2 of T at vm")
