"""Administration through the client, over two brokers in memory and over one that is old."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.client.admin import Admin, lag_of
from smartgo.client.administration.asking import Asking
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.positions import Positions
from smartgo.client.administration.resetplan import Move, ResetPlan, ResetTarget
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.client.client import Client
from smartgo.errors import BadBody, BadName, CallFailed, CallTimedOut, NotConnected, PeerRefused, SettingError
from smartgo.schema.bodies import (
    BrokerData,
    ClusterInfo,
    ConnectedClient,
    ConsumerConnection,
    MessageQueue,
    QueueData,
    ResetOffsetBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicRouteData,
)
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.consumers import ResetOffsetRequest
from tests.broker.fakecluster import BROKER, REGISTRY, Cluster
from tests.remoting.doubles import sweeper_of

__doctests__ = ["smartgo.client.administration.brokers"]

T = TypeVar("T")

SECOND = "127.0.0.1:20911"


class AdminCase(SynchronousTestCase):
    """A registry, two brokers, and administration."""

    def setUp(self) -> None:
        """All of them in one environment."""
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        settings = {
            "listenPort": "20911", "brokerName": "broker-b", "storePathRootDir": "/store-b", "haListenPort": "20912",
        }  # fmt: skip
        self.second = Broker(self.cluster.env, self.cluster.configure(settings), sweeper_of(self.cluster.env.clock))
        self.second.startService()
        self.addCleanup(self.stop_second)
        self.client = Client(self.cluster.env, REGISTRY)
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(self.client.stop)
        self.missing: list[str] = []
        self.admin = Admin(self.client)
        self.lenient = Admin(self.client, lambda name, error: self.missing.append(name))
        self.cluster.pump(1.0)

    def stop_second(self) -> None:
        """Stop it."""
        self.second.stopService()
        self.cluster.pump(7.0)

    def result(self, waiting: Deferred[Any], seconds: float = 8.0) -> Any:
        """Return the answer to a question, or raise its failure."""
        found: list[Any] = []
        waiting.addBoth(found.append)
        while not found and seconds > 0:
            self.cluster.pump(0.1)
            seconds -= 0.1
        if isinstance(found[0], Failure):
            found[0].raiseException()
        return found[0]

    def failure(self, waiting: Deferred[Any], kind: type[T]) -> T:
        """Return the failure of a question."""
        try:
            self.result(waiting)
        except Exception as error:
            self.assertIsInstance(error, kind)
            return cast("T", error)
        raise AssertionError("it did not fail")


class ManyBrokerTests(AdminCase):
    def test_topics(self) -> None:
        """A topic is made at all brokers or at some, listed by each, and deleted at all."""
        topics = self.admin.topics
        self.assertEqual(self.result(topics.create("T", 2)), ["broker-a", "broker-b"])
        self.assertEqual(self.result(topics.create("U", brokers=["broker-b"])), ["broker-b"])
        self.assertEqual(set(self.result(topics.config("T"))), {"broker-a", "broker-b"})
        self.assertEqual(set(self.result(topics.config("U"))), {"broker-b"})
        self.assertEqual(len(self.result(topics.stats("T")).offset_table), 4)
        self.assertTrue({"T", "U"} < set(self.result(topics.of_cluster("DefaultCluster"))))
        self.assertEqual(self.result(topics.delete("U")), ["broker-b"])
        self.assertNotIn("U", self.result(topics.names()))
        self.failure(topics.update(TopicConfig(topic_name="bad name")), BadName)
        system = self.result(topics.system_names())
        kinds = {name: kind_of(name, system) for name in ("T", "TBW102", "broker-b", "%RETRY%g", "%DLQ%g")}
        self.assertEqual(
            list(kinds.values()),
            [TopicKind.NORMAL, TopicKind.SYSTEM, TopicKind.SYSTEM, TopicKind.RETRY, TopicKind.DEAD],
        )

    def test_serves(self) -> None:
        """The route of a topic tells whether a broker has queues of it; without a route it has none."""
        self.result(self.admin.topics.create("T", brokers=["broker-a"]))
        for broker, topic, well in (("broker-a", "T", True), ("broker-b", "T", False), ("broker-a", "U", False)):
            self.assertEqual(self.result(self.admin.topics.serves(broker, topic)), well, (broker, topic))

    def test_unknown(self) -> None:
        """A broker or a cluster that nobody knows is named, and those that there are."""
        error = self.failure(self.admin.topics.create("T", brokers=["nobody"]), CallFailed)
        self.assertIn("there is no broker nobody; there is: broker-a, broker-b", str(error))
        error = self.failure(self.admin.topics.create("T", cluster="nobody"), CallFailed)
        self.assertIn("DefaultCluster", str(error))

    def test_silent(self) -> None:
        """A question fails where one broker does not answer, unless it may go on without: then that is told."""
        self.cluster.env.network.ports.pop(20911)
        error = self.failure(self.admin.groups.configs(), NotConnected)
        self.assertIn("broker broker-b", str(error))
        self.assertEqual(set(self.result(self.lenient.groups.configs())), {"broker-a"})
        self.assertEqual(self.missing, ["broker-b"])
        self.cluster.env.network.ports.pop(10911)
        fresh = Client(self.cluster.env, REGISTRY)
        self.addCleanup(fresh.stop)
        self.failure(Admin(fresh, lambda name, error: None).groups.configs(), NotConnected)

    def test_impatient(self) -> None:
        """A broker that does not answer several questions, one after the other, is waited for once."""
        network, clock = self.cluster.env.network, self.cluster.env.clock
        network.kill(20911)
        network.listen("tcp:20911", Factory.forProtocol(Protocol))
        begun = clock.seconds()

        def ask(asking: Asking) -> tuple[set[str], int]:
            """Ask all brokers; return who answered, and after how many seconds."""
            nonlocal begun
            begun = clock.seconds()
            answered = set(self.result(Admin(self.client, asking=asking).groups.configs()))
            return answered, round(clock.seconds() - begun)

        lenient = Asking(self.client, lambda name, error: self.missing.append(f"{name}: {error}"))
        self.assertEqual([ask(lenient) for _ in range(2)], [({"broker-a"}, 5)] * 2)
        impatient = lenient.impatient()
        self.assertEqual([ask(impatient) for _ in range(3)], [({"broker-a"}, 5)] + [({"broker-a"}, 0)] * 2)
        self.assertEqual(self.missing, ["broker-b: broker broker-b: no answer within 5 s"] * 5)
        self.assertEqual(ask(lenient.impatient())[1], 5)
        strict = Asking(self.client).impatient()
        for _ in range(2):
            self.failure(Admin(self.client, asking=strict).groups.configs(), CallTimedOut)
        self.assertLess(clock.seconds() - begun, 10.5)

    def test_impatient_of_clients(self) -> None:
        """A broker that passes a question on to a client is not to blame for the client."""
        asking = Asking(self.client).impatient()
        self.cluster.env.network.kill(20911)
        self.cluster.env.network.listen("tcp:20911", Factory.forProtocol(Protocol))
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        for _ in range(2):
            begun = self.cluster.env.clock.seconds()
            self.failure(Deferred.fromCoroutine(asking.broker(SECOND, code, relayed=True)), CallTimedOut)
            self.assertEqual(round(self.cluster.env.clock.seconds() - begun), 5)

    def test_half_done(self) -> None:
        """A change that one broker did not make says which did."""
        self.cluster.env.network.ports.pop(20911)
        error = self.failure(self.admin.topics.create("T"), NotConnected)
        self.assertIn("(done at broker-a)", str(error))
        self.assertIn("broker broker-b", str(error))

    def test_groups(self) -> None:
        """Settings, members and progress of a group are put together over brokers."""
        groups = self.admin.groups
        self.result(self.admin.topics.create("T", 1))
        self.result(groups.update(SubscriptionGroupConfig(group_name="g", retry_max_times=3)))
        self.assertEqual({one.retry_max_times for one in self.result(groups.config("g")).values()}, {3})
        self.assertIsNone(self.result(groups.connections("g")))
        self.cluster.heartbeat("g", "T", client_id="c-1")
        connection = self.result(groups.connections("g"))
        assert connection is not None
        self.assertEqual([one.client_id for one in connection.connection_set], ["c-1"])
        self.cluster.send("T")
        self.cluster.pump(1.0)
        plan = self.result(self.admin.positions.plan("g", "T", ResetTarget("earliest")))
        self.assertEqual([(one.broker, one.after) for one in plan.moves], [("broker-a", 0), ("broker-b", 0)])
        self.assertEqual(lag_of(self.result(groups.progress("g"))), 0)
        self.failure(groups.running_info("g", "c-2"), PeerRefused)
        self.assertEqual(self.result(groups.delete("g")), ["broker-a", "broker-b"])

    def test_clients(self) -> None:
        """Who is connected is listed once, with all brokers that know it."""
        self.result(self.admin.topics.create("T", 1))
        self.cluster.heartbeat("g", "T", client_id="c-1")
        (member,) = self.result(self.admin.clients.all())
        self.assertEqual((member.client_id, member.role, member.brokers), ("c-1", "consumer", ("broker-a",)))
        self.assertEqual(self.result(self.admin.clients.producers_of("nobody")), [])

    def test_registries(self) -> None:
        """Values are kept and removed; what is not there is none."""
        registries = self.admin.registries
        self.assertIsNone(self.result(registries.value("N", "k")))
        self.result(registries.put("N", "k", "v"))
        self.assertEqual(self.result(registries.values("N")), {"k": "v"})
        self.result(registries.delete("N", "k"))
        self.assertEqual(self.result(registries.values("N")), {})
        self.assertIn("listenPort", self.result(registries.settings(REGISTRY)))

    def test_brokers(self) -> None:
        """Places, runtime, counters, settings, and write permission."""
        brokers = self.admin.brokers
        self.assertEqual([one.address for one in self.result(brokers.places())], [BROKER, SECOND])
        self.assertEqual(self.result(brokers.settings("broker-b"))["brokerName"], "broker-b")
        self.assertEqual(self.result(brokers.runtime(SECOND))["brokerVersionDesc"], "V4_9_8")
        self.assertIsNone(self.result(brokers.counter("broker-a", "TOPIC_PUT_NUMS", "T")))
        self.cluster.send("T")
        self.assertIsNotNone(self.result(brokers.counter("broker-a", "TOPIC_PUT_NUMS", "T")))
        self.assertEqual(set(self.result(brokers.counters("TOPIC_PUT_NUMS", "T"))), {"broker-a"})
        wiped = self.result(brokers.wipe_write("broker-b"))
        self.assertEqual(self.result(brokers.restore_write("broker-b")), wiped)

    def test_message(self) -> None:
        """A message found by its id knows its broker's name."""
        answer = self.cluster.send("T", b"x")
        found = self.result(self.admin.messages.by_id(answer.fields["msgId"]))
        self.assertEqual((found.body, found.queue.broker_name), (b"x", "broker-a"))


