"""The address of a broker that official clients are told, by where they ask."""

from __future__ import annotations

import os
import time

from tests.interop.case import PORTS, InteropCase, driver
from tests.interop.driver import CommandFailed
from tests.interop.peers import GET_BROKER_CLUSTER_INFO, SMARTGO, Plan, ask
from tests.interop.process import wait_for_moment

INSIDE, OUTSIDE = "127.0.0.1", "127.0.0.2"


class AdvertisedTests(InteropCase):
    """A registry at two addresses, and a broker that is reached at one of them alone."""

    def setUp(self) -> None:
        super().setUp()
        ports = PORTS.take(6)
        home = self.home
        open_to_all = {"allowInsecure": "true"}
        registry = SMARTGO.registry(Plan(ports, home, settings=open_to_all, host="0.0.0.0"))
        settings = {
            "brokerIP1": INSIDE,
            "advertisedAddresses": f"@{OUTSIDE}={OUTSIDE}:{ports + 4}",
            "fastPort": "false",
        }
        self.broker = SMARTGO.broker(
            Plan(ports + 4, home, os.path.join(home, "store"), f"{INSIDE}:{ports}", settings=settings, host=OUTSIDE)
        )
        self.port = ports
        for node in (registry, self.broker):
            self.addCleanup(node.end)
            node.start()
        patience = time.monotonic() + 60  # the broker answers before it has registered
        while f"{OUTSIDE}:{ports + 4}".encode() not in self.seen(OUTSIDE):
            self.assertLess(time.monotonic(), patience, self.seen(OUTSIDE))
            wait_for_moment(time.time() + 0.05)
        self.assertIn(f"{INSIDE}:{ports + 4}".encode(), self.seen(INSIDE))

    def seen(self, host: str) -> bytes:
        """The view of the cluster that the registry gives at one of its addresses."""
        return ask(Plan(self.port, "", host=host), GET_BROKER_CLUSTER_INFO) or b""

    def test_fits(self) -> None:
        """Who asks at the outer address reaches the broker by its outer one; who asks at the inner one is told that."""
        outside, inside = f"{OUTSIDE}:{self.port}", f"{INSIDE}:{self.port}"
        for generation in ("4.9", "5.3"):
            client = driver(generation)
            topic = self.name("advertised")
            self.addCleanup(self._forget, outside)
            self.addCleanup(self._forget, inside)
            client.ask("topic", topic=topic, queues=1, address=self.broker.address, namesrv=outside)
            sent = client.start("send", topic=topic, group=self.name("out"), namesrv=outside, count=3)
            self.assertEqual(len(sent.all_of("sent")), 3)
            read = client.start("read", topics=[topic], namesrv=outside).all_of("message")
            self.assert_stored(sent.of("sent"), read)
            failed = client.start("send", topic=topic, group=self.name("in"), namesrv=inside, retries=0)
            error = self.assertRaises(CommandFailed, failed.result)
            self.assertIn("Send [1] times, still failed", str(error), "nobody listens at the inner address")
