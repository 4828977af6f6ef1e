"""Tests of L{smartgo.spark.network.topicfollower} without Spark and without sockets."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallFailed, SettingError
from smartgo.schema.codes import RequestCode
from smartgo.spark.gaps import DataLost
from smartgo.spark.network.networkoptions import parse_network
from smartgo.spark.network.queueranges import Offsets, Queue
from smartgo.spark.network.topicfollower import SparkTopicFollower, check_network_stream
from tests.spark.network.brokerdouble import MASTER, REGISTRY, SLAVE, MemoryBroker, PausedClock

A, B, NEW = Queue("T", "broker-a", 0), Queue("T", "broker-a", 1), Queue("T", "broker-a", 2)


class FollowerTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A broker with a topic."""
        self.broker = MemoryBroker()
        self.broker.add("T", 0, 100)
        self.broker.add("T", 1, 10)
        self.clock = PausedClock()

    def follower(self, **options: str) -> SparkTopicFollower:
        """Return a stream over topic T."""
        given = parse_network({"registry": REGISTRY, "subscribe": "T", "timeout": "4", **options})
        return SparkTopicFollower(given, self.broker.dial, self.clock)

    def read(self, follower: SparkTopicFollower, start: Offsets, end: Offsets) -> list[tuple[str, int, int]]:
        """Return what a micro-batch reads: queue, first offset, offset after the last."""
        return [(one.queue.place, one.begin, one.end) for one in follower.ranges(start, end)]

    def test_batches(self) -> None:
        """Micro-batches of the size asked for have every message once; the report says how far the queues go."""
        follower = self.follower()
        at, found = follower.initial(), []
        self.assertEqual(at, {A: 0, B: 0})
        while (end := follower.latest(at, 30)) != at:
            found.append(self.read(follower, at, end))
            at = end
        offsets = [(queue, offset) for batch in found for queue, begin, stop in batch for offset in range(begin, stop)]
        self.assertEqual(len(offsets), 110)
        self.assertEqual(len(set(offsets)), 110)
        self.assertGreater(len(found), 3)
        self.assertEqual(follower.reached(), {A: 100, B: 10})
        self.broker.add("T", 1, 5)
        self.assertEqual(follower.latest(at, None), {A: 100, B: 15})

    def test_begin(self) -> None:
        """A stream begins at offsets by queue, or at the end."""
        self.assertEqual(self.follower(startingOffsets="latest").initial(), {A: 100, B: 10})
        found = self.follower(startingOffsets='{"T": {"0": 7, "broker-a:1": -1}}').initial()
        self.assertEqual(found, {A: 7, B: 10})
        self.assertRaises(SettingError, self.follower(subscribe="X").initial)

    def test_no_end(self) -> None:
        """A stream refuses to end."""
        for name, value in (("endingOffsets", "earliest"), ("endingTimestamp", "5")):
            given = parse_network({"registry": REGISTRY, "subscribe": "T", name: value})
            self.assertIn("a stream has no end", str(self.assertRaises(SettingError, check_network_stream, given)))

    def test_partitions(self) -> None:
        """A micro-batch is cut as a batch read is."""
        follower = self.follower(minPartitions="4")
        self.assertEqual(len(self.read(follower, {A: 0, B: 0}, {A: 100, B: 10})), 4)
        (first, *_) = self.follower().ranges({A: 0}, {A: 100})
        self.assertEqual(first.addresses, (MASTER, SLAVE))

    def test_new_queue(self) -> None:
        """A queue that appears is read from its beginning, after some seconds."""
        follower = self.follower(startingOffsets="latest")
        at = follower.initial()
        self.assertEqual(follower.latest(at, None), at)
        self.broker.add("T", 2, 30)
        self.broker.queues["T", 2].minimum = 4
        self.assertEqual(follower.latest(at, None), at)
        self.clock.pause(6)
        end = follower.latest(at, None)
        self.assertEqual(end, {**at, NEW: 30})
        self.assertEqual(self.read(follower, at, end), [("broker-a:2", 4, 30)])

    def test_available_now(self) -> None:
        """A stream that is to read what there is now takes nothing that comes later, and no new queue."""
        follower = self.follower(minOffsetsPerTrigger="1000")
        at = follower.initial()
        follower.stop_at_the_end()
        self.broker.add("T", 0, 50)
        self.broker.add("T", 2, 30)
        self.clock.pause(6)
        end = follower.latest(at, None)
        self.assertEqual((end[A], end[B]), (100, 10))
        self.assertEqual(self.read(follower, at, end), [("broker-a:0", 0, 100), ("broker-a:1", 0, 10)])
        self.assertEqual(follower.latest(end, None), end)

    def test_least(self) -> None:
        """A micro-batch waits for enough messages, but not longer than is said, and not for the first."""
        follower = self.follower(minOffsetsPerTrigger="20", maxTriggerDelay="10s", startingOffsets='{"T": {"0": 95}}')
        at = follower.initial()
        end = follower.latest(at, None)
        self.assertEqual(end, {A: 100, B: 10})
        self.broker.add("T", 0, 19)
        self.assertEqual(follower.latest(end, None), end)
        self.broker.add("T", 0, 1)
        later = follower.latest(end, None)
        self.assertEqual(later, {A: 120, B: 10})
        self.broker.add("T", 0, 1)
        self.assertEqual(follower.latest(later, None), later)
        self.clock.pause(10)
        self.assertEqual(follower.latest(later, None), {A: 121, B: 10})

    # -- loss --------------------------------------------------------------------------------------------------

    def test_removed(self) -> None:
        """What retention removed while the stream was down is an error, or the stream goes on."""
        self.broker.queues["T", 0].minimum = 50
        error = self.assertRaises(DataLost, self.follower().latest, {A: 20, B: 0}, None)
        self.assertIn("offsets 20 to 50 were removed before they were read", str(error))
        self.assertEqual(self.follower(failOnDataLoss="false").latest({A: 20, B: 0}, None), {A: 100, B: 10})

    def test_shorter(self) -> None:
        """A queue that is shorter than what was read is an error, or the stream goes on at its end."""
        error = self.assertRaises(DataLost, self.follower().latest, {A: 120, B: 0}, None)
        self.assertIn("the queue ends at offset 100, before 120", str(error))
        follower = self.follower(failOnDataLoss="false")
        self.assertEqual(follower.latest({A: 120, B: 0}, None), {A: 100, B: 10})
        self.assertEqual(self.read(follower, {A: 120, B: 0}, {A: 100, B: 10}), [("broker-a:1", 0, 10)])

    def test_slave_behind(self) -> None:
        """A slave that is asked because its master is gone, and has less, is no loss."""
        follower = self.follower()
        self.broker.down = {MASTER}
        self.assertEqual(follower.latest({A: 120, B: 0}, None), {A: 120, B: 10})

    def test_topic_gone(self) -> None:
        """A topic that was deleted is an error, or its offsets stay."""
        follower, patient = self.follower(), self.follower(failOnDataLoss="false")
        at = follower.initial()
        self.assertEqual(patient.latest(at, None), {A: 100, B: 10})
        self.broker.queues.clear()
        self.assertIn("no registry knows", str(self.assertRaises(DataLost, follower.latest, at, None)))
        self.clock.pause(6)
        for _ in range(3):
            self.assertEqual(patient.latest(at, None), at)

    def test_broker_gone(self) -> None:
        """A broker that does not answer is an error, or its queues wait."""
        follower, patient = self.follower(), self.follower(failOnDataLoss="false")
        at = follower.initial()
        self.assertEqual(patient.latest(at, 10**9), {A: 100, B: 10})
        self.broker.down = {MASTER, SLAVE}
        self.assertRaises(CallFailed, follower.latest, at, None)
        self.assertEqual(patient.latest(at, None), at)

    # -- groups ------------------------------------------------------------------------------------------------

    def test_commit(self) -> None:
        """The group's offsets are those of what was written; where a stream begins is told as well."""
        follower = self.follower(groupId="audit")
        at = {A: 40, B: 0}
        follower.latest(at, None)
        self.assertEqual(self.broker.commits, {("audit", "T", 0): 40, ("audit", "T", 1): 0})
        follower.commit({A: 100, B: 0})
        self.assertEqual(self.broker.commits["audit", "T", 0], 100)
        sent = [one for _, one in self.broker.asked if one.code == RequestCode.UPDATE_CONSUMER_OFFSET]
        self.assertEqual(len(sent), 3)  # what has not changed is not sent again

    def test_commit_fails(self) -> None:
        """A commit that fails is made good for by one some seconds later."""
        follower = self.follower(groupId="audit")
        follower.latest({A: 0, B: 0}, None)
        self.broker.down = {MASTER, SLAVE}
        follower.commit({A: 50, B: 5})
        self.assertEqual(self.broker.commits["audit", "T", 0], 0)
        self.broker.down = set()
        follower.commit({A: 50, B: 5})
        self.assertEqual(self.broker.commits["audit", "T", 0], 0)
        self.clock.pause(11)
        follower.commit({A: 50, B: 5})
        self.assertEqual(self.broker.commits["audit", "T", 0], 50)

    def test_no_group(self) -> None:
        """Without a group nothing is committed."""
        follower = self.follower()
        follower.latest({A: 0, B: 0}, None)
        follower.commit({A: 50, B: 5})
        self.assertEqual(self.broker.commits, {})
