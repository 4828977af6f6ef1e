"""Replication as the API shows it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.cluster.replicationstate import Replicated, replication_info
from smartgo.ha.interfaces import SlaveSeen, SlaveState
from smartgo.ops.reading.replicas import FollowingRow, SlaveRow, following_of, slaves_of
from smartgo.ops.resources.brokerrows import BrokerRow
from tests.ops.front import Front


class RuntimeTests(SynchronousTestCase):
    """From a broker's facts to rows."""

    def test_master(self) -> None:
        """Each slave comes with how far behind it is, an IPv6 address as well; there is nothing that it follows."""
        seen = [SlaveSeen("10.0.0.2:40000", 900, 1000, 12.4), SlaveSeen("[::1]:40001", -1, 0, 0.2)]
        told = replication_info(Replicated("SYNC_MASTER", seen, 900), 1000)
        near, far = SlaveRow("10.0.0.2:40000", 900, 100, 12), SlaveRow("[::1]:40001", -1, 1000, 0)
        self.assertEqual(slaves_of(told), [near, far])
        self.assertEqual((told["haConfirmedOffset"], told["brokerRole"]), ("900", "SYNC_MASTER"))
        self.assertIsNone(following_of(told))

    def test_slave(self) -> None:
        """State, reason and master are there; what is unknown is null."""
        now = Replicated("SLAVE", state=SlaveState.DIVERGED, reason="they differ", behind=-1, master="10.0.0.1:10912")
        told = replication_info(now, 1000)
        self.assertEqual(following_of(told), FollowingRow("DIVERGED", "they differ", None, "10.0.0.1:10912", None, ""))
        self.assertEqual(slaves_of(told), [])

    def test_strange(self) -> None:
        """Brokers that tell nothing, or something else, have neither slaves nor a master."""
        self.assertEqual((slaves_of({}), following_of({})), ([], None))
        strange = {"haSlave_1": "x", "haSlave_x": "a,1,2,3", "haSlave_2": "a,b,c,d"}
        self.assertEqual(slaves_of(strange), [SlaveRow("a", 0, 0, 0)])


class ApiTests(SynchronousTestCase):
    """Over HTTP."""

    def test_brokers(self) -> None:
        """A broker's role is told, and that nobody follows it."""
        front = Front()
        self.addCleanup(front.stop)
        token = front.admin()
        (row,) = front.get("/brokers", token=token)["items"]
        shown: Any = front.get("/brokers/broker-a", token=token)
        for one in row, shown:
            self.assertEqual((one["role"], one["slaves"], one["following"]), ("ASYNC_MASTER", [], None))
        self.assertEqual(BrokerRow("c", "b", 0, "a:1", False).slaves, [])
