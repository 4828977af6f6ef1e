"""Topics read for Spark over the network, from real brokers and ours: messages, filters, times, groups, TLS, keys."""

from __future__ import annotations

import hashlib
import os
from random import Random
from typing import Any, ClassVar
from unittest import SkipTest

from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.spark.network.batch import plan_batch
from smartgo.spark.network.cluster import Cluster as Asked
from smartgo.spark.network.networkoptions import parse_network
from smartgo.spark.network.pullwindow import PULL_LIMIT
from smartgo.spark.network.queueranges import Queue
from smartgo.spark.network.topicfollower import SparkTopicFollower
from smartgo.sync import Admin, Client, Message, Producer
from tests.client.securecases import ADMIN
from tests.interop.case import InteropCase
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer
from tests.interop.peers5 import ROCKETMQ5, unavailable5
from tests.interop.test_faces import CLUSTERS
from tests.interop.test_search import smartgo

try:
    from smartgo.spark.columns import MESSAGES
    from smartgo.spark.network.batch import read_range
except ImportError:  # the extra [spark] is not installed: setUp skips
    pass

QUEUES = 3


class NetworkCase:
    """Cases on one kind of broker; a base of test classes."""

    peer: ClassVar[Peer]
    options: dict[str, str]

    def prepare(self: Any, kind: str, count: int, size: int = 100) -> str:
        """Start or find a cluster, send messages to a new topic, and return the topic's name."""
        cluster, how = CLUSTERS.get(self.peer, kind)
        self.running = cluster
        topic: str = self.name(f"spark-{kind}")
        self.options = {"registry": cluster.namesrv, "subscribe": topic, "timeout": "20"}
        random = Random(count)
        self.bodies = [b"%d:" % number + random.randbytes(random.randrange(2 * size)) for number in range(count)]
        with Client(cluster.namesrv, **how) as client, Producer(client, "spark-producers") as producer:
            Admin(client).topics.create(topic, queues=QUEUES)
            for at in range(0, count, 200):
                part = [
                    Message(topic=topic, body=body, tag="AB"[number % 2], keys=f"k{at + number}",
                            properties={"n": str(at + number)})
                    for number, body in enumerate(self.bodies[at : at + 200])
                ]  # fmt: skip
                producer.send_batch(part)
        return topic

    def read(self, **more: str) -> list[dict[str, Any]]:
        """Read as a batch read does."""
        options = parse_network({**self.options, **more})
        asked = Asked(options.access)
        try:
            parts = plan_batch(options, asked)
        finally:
            asked.close()
        return [row for part in parts for batch in read_range(part, MESSAGES, options) for row in batch.to_pylist()]

    def numbers(self, **more: str) -> list[int]:
        """Return the numbers that the messages read bear."""
        return sorted(int(row["body"].partition(b":")[0]) for row in self.read(**more))


