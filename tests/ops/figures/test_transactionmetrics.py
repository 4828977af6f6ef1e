"""The metrics of transactions, of a broker in memory."""

from __future__ import annotations

from typing import ClassVar

from smartgo.ops.figures.brokermetrics import OpenBrokerMetrics
from smartgo.ops.figures.transactionmetrics import transaction_metrics
from smartgo.schema.message import COMMIT
from smartgo.schema.topics import HALF_TOPIC
from smartgo.schema.transactions import TRANSACTION_GROUP
from tests.broker.transactioncase import TransactionCase


class TransactionMetricsTests(TransactionCase):
    """One broker."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "10000", "transactionCheckMax": "2"}

    def values(self) -> dict[str, float]:
        """Return all samples by name; each has the labels of the node."""
        now_ms = self.cluster.env.clock.wall_ms()
        found = {}
        for family in transaction_metrics(self.transactions, ("node_id",), ("broker-a",), now_ms):
            for sample in family.samples:
                self.assertEqual(sample.labels, {"node_id": "broker-a"})
                found[sample.name] = sample.value
        return found

    def test_values(self) -> None:
        """Pending transactions, the age of the oldest, check-backs and what was given up are counted."""
        zero = {
            "rocketmq_half_messages": 0.0,
            "smartgo_transaction_checks_total": 0.0,
            "smartgo_transaction_checks_unasked_total": 0.0,
            "smartgo_transactions_given_up_total": 0.0,
        }
        self.assertEqual(self.values(), zero)
        first = self.half()
        self.half()
        self.assertEqual(self.values(), {**zero, "rocketmq_half_messages": 2.0})
        self.cluster.pump(10.5)
        values = self.values()
        self.assertAlmostEqual(values.pop("smartgo_transactions_oldest_seconds"), 10.5, delta=0.5)
        self.assertEqual(values, {**zero, "rocketmq_half_messages": 2.0, "smartgo_transaction_checks_total": 2.0})
        self.end(first, COMMIT)
        self.cluster.broker.producers.disconnected(self.producer)
        self.cluster.pump(20)
        self.assertEqual(
            self.values(),
            {
                **zero,
                "smartgo_transaction_checks_total": 2.0,
                "smartgo_transaction_checks_unasked_total": 1.0,
                "smartgo_transactions_given_up_total": 1.0,
            },
        )

    def test_no_group(self) -> None:
        """The group by which transactions are tracked has no lag of a consumer."""
        self.half()
        offsets = self.cluster.broker.offsets
        for group in (TRANSACTION_GROUP, "audit"):
            offsets.commit(group, HALF_TOPIC, 0, 0)
        collector = OpenBrokerMetrics(self.cluster.env, self.cluster.broker)
        lags = [one for one in collector.collect() if one.name == "rocketmq_consumer_lag_messages"]
        self.assertEqual([sample.labels["consumer_group"] for one in lags for sample in one.samples], ["audit"])
