"""Searches for stored messages over two brokers, and what groups made of them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.client.administration.asking import Asking
from smartgo.client.administration.deliveries import TrackState
from smartgo.client.internal.search import BrokerSearch, address_in
from smartgo.errors import BadHeader, CallFailed
from smartgo.schema.bodies import MessageQueue
from tests.broker.fakecluster import BROKER
from tests.client.test_admin import SECOND, AdminCase


class SearchTests(AdminCase):
    def setUp(self) -> None:
        """A message at the first broker."""
        super().setUp()
        self.offset_id = self.cluster.send("T", b"x", properties={"KEYS": "k", "UNIQ_KEY": "U"}).fields["msgId"]
        self.cluster.pump(1.0)
        self.brokers = {"broker-a": BROKER, "broker-b": SECOND}
        self.search = BrokerSearch(Asking(self.client))

    def asked(self, question: Any) -> Any:
        """Return the result of a coroutine."""
        return self.result(Deferred.fromCoroutine(question))

    def test_everywhere(self) -> None:
        """All brokers are asked, and one that has nothing to say fails no search."""
        self.assertEqual(address_in(self.offset_id), BROKER)
        self.assertRaises(BadHeader, address_in, "nonsense")
        for found in (
            [self.asked(self.search.by_offset_id(self.offset_id.lower(), self.brokers))],
            self.asked(self.search.by_key("T", "k", self.brokers)),
            self.asked(self.search.by_unique_key("T", "U", self.brokers)),
        ):
            (one,) = found
            self.assertEqual((one.broker, one.message_id, one.keys), ("broker-a", "U", ["k"]))
            self.assertEqual(one.queue, MessageQueue("T", "broker-a", 0))
        self.assertIsNone(self.asked(self.search.by_offset_id(self.offset_id[:-4] + "7FFF", self.brokers)))

    def test_silent(self) -> None:
        """A broker that is down keeps nobody from finding what another has; what none has may be there."""
        self.second.stopService()
        self.cluster.pump(7.0)
        self.assertIsNotNone(self.asked(self.search.by_offset_id(self.offset_id, self.brokers)))
        missing = self.offset_id[:-4] + "7FFF"
        self.assertRaises(CallFailed, self.asked, self.search.by_offset_id(missing, self.brokers))
        names: list[str] = []
        lenient = BrokerSearch(Asking(self.client, lambda name, error: names.append(name)))
        self.assertIsNone(self.asked(lenient.by_offset_id(missing, self.brokers)))
        self.assertEqual(names, ["broker-b"])

    def test_unknown(self) -> None:
        """What a group made of a message is not known where its broker does not answer, and it is said why."""
        queue = MessageQueue("T", "broker-a", 0)
        track = self.result(self.admin.deliveries.track("g", "127.0.0.1:1", queue, 0, ""))
        self.assertEqual(track.state, TrackState.UNKNOWN)
        self.assertIn("127.0.0.1:1", track.detail)
