"""Tests of L{smartgo.spark.network.resolving}, L{smartgo.spark.network.cluster} and the plans of batch reads."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallFailed, SettingError
from smartgo.schema.codes import RequestCode
from smartgo.spark.gaps import DataLost
from smartgo.spark.network.batch import check_batch, plan_batch
from smartgo.spark.network.cluster import Cluster
from smartgo.spark.network.networkoptions import parse_network
from smartgo.spark.network.queueranges import Queue
from tests.spark.network.brokerdouble import MASTER, NOW_MS, REGISTRY, SLAVE, MemoryBroker, PausedClock


class PlanTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A broker with two topics."""
        self.broker = MemoryBroker()
        for topic, queue_id, count in (("T", 0, 100), ("T", 1, 50), ("Other", 0, 10), ("rmq_sys_X", 0, 5)):
            self.broker.add(topic, queue_id, count)
        self.clock = PausedClock()

    def plan(self, **options: str) -> dict[str, tuple[int, int]]:
        """Return what a batch read would read, by topic and queue."""
        if not {"subscribePattern", "assign"} & set(options):
            options.setdefault("subscribe", "T")
        given = parse_network({"registry": REGISTRY, **options})
        check_batch(given)
        parts = plan_batch(given, Cluster(given.access, self.broker.dial, self.clock))
        assert all(part.addresses == tuple(self.broker.addresses.values()) for part in parts)
        return {f"{part.queue.topic} {part.queue.place}": (part.begin, part.end) for part in parts}

    def refused(self, **options: str) -> str:
        """Return the sentence that a read is refused with."""
        return str(self.assertRaises(SettingError, self.plan, **options))

    def test_subscriptions(self) -> None:
        """Topics are named, matched by a pattern, or given by queues; a pattern leaves out the system's topics."""
        whole = {"T broker-a:0": (0, 100), "T broker-a:1": (0, 50)}
        other = {"Other broker-a:0": (0, 10)}
        self.assertEqual(self.plan(), whole)
        self.assertEqual(self.plan(subscribe="Other,T"), whole | other)
        self.assertEqual(self.plan(subscribePattern=".*"), whole | other)
        self.assertEqual(self.plan(subscribePattern="Oth"), {})
        self.assertEqual(self.plan(assign='{"T": ["broker-a:1"], "Other": [0]}'), other | {"T broker-a:1": (0, 50)})
        self.assertEqual(self.plan(minPartitions="4"), self.plan() | {"T broker-a:0": (66, 100)})

    def test_unknown(self) -> None:
        """A topic or a queue that is not there is refused."""
        self.assertIn("no registry knows of queues to read of topic X", self.refused(subscribe="T,X"))
        self.assertIn("option assign: topic T, queue 7", self.refused(assign='{"T": [7]}'))
        self.assertIn("topic T, queue b:0 is not", self.refused(startingOffsets='{"T": {"b:0": 1}}'))
        self.assertIn("option sql: broker broker-a refuses", self.refused(sql="wrong"))
        self.plan(sql="right")

    def test_offsets(self) -> None:
        """Offsets by queue; queues that are not named are read whole."""
        found = self.plan(startingOffsets='{"T": {"0": 30}}', endingOffsets='{"T": {"broker-a:0": 40, "1": -1}}')
        self.assertEqual(found, {"T broker-a:0": (30, 40), "T broker-a:1": (0, 50)})
        self.assertIn("latest (-1) is for streams", self.refused(startingOffsets='{"T": {"0": -1}}'))
        self.assertIn("latest (-1) is for streams", self.refused(startingOffsets="latest"))
        self.assertIn("finds nothing", self.refused(endingOffsets="earliest"))
        self.assertIn("is for streams", self.refused(maxOffsetsPerTrigger="4"))

    def test_outside(self) -> None:
        """An offset outside of its queue is loss: an error, or the nearest that is there."""
        self.broker.queues["T", 0].minimum = 20
        given = {"startingOffsets": '{"T": {"0": 10}}', "endingOffsets": '{"T": {"1": 70}}'}
        error = str(self.assertRaises(DataLost, self.plan, **given))
        self.assertIn("option startingOffsets is 10, and the queue begins at 20", error)
        self.assertEqual(
            self.plan(**given, failOnDataLoss="false"), {"T broker-a:0": (20, 100), "T broker-a:1": (0, 50)}
        )

    def test_times(self) -> None:
        """A time stands for the first message stored at or after it, exactly, though brokers answer with others."""
        found = self.plan(startingTimestamp=str(NOW_MS + 30), endingTimestamp=str(NOW_MS + 70))
        self.assertEqual(found, {"T broker-a:0": (30, 70), "T broker-a:1": (30, 50)})
        times = f'{{"T": {{"0": {NOW_MS + 45}}}}}'
        found = self.plan(startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=times.replace('"0"', '"1"'))
        self.assertEqual(found, {"T broker-a:0": (45, 100), "T broker-a:1": (0, 45)})

    def test_no_match(self) -> None:
        """A time after the last message is an error, or stands for the end."""
        given = {"startingTimestamp": str(NOW_MS + 60)}
        self.assertIn("topic T, queue broker-a:1 has no message", self.refused(**given))
        self.assertEqual(self.plan(**given, startingOffsetsByTimestampStrategy="latest"), {"T broker-a:0": (60, 100)})

    def test_slave(self) -> None:
        """Without its master a broker's slave is asked."""
        self.broker.down = {MASTER}
        self.assertEqual(self.plan()["T broker-a:0"], (0, 100))
        self.assertEqual({address for address, _ in self.broker.asked}, {REGISTRY, SLAVE})

    def test_down(self) -> None:
        """A registry or a broker that does not answer in time is an error that names it."""
        self.broker.down = {MASTER, SLAVE}
        error = self.assertRaises(CallFailed, self.plan, timeout="4")
        self.assertIn("broker broker-a: a:2 cannot be reached", str(error))
        self.broker.down = {REGISTRY}
        error = self.assertRaises(CallFailed, self.plan, timeout="4")
        self.assertIn("no registry answers: r:9876 cannot be reached", str(error))

    def test_second_registry(self) -> None:
        """The second registry is asked where the first cannot be reached, at once."""
        self.assertEqual(len(self.plan(registry=f"gone:1;{REGISTRY}")), 2)
        self.assertEqual(self.clock.now, 0)

    def test_many_queues(self) -> None:
        """However many queues there are, each is asked for its bounds once."""
        for number in range(300):
            self.broker.add("Wide", number, 1)
        self.assertEqual(len(self.plan(subscribe="Wide")), 300)
        asked = [request for _, request in self.broker.asked if request.code == RequestCode.GET_MAX_OFFSET]
        self.assertEqual(len(asked), 300)


class RouteTests(SynchronousTestCase):
    def test_order(self) -> None:
        """Queues come in the order of brokers and ids, addresses from the master to the slaves."""
        broker = MemoryBroker()
        for number in range(11):
            broker.add("T", number, 1)
        broker.addresses = {3: "a:4", 0: MASTER, 1: SLAVE}
        cluster = Cluster(parse_network({"registry": REGISTRY, "subscribe": "T"}).access, broker.dial, PausedClock())
        route = cluster.route("T")
        assert route is not None
        self.assertEqual(route.queues, tuple(Queue("T", "broker-a", number) for number in range(11)))
        self.assertEqual(cluster.addresses("broker-a"), (MASTER, SLAVE, "a:4"))
        self.assertIsNone(cluster.route("X"))