class PlanTests(AdminCase):
    def setUp(self) -> None:
        """A topic with ten messages in its one queue at each broker."""
        super().setUp()
        self.result(self.admin.topics.create("T", 1, brokers=["broker-a"]))
        for _ in range(10):
            self.cluster.send("T")
        self.cluster.pump(1.0)

    def plan(self, kind: Any, value: int = 0, **more: Any) -> ResetPlan:
        """A plan."""
        plan: ResetPlan = self.result(self.admin.positions.plan("g", "T", ResetTarget(kind, value), **more))
        return plan

    def test_targets(self) -> None:
        """Where a target leads lies within the bounds; nothing is changed by planning."""
        for kind, value, after in (
            ("earliest", 0, 0), ("latest", 0, 10), ("offset", 4, 4), ("offset", 99, 10), ("shift", 3, 3),
            ("shift", -5, 0), ("time", 0, 0), ("time", 1 << 50, 10),
        ):  # fmt: skip
            plan = self.plan(kind, value)
            self.assertEqual(([one.after for one in plan.moves], plan.moves[0].before), ([after], None), (kind, value))
        self.failure(self.admin.positions.plan("g", "Nowhere", ResetTarget("latest")), PeerRefused)
        self.failure(self.admin.positions.plan("g", "T", ResetTarget("latest"), [("broker-a", 7)]), SettingError)
        self.failure(self.admin.positions.plan("bad group", "T", ResetTarget("latest")), BadName)

    def test_kept(self) -> None:
        """A plan that was kept brings the group back to where it stood."""
        self.result(self.admin.positions.apply(self.plan("offset", 6)))
        plan = ResetPlan.decode(self.plan("latest").encode())
        applied = self.result(self.admin.positions.apply(plan))
        self.assertEqual((applied.written, applied.told), (("broker-a",), ()))
        self.assertEqual(self.plan("latest").moves[0].before, 10)
        self.result(self.admin.positions.apply(plan.undone()))
        self.assertEqual(self.plan("latest").moves[0].before, 6)
        self.assertRaises(BadBody, ResetPlan.decode, b"{}")
        nothing = self.result(self.admin.positions.apply(self.plan("offset", 6)))
        self.assertEqual((nothing.written, nothing.told), ((), ()))

    def test_gone(self) -> None:
        """A plan for a queue that is no more is not carried out."""
        plan = self.plan("latest")
        self.result(self.admin.topics.create("T", 1, brokers=["broker-b"]))
        self.result(self.admin.topics.delete("T"))
        self.failure(self.admin.positions.apply(plan), PeerRefused)

    def test_no_master(self) -> None:
        """Nothing is reset at a slave: its master would not hear of it. Queues of other brokers still are."""
        self.result(self.admin.topics.create("T", 1, brokers=["broker-b"]))
        plan = self.plan("offset", 6)
        known = Asking.registry

        async def only_slave(asking: Asking, code: RequestCode, header: Header | None = None) -> Command:
            answer = await known(asking, code, header)
            if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                route = TopicRouteData.decode(answer.body)
                (of_a,) = (one for one in route.broker_datas if one.broker_name == "broker-a")
                of_a.broker_addrs = {1: of_a.broker_addrs[0]}
                return Command.request(0).answer(body=route.encode())
            if code == RequestCode.GET_BROKER_CLUSTER_INFO:
                info = ClusterInfo.decode(answer.body)
                info.broker_addr_table["broker-a"].broker_addrs = {1: BROKER}
                return Command.request(0).answer(body=info.encode())
            return answer

        self.patch(Asking, "registry", only_slave)
        positions = self.admin.positions
        for asked in (
            positions.plan("g", "T", ResetTarget("earliest")),
            positions.plan_to("g", "T", {("broker-a", 0): 1}),
            positions.apply(plan),
        ):
            error = self.failure(asked, NotConnected)
            self.assertIn("broker broker-a has no master now", str(error))
        self.failure(positions.clone("g", "h"), CallFailed)
        there = self.result(positions.plan("g", "T", ResetTarget("latest"), [("broker-b", 0)]))
        self.assertEqual(self.result(positions.apply(there)).written, ("broker-b",))
        self.patch(Asking, "registry", known)
        self.assertEqual([one.before for one in self.plan("latest").moves], [None, 0])

    def test_change(self) -> None:
        """How many messages come again or are left out counts from what is still there."""
        self.assertEqual(Move("b", 0, 5, 2, 0, 10).change, -3)
        self.assertEqual(Move("b", 0, None, 7, 4, 10).change, 3)
        self.assertEqual(Move("b", 0, 1, 7, 4, 10).change, 3)

    def test_copy(self) -> None:
        """A group is moved to where another stands; all topics at once by the brokers."""
        self.result(self.admin.positions.apply(self.plan("offset", 6)))
        plan = self.result(self.admin.positions.plan_copy("g", "h", "T"))
        self.assertEqual([one.after for one in plan.moves], [6])
        self.failure(self.admin.positions.plan_copy("nobody", "h", "T"), CallFailed)
        self.result(self.admin.positions.clone("g", "h"))
        self.assertEqual(self.result(self.admin.positions.plan_copy("h", "i", "T")).moves[0].after, 6)


