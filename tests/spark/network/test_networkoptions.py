"""Tests of L{smartgo.spark.network.networkoptions}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark.network.access import ClusterAccess, TLSFileNames
from smartgo.spark.network.networkoptions import NetworkOptions, is_network, parse_network
from smartgo.spark.network.offsetforms import NamedQueue
from smartgo.spark.options import EARLIEST, LATEST


def parsed(**options: str) -> NetworkOptions:
    """The options of a read of topic T."""
    return parse_network({"registry": "h:1", "subscribe": "T", **options})


class ParseTests(SynchronousTestCase):
    def refused(self, **options: str) -> str:
        """The sentence that options are refused with."""
        return str(self.assertRaises(SettingError, parsed, **options))

    def test_defaults(self) -> None:
        """A registry and topics are enough; the port of a registry may be missing."""
        self.assertEqual(parsed(), NetworkOptions(ClusterAccess(("h:1",)), topics=frozenset({"T"})))
        found = parse_network({"Registry": "h1; h2:5", "SUBSCRIBEPATTERN": "a.*"})
        self.assertEqual(found.access.registries, ("h1:9876", "h2:5"))
        self.assertIsNotNone(found.topic_pattern)
        self.assertTrue(is_network({"REGISTRY": "h"}))
        self.assertFalse(is_network({"path": "/s"}))

    def test_subscriptions(self) -> None:
        """One of three ways to name topics is needed, and no more."""
        error = self.assertRaises(SettingError, parse_network, {"registry": "h:1"})
        self.assertIn("subscribe, subscribePattern and assign", str(error))
        self.assertIn("exclude each other", self.refused(assign='{"T": [0]}'))
        self.assertIn("exclude each other", self.refused(path="/store"))

    def test_unknown(self) -> None:
        """An option that does not exist is refused, and the nearest told."""
        self.assertIn("did you mean maxOffsetsPerTrigger?", self.refused(maxOffsetPerTrigger="5"))

    def test_positions(self) -> None:
        """Positions are offsets or times, for all queues or by queue."""
        found = parsed(startingOffsets='{"T": {"0": 5}}', endingTimestamp="2026-01-01T00:00:00Z")
        self.assertEqual(found.starting.offsets, {NamedQueue("T", None, 0): 5})
        self.assertEqual((found.ending.at_ms, found.ending.named), (1_767_225_600_000, LATEST))
        found = parsed(startingTimestamp="5", endingOffsetsByTimestamp='{"T": {"a:1": 7}}')
        self.assertEqual((found.starting.at_ms, found.starting.named), (5, EARLIEST))
        self.assertEqual(found.ending.times, {NamedQueue("T", "a", 1): 7})
        self.assertEqual(parsed(endingOffsets="latest").ending.named, LATEST)
        self.assertFalse(found.is_latest_without_match)
        self.assertTrue(parsed(startingOffsetsByTimestampStrategy="latest").is_latest_without_match)
        self.assertIn("exclude each other", self.refused(startingTimestamp="5", startingOffsets="earliest"))

    def test_not_subscribed(self) -> None:
        """A position in a topic that is not read is refused."""
        self.assertIn("topic S is not subscribed to", self.refused(startingOffsets='{"S": {"0": 5}}'))
        for way in ({"subscribePattern": "T+"}, {"assign": '{"T": [1]}'}):
            given = {"registry": "h", "endingOffsets": '{"S": {"0": 5}}', **way}
            self.assertIn("topic S", str(self.assertRaises(SettingError, parse_network, given)))

    def test_filters(self) -> None:
        """Tags are joined as in subscriptions; they and SQL exclude each other."""
        self.assertEqual(parsed(tags="A || B").tags, {"A", "B"})
        self.assertTrue(parsed(sql="a > 5").is_filtered)
        self.assertFalse(parsed().is_filtered)
        self.assertIn("exclude each other", self.refused(tags="A", sql="a > 5"))
        self.assertIn("option tags", self.refused(tags="*"))

    def test_group(self) -> None:
        """The group is called as Kafka's source calls it, too; pulls are made in its name."""
        for name in ("groupId", "kafka.group.id"):
            found = parsed(**{name: "audit"})
            self.assertEqual((found.group, found.access.group), ("audit", "audit"))
        self.assertIsNone(parsed().group)
        self.assertIn("option groupId", self.refused(groupId="a b"))

    def test_limits(self) -> None:
        """Numbers are positive, times are written as Spark does."""
        found = parsed(minPartitions="7", maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxTriggerDelay="90 s")
        self.assertEqual((found.min_partitions, found.max_offsets, found.min_offsets), (7, 10, 5))
        for text, seconds in (
            ("90s", 90),
            ("15m", 900),
            ("500ms", 0.5),
            ("2 Hours", 7200),
            ("1 minute", 60),
            ("3 seconds", 3),
        ):
            self.assertEqual(parsed(maxTriggerDelay=text).max_delay, seconds)
        for wrong in ("5 days ago", "m", "", "-1s", "5 secondss"):
            self.assertIn("option maxTriggerDelay", self.refused(maxTriggerDelay=wrong))
        self.assertIn("option minPartitions", self.refused(minPartitions="0"))
        self.assertEqual(parsed(timeout="5").access.timeout, 5)

    def test_tls(self) -> None:
        """Files for TLS need TLS, and a certificate its key."""
        found = parsed(tls="true", tlsTrust="/ca", tlsName="n").access
        self.assertEqual(found.tls, TLSFileNames("/ca", name="n"))
        self.assertIsNone(parsed().access.tls)
        self.assertIn("tls is not true", self.refused(tlsTrust="/ca"))
        self.assertIn("tlsKey", self.refused(tls="true", tlsCertificate="/c"))

    def test_keys(self) -> None:
        """An access key needs its secret, which is not shown."""
        found = parsed(accessKey="k", secretKey="s3cret").access
        self.assertEqual(found.key, ("k", "s3cret"))
        self.assertNotIn("s3cret", repr(found))
        self.assertIn("secretKey", self.refused(accessKey="k"))
