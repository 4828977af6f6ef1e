"""The rows of brokers: their versions, and what is wrong with them."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.brokerlist import BrokerListRow, state_of, version_of
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.refusal import Refusal
from tests.cli.case import ClusterCase


class StatusTests(SynchronousTestCase):
    """The words about one broker."""

    def status(self, **fields: object) -> str:
        """Return the words about a broker that answers."""
        row = {"cluster": "c", "broker": "a", "id": 0, "address": "1.2.3.4:1", "version": "V4", **fields}
        return state_of(BrokerListRow(**row))  # type: ignore[arg-type]

    def test_words(self) -> None:
        """A refusal and a clock that differs are said; a clock within the limit is not."""
        self.assertEqual(self.status(clock_offset=-2.0), "up")
        self.assertEqual(self.status(clock_offset=-3600.0), "clock 60 min behind ours")
        self.assertEqual(self.status(clock_offset=7.0), "clock 7 s ahead of ours")
        self.assertEqual(
            self.status(refusal="the disk is full", clock_offset=7.0),
            "takes no messages: the disk is full; clock 7 s ahead of ours",
        )
        self.assertEqual(self.status(failure="gone", version=None), "no answer: gone")

    def test_version(self) -> None:
        """A broker of smartgo has its own version, too; one of RocketMQ has RocketMQ's."""
        row = BrokerListRow(cluster="c", broker="a", id=0, address="1.2.3.4:1", version="V4_9_8", product="0.1.0")
        self.assertEqual(version_of(row), "smartgo 0.1.0 (V4_9_8)")
        self.assertEqual(version_of(msgspec.structs.replace(row, product=None)), "V4_9_8")
        self.assertIsNone(version_of(msgspec.structs.replace(row, product=None, version=None)))


class RowTests(ClusterCase):
    """The rows of a cluster."""

    def test_refusal(self) -> None:
        """A broker whose store takes nothing is listed with the reason, and with its clock."""
        (row,) = self.json("cluster", "ls")
        self.assertEqual((row["refusal"], row["clock_offset"]), (None, 0.0))
        refusal = Refusal(RefusalKind.DISK_FULL, "the disk is full")
        self.patch(type(self.cluster.broker.store), "refusal", property(lambda store: refusal))
        (row,) = self.json("cluster", "ls")
        self.assertEqual(row["refusal"], "the disk is full")
        self.assertIn("takes no messages: the disk is full", self.out("cluster", "ls"))
