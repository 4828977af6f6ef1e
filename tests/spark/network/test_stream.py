"""Streams of topics over the network inside Spark, from a broker of our own: exactly once, lag, loss."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import defaultdict
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.columns import MESSAGES
from smartgo.spark.network.lag import LagListener, offsets_behind_latest
from smartgo.spark.network.networkoptions import parse_network
from smartgo.spark.network.stream import NetworkStreamReader
from smartgo.testing import EmbeddedBroker
from tests.spark.network.test_batch import digest, send
from tests.spark.session import ROOT, SparkTestCase

_PROGRAM = os.path.join(ROOT, "docs", "examples", "spark_topic_stream.py")
_MESSAGES = 7_500
_KILLS = 1


def lag_told(registry: str, group: str) -> int:
    """Return the lag that our command shows."""
    command = [sys.executable, "-m", "smartgo.cli.main", "group", "lag", group, "-r", registry, "-o", "jsonl"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)
    return sum(json.loads(line)["lag"] for line in told.stdout.splitlines())


class ReaderTests(SynchronousTestCase):
    """The methods that Spark calls, called without Spark."""

    def test_methods(self) -> None:
        """Offsets are JSON, partitions and the reader travel to workers, and the micro-batches are the topic."""
        with EmbeddedBroker() as broker:
            broker.create_topic("T", 2)
            send(broker.registry, "T", [b"%d" % number for number in range(100)])
            options = parse_network({"registry": broker.registry, "subscribe": "T", "maxOffsetsPerTrigger": "30"})
            columns = pa.schema([MESSAGES.field("body")])
            reader = NetworkStreamReader(columns, options)
            self.addCleanup(reader.stop)
            limit = reader.getDefaultReadLimit()
            self.assertEqual(limit, ReadMaxRows(30))
            reader.prepareForTriggerAvailableNow()
            at, found = reader.initialOffset(), []
            while (end := json.loads(json.dumps(reader.latestOffset(at, limit)))) != at:
                worker, parts = pickle.loads(pickle.dumps((reader, reader.partitions(at, end))))
                bodies = [body for part in parts for batch in worker.read(part) for body in batch["body"].to_pylist()]
                self.assertLessEqual(len(bodies), 31)
                found += bodies
                reader.commit(end)
                at = end
            self.assertEqual(sorted(map(int, found)), list(range(100)))
            self.assertEqual(reader.reportLatestOffset(), at)
            self.assertEqual(reader.latestOffset(at, ReadAllAvailable()), at)


class StreamTests(SparkTestCase):
    def setUp(self) -> None:
        """A broker with a topic, a sink and a checkpoint."""
        super().setUp()
        self.broker = EmbeddedBroker()
        self.broker.start()
        self.addCleanup(self.broker.stop)
        self.broker.create_topic("T", 3)
        top = os.path.abspath(self.mktemp())
        self.sink = os.path.join(top, "sink")
        self.checkpoint = os.path.join(top, "checkpoint")
        self.sent = 0

    def send(self, count: int) -> None:
        """Send more messages, each with its number."""
        send(self.broker.registry, "T", [b"%d" % number for number in range(self.sent, self.sent + count)])
        self.sent += count

    def start(self, **options: Any) -> Any:
        """Start a query of the topic into the sink that ends when all was read."""
        given = {"registry": self.broker.registry, "subscribe": "T", **options}
        frame = (
            self.spark.readStream.format("smartgo").schema("queue_offset bigint, body binary").options(**given).load()
        )
        writer = frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)
        return writer.trigger(availableNow=True).start(self.sink)

    def run_to_the_end(self, **options: Any) -> Any:
        """Put all there is into the sink; return how the query went."""
        query = self.start(**options)
        query.awaitTermination()
        return query

    def found(self) -> list[int]:
        """Return the numbers in the sink."""
        return sorted(int(row.body) for row in self.spark.read.parquet(self.sink).collect())

    def test_exactly_once(self) -> None:
        """
        A query goes on where it was, does a micro-batch that broke off again, and puts every message into the sink
        once. Its group's lag is what was not written yet, for our command too, and so says its progress.
        """
        self.send(300)
        listener = LagListener()
        self.spark.streams.addListener(listener)
        self.addCleanup(self.spark.streams.removeListener, listener)
        query = self.run_to_the_end(maxOffsetsPerTrigger=100, groupId="lake")
        self.assertEqual(self.found(), list(range(300)))
        reports = [one for one in query.recentProgress if one["numInputRows"]]
        self.assertGreaterEqual(len(reports), 3)
        behind = [int(offsets_behind_latest(one)["offsetsBehindLatest"]) for one in reports]
        self.assertEqual((behind[0], behind[-1]), (200, 0))
        self.assertEqual(self.broker.lag("lake"), 0)
        self.send(50)
        self.assertEqual(lag_told(self.broker.registry, "lake"), 50)
        # As if the process had been killed when the files of the last micro-batch were written, but not noted as done:
        commits = os.path.join(self.checkpoint, "commits")
        last = max(int(name) for name in os.listdir(commits) if name.isdigit())
        os.unlink(os.path.join(commits, str(last)))
        os.unlink(os.path.join(commits, f".{last}.crc"))
        self.run_to_the_end(groupId="lake")
        self.assertEqual(self.found(), list(range(350)))
        self.assertEqual(self.broker.lag("lake"), 0)

    def test_lost(self) -> None:
        """A stream over a topic that was replaced by a shorter one ends with an error, or goes on."""
        self.send(100)
        self.run_to_the_end()
        self.broker.purge()
        self.broker.create_topic("T", 3)
        send(self.broker.registry, "T", [b"1000"])
        error = self.assertRaises(PySparkException, self.run_to_the_end)
        self.assertIn("up to where it was read", str(error))
        self.run_to_the_end(failOnDataLoss="false")
        send(self.broker.registry, "T", [b"1001", b"1002"])
        self.run_to_the_end(failOnDataLoss="false")
        self.assertLessEqual({1001, 1002}, set(self.found()))


class KillTests(SparkTestCase):
    def stream(self, registry: str, folder: str) -> subprocess.Popen[str]:
        """Start the program of the page, which reads 1,500 messages at a time."""
        environment = {**os.environ, "PYTHONPATH": ROOT, "SPARK_LOCAL_IP": "127.0.0.1"}
        return subprocess.Popen(
            [sys.executable, _PROGRAM, registry, "T", folder, "1500"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,  # so that its JVM and workers are killed with it
        )

    def test_kill(self) -> None:
        """However often a stream is killed with SIGKILL, its files have every message once in the end."""
        folder = os.path.abspath(self.mktemp())
        with EmbeddedBroker() as broker:
            broker.create_topic("T", 3)
            bodies = [b"%d" % number for number in range(_MESSAGES)]
            send(broker.registry, "T", bodies)
            for _ in range(_KILLS):
                process = self.stream(broker.registry, folder)
                assert process.stdout is not None
                with process.stdout:
                    told = [process.stdout.readline(), process.stdout.readline()]
                    os.killpg(process.pid, signal.SIGKILL)  # the next micro-batch has begun
                process.wait()
                self.assertRegex(told[1], r"batch \d+: 1\d\d\d messages, \d+ behind")
            process = self.stream(broker.registry, folder)
            output, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0)
            self.assertIn("behind", output)
            self.assertEqual(broker.lag("lake"), 0)
        rows = (
            self.spark.read.parquet(os.path.join(folder, "messages"))
            .select("queue_id", "queue_offset", "body")
            .collect()
        )
        self.assertEqual(digest([bytes(row.body) for row in rows]), digest(bodies))
        found = defaultdict(list)
        for row in rows:
            found[row.queue_id].append(row.queue_offset)
        for offsets in found.values():
            self.assertEqual(sorted(offsets), list(range(len(offsets))))