class SparkNetworkTests(NetworkCase, InteropCase):
    """Brokers of smartgo."""

    peer = SMARTGO

    def setUp(self) -> None:
        """Skip where Spark's libraries are missing, or the broker cannot run."""
        super().setUp()
        if "MESSAGES" not in globals():
            raise SkipTest("the extra [spark] is not installed")

    def test_messages(self) -> None:
        """Every message is read once and equal, large ones too; filters, times and offsets give what they say."""
        self.prepare("open", 3000)
        rows = self.read()
        found = {hashlib.sha256(row["body"]).digest() for row in rows}
        self.assertEqual(len(rows), 3000)
        self.assertEqual(found, {hashlib.sha256(body).digest() for body in self.bodies})
        self.assertEqual({row["crc_ok"] for row in rows}, {True})
        self.assertEqual({row["tags"] for row in rows}, {"A", "B"})
        self.assertEqual(self.numbers(tags="B"), list(range(1, 3000, 2)))
        self.assertEqual(self.numbers(tags="A || C", minPartitions="8"), list(range(0, 3000, 2)))
        self.assertEqual(self.numbers(sql="n >= 2990 AND TAGS = 'B'"), [2991, 2993, 2995, 2997, 2999])
        self.assertRaises(SettingError, self.read, sql="n >>> 5")
        # Times are exact in each queue, whatever the broker's own search says.
        stamps = sorted({round(row["store_timestamp"].timestamp() * 1000) for row in rows})
        for stamp in (stamps[0], stamps[len(stamps) // 2], stamps[-1]):
            expected = [row for row in rows if round(row["store_timestamp"].timestamp() * 1000) >= stamp]
            more = {"startingTimestamp": str(stamp), "startingOffsetsByTimestampStrategy": "latest"}
            self.assertEqual(len(self.read(**more)), len(expected))
            self.assertEqual(len(self.read(endingTimestamp=str(stamp))), 3000 - len(expected))

    def test_large(self) -> None:
        """Messages of which few fit into an answer are all read."""
        self.prepare("open", 150, size=4000)
        topic = self.options["subscribe"]
        cluster, how = CLUSTERS.get(self.peer, "open")
        with Client(cluster.namesrv, **how) as client, Producer(client, "spark-producers") as producer:
            for number in range(2 * PULL_LIMIT):
                producer.send(Message(topic=topic, body=b"%d:" % (150 + number) + os.urandom(200_000)))
        self.assertEqual(self.numbers(), list(range(150 + 2 * PULL_LIMIT)))

    def test_group(self) -> None:
        """What a stream commits is what our command and the broker say of its group."""
        topic = self.prepare("open", 600)
        group = self.name("lake")
        options = parse_network({**self.options, "groupId": group})
        follower = SparkTopicFollower(options)
        self.addCleanup(follower.close)
        at = follower.initial()
        self.assertEqual({queue.queue_id for queue in at}, set(range(QUEUES)))
        broker = next(iter(at)).broker
        self.assertEqual(follower.latest({**at, Queue(topic, broker, 0): 5}, None), follower.reached())
        total = sum(follower.reached().values())
        self.assertEqual(total, 600)
        command = ("group", "lag", group, "-r", self.options["registry"], "-o", "jsonl")
        told = smartgo(*command, home=self.home)
        lags = [int(line.partition('"lag":')[2].partition(",")[0]) for line in told.stdout.splitlines()]
        self.assertEqual(sum(lags), 595, told.stdout + told.stderr)
        follower.latest(follower.reached(), None)
        told = smartgo(*command, home=self.home)
        lags = [int(line.partition('"lag":')[2].partition(",")[0]) for line in told.stdout.splitlines()]
        self.assertEqual((sum(lags), len(lags)), (0, QUEUES), told.stdout + told.stderr)

    def test_tls(self) -> None:
        """With the authority of the certificates topics are read; with another, or without TLS, an error says why."""
        self.prepare("tls", 50)
        _, how = CLUSTERS.get(self.peer, "tls")
        trust = how["tls"].trust
        self.assertEqual(self.numbers(tls="true", tlsTrust=trust), list(range(50)))
        another = os.path.join(os.path.dirname(trust), "another.pem")
        error = self.assertRaises(CallFailed, self.read, tls="true", tlsTrust=another, timeout="3")
        self.assertIn("certificate", str(error))
        error = self.assertRaises(
            CallFailed, self.read, tls="true", tlsTrust=trust, tlsName="other.example", timeout="3"
        )
        self.assertIn("other.example", str(error))
        self.assertRaises(CallFailed, self.read, timeout="3")


class SparkNetwork49Tests(SparkNetworkTests):
    """RocketMQ 4.9.7."""

    peer = ROCKETMQ

    def test_keys(self) -> None:
        """With an access key topics are read; with a wrong secret, or without a key, the broker's words are told."""
        self.prepare("access", 50)
        name, secret = ADMIN
        self.assertEqual(self.numbers(accessKey=name, secretKey=secret, groupId="spark"), list(range(50)))
        for more in ({"accessKey": name, "secretKey": "wrong"}, {}):
            error = self.assertRaises(PeerRefused, self.read, **more, timeout="3")
            self.assertRegex(str(error), "(?i)signature|accessKey|username")


class SparkNetwork5Tests(SparkNetwork49Tests):
    """RocketMQ 5.5.0."""

    peer = ROCKETMQ5

    def setUp(self) -> None:
        """Skip where RocketMQ 5's servers cannot run."""
        super().setUp()
        reason = unavailable5()
        if reason is not None:
            raise SkipTest(f"the servers of RocketMQ 5 cannot run: {reason}")
