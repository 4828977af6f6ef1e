"""Reads of topics over the network inside Spark, from a broker of our own."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from pyspark.errors import PySparkException

from smartgo.spark.columns import MESSAGES
from smartgo.sync import Client, Message, Producer
from smartgo.testing import EmbeddedBroker
from smartgo.testing.wire import BROKER_NAME
from tests.spark.session import SparkTestCase


def send(registry: str, topic: str, bodies: list[bytes], tags: list[str] | None = None) -> None:
    """Send messages, a thousand in a request."""
    with Client(registry) as client, Producer(client, "spark-tests") as producer:
        for at in range(0, len(bodies), 1000):
            part = [
                Message(topic=topic, body=body, keys=f"key-{at + number}", tag=tags[at + number] if tags else "")
                for number, body in enumerate(bodies[at : at + 1000])
            ]
            producer.send_batch(part)


def digest(bodies: list[bytes]) -> str:
    """Return a hash of bodies in any order."""
    whole = hashlib.sha256()
    for body in sorted(bodies):
        whole.update(hashlib.sha256(body).digest())
    return whole.hexdigest()


class BatchTests(SparkTestCase):
    def setUp(self) -> None:
        """A broker."""
        super().setUp()
        broker = EmbeddedBroker()
        broker.start()
        self.addCleanup(broker.stop)
        self.broker = broker

    def read(self, **options: Any) -> Any:
        """A data frame over the broker's topics."""
        return self.spark.read.format("smartgo").options(registry=self.broker.registry, **options).load()

    def test_topic(self) -> None:
        """A topic's rows are its messages, each once, with the columns of the file source."""
        self.broker.create_topic("Orders", 4)
        self.broker.create_topic("Others", 1)
        bodies = [b"order %d " % number * (1 + number % 50) for number in range(20_000)]
        send(self.broker.registry, "Orders", bodies, ["even" if number % 2 == 0 else "odd" for number in range(20_000)])
        send(self.broker.registry, "Others", [b"x"])
        frame = self.read(subscribe="Orders")
        self.assertEqual(frame.columns, MESSAGES.names)
        rows = frame.collect()
        self.assertEqual(digest([bytes(row.body) for row in rows]), digest(bodies))
        self.assertEqual(len({row.message_id for row in rows}), 20_000)
        self.assertEqual({row.crc_ok for row in rows}, {True})
        counts = Counter(row.queue_id for row in rows)
        self.assertEqual(len(counts), 4)
        self.assertEqual(frame.rdd.getNumPartitions(), 4)
        self.assertEqual(self.read(subscribe="Orders", minPartitions=9).rdd.getNumPartitions(), 9)
        self.assertEqual(self.read(subscribe="Orders", maxRecordsPerPartition=1000).count(), 20_000)
        # The same records from the files of the same broker.
        files = self.spark.read.format("smartgo").option("subscribe", "Orders").load(f"{self.broker.directory}/store")
        same = [name for name in MESSAGES.names if name not in ("store", "properties")]
        self.assertEqual(files.select(same).exceptAll(frame.select(same)).count(), 0)
        self.assertEqual({row.store for row in rows}, {BROKER_NAME})
        # What brokers leave out.
        odd = self.read(subscribe="Orders", tags="odd")
        self.assertEqual({(row.tags, row["count"]) for row in odd.groupBy("tags").count().collect()}, {("odd", 10_000)})
        even = self.read(subscribe="Orders", sql="TAGS = 'even' AND KEYS IN ('key-4', 'key-5', 'key-6')")
        self.assertEqual(sorted(row.key for row in even.select("key").collect()), ["key-4", "key-6"])
        self.assertEqual(self.read(subscribePattern="Oth.*").count(), 1)
        self.assertEqual(self.read(assign='{"Orders": [2]}').count(), counts[2])
        some = self.read(
            assign='{"Orders": [2]}', startingOffsets='{"Orders": {"2": 5}}', endingOffsets='{"Orders": {"2": 9}}'
        )
        self.assertEqual(sorted(row.queue_offset for row in some.select("queue_offset").collect()), [5, 6, 7, 8])

    def test_catalog(self) -> None:
        """A table of the catalog can be made of topics."""
        self.broker.create_topic("T", 1)
        send(self.broker.registry, "T", [b"1", b"2", b"3"])
        options = f"registry '{self.broker.registry}', subscribe 'T'"
        self.spark.sql(f"CREATE TABLE topic_t USING smartgo OPTIONS ({options})")
        try:
            (row,) = self.spark.sql("SELECT count(*) AS messages, max(queue_offset) AS last FROM topic_t").collect()
            self.assertEqual((row.messages, row.last), (3, 2))
        finally:
            self.spark.sql("DROP TABLE topic_t")

    def test_refused(self) -> None:
        """What cannot be read is refused in a sentence."""
        for options, words in (
            ({"subscribe": "Nothing"}, "no registry knows of queues to read of topic Nothing"),
            ({}, "one of the options subscribe, subscribePattern and assign is needed"),
            ({"subscribe": "T", "startingOffsets": "latest"}, "is for streams"),
        ):
            error = self.assertRaises(PySparkException, lambda options=options: self.read(**options).count())
            self.assertIn(words, str(error))