class OldBroker:
    """What L{Positions} asks, answered as RocketMQ 4.9 does: it knows no single queues."""

    def __init__(self) -> None:
        self.resets: list[ResetOffsetRequest] = []

    async def registry(self, code: RequestCode, header: object = None) -> Command:
        """The route."""
        route = TopicRouteData([QueueData("b", 1, 1, 6, 0)], [BrokerData("c", "b", {0: "h:1"})])
        return Command.request(0).answer(body=route.encode())

    async def broker(self, address: str, code: RequestCode, header: object = None, body: bytes = b"") -> Command:
        """The table that members were told."""
        assert isinstance(header, ResetOffsetRequest)
        if header.group != "g":
            raise PeerRefused(1, f"THe consumer group <{header.group}> not exist")
        self.resets.append(header)
        return Command.request(0).answer(body=ResetOffsetBody({MessageQueue("T", "b", 0): 5}).encode())


class Members:
    """A group with a member."""

    def connections_by_broker(self, group: str) -> Deferred[dict[str, ConsumerConnection]]:
        """One member at one broker."""
        wants = {"T": SubscriptionData(topic="T", sub_string="*")}
        return succeed({"b": ConsumerConnection([ConnectedClient(client_id="c")], wants)})


class OldBrokerTests(SynchronousTestCase):
    def apply(self, target: ResetTarget | None) -> tuple[OldBroker, Any]:
        """Apply a plan for a group with a member."""
        broker = OldBroker()
        positions = Positions(cast("Asking", broker), cast("Groups", Members()))
        plan = ResetPlan(group="g", topic="T", target=target, made_ms=0, members=1, moves=(Move("b", 0, 5, 2, 0, 10),))
        found: list[Any] = []
        positions.apply(plan).addBoth(found.append)
        return broker, found[0]

    def test_time(self) -> None:
        """A move to a time is given to the broker as that."""
        for target, timestamp in (
            (ResetTarget("time", 77), 77),
            (ResetTarget("latest"), -1),
            (ResetTarget("earliest"), 0),
        ):
            broker, applied = self.apply(target)
            self.assertEqual(applied.told, ("b",))
            self.assertEqual((broker.resets[-1].timestamp, broker.resets[-1].is_force), (timestamp, True))
            self.assertEqual(broker.resets[-1].queue_id, None)

    def test_single(self) -> None:
        """A move of single queues is refused; nothing is asked that members would hear of."""
        for target in (ResetTarget("offset", 2), None):
            broker, failure = self.apply(target)
            self.assertIn("stop them first", str(failure.trap(CallFailed) and failure.value))
            self.assertEqual(broker.resets, [])
