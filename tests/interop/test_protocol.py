"""
Requests that RocketMQ's own programs make seldom: by no command of mqadmin, or with one
option of the client alone. The other requests are driven by the other tests here; docs/official-programs.rst lists
which.
"""

from __future__ import annotations

import time

from tests.interop.case import InteropCase, driver, texts
from tests.interop.driver import Driver
from tests.interop.peers import answer

QUERY_CONSUMER_OFFSET = 14
_LONG_NAMES = "-Dorg.apache.rocketmq.client.sendSmartMsg=false"
"""Makes the client send with the names of fields written out: 10 in the place of 310, 324 of 325."""


class LibraryTests(InteropCase):
    """Calls of the administration's library."""

    def _calls(self, generation: str) -> None:
        running, client = self.shared(), driver(generation)
        where, address = {"namesrv": running.namesrv}, running.broker.address
        topic, group = self.name("protocol"), self.name("group")
        client.ask("topic", topic=topic, queues=1, address=address, **where)
        begin_ms = time.time() * 1000 - 1000
        client.start("send", topic=topic, count=3, **where).result()
        kept, made = client.mqadmin(
            f"updateKvConfig -n {running.namesrv} -s ns -k {topic} -v value",
            f"updateSubGroup -n {running.namesrv} -b {address} -g {group} -r 7",
        )
        self.assertIn("success", kept)
        self.assertIn("success", made)
        copy = self.name("copy")
        called = client.ask("ask", what="protocol", topic=topic, group=group, copy=copy, address=address, **where)
        told = called["answer"]
        self.assertIn(topic, told["topics"])
        self.assertIn("broker-a", told["system"])
        self.assertEqual((told["values"][topic], told["retries"], told["bounds"]), ("value", 7, [0, 3, 0]))
        self.assertEqual(told["correction"], {})
        wanted = {"topic": topic, "consumerGroup": copy, "queueId": "0"}
        copied = answer(running.broker.plan, QUERY_CONSUMER_OFFSET, wanted)
        self.assertEqual(copied and copied.fields.get("offset"), "2")
        if generation == "5.3":
            self.assertEqual((told["group"]["groupName"], told["group"]["retryMaxTimes"]), (group, 7))
        self.assertTrue(begin_ms <= told["earliest"] <= time.time() * 1000, told["earliest"])

    def test_4_9(self) -> None:
        """Names by cluster and of the system, values, a group's settings, bounds of a queue (4.9)."""
        self._calls("4.9")

    def test_5_3(self) -> None:
        """Names by cluster and of the system, values, a group's settings, bounds of a queue (5.3)."""
        self._calls("5.3")


class LongNameTests(InteropCase):
    """A client that writes the names of fields out."""

    def test_sends_and_replies(self) -> None:
        """Its sends (10) arrive, and its reply (324) reaches who waits for it."""
        running = self.shared()
        where, topic = {"namesrv": running.namesrv}, self.name("long")
        java = Driver("4.9", self.home, options=[_LONG_NAMES])
        self.addCleanup(java.process.kill)
        java.ask("topic", topic=topic, queues=1, address=running.broker.address, **where)
        consumer = java.start("push", name=topic, group=topic, topics={topic: "*"}, reply=True, **where)
        consumer.result()
        java.start("send", topic=topic, count=2, first=7, **where).result()
        consumer.wait_for("message", 2, 60)
        self.assertEqual(sorted(texts(consumer.of("message"))), [f"{topic}-7", f"{topic}-8"])
        self.assertEqual(driver("4.9").ask("request", topic=topic, **where)["text"], f"re: {topic}-0")
