"""Tests of L{smartgo.registry.routes}."""

from __future__ import annotations

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import BadName
from smartgo.registry.interfaces import IRoutes
from smartgo.registry.livebrokers import MASTER_WAIT
from smartgo.registry.registration import NameTaken, Registration, TableFull
from smartgo.registry.routes import EXPIRY, RouteTable
from smartgo.schema.advertised import ConnectionEnds
from smartgo.schema.bodies import DataVersion, QueueData, TopicConfig

A1, A2, A3 = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
HA1, HA2 = "10.0.0.1:10912", "10.0.0.2:10912"
ASKER = ConnectionEnds("10.0.0.2", "10.0.0.9", 9876)


def topic(name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> TopicConfig:
    """A topic as a broker registers it."""
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


def topics(*names: str) -> dict[str, TopicConfig]:
    """Several of them."""
    return {name: topic(name) for name in names}


class RouteTests(SynchronousTestCase):
    """A table on a clock that is advanced by hand."""

    def setUp(self) -> None:
        """An empty table."""
        self.clock = Clock()
        self.table = RouteTable(self.clock.seconds)
        self.counter = 0

    def tearDown(self) -> None:
        """Whatever was done, the tables agree with each other."""
        check(self.table)

    def register(
        self,
        address: str = A1,
        name: str = "a",
        broker_id: int = 0,
        cluster: str = "C",
        table: dict[str, TopicConfig] | None = None,
        counter: int | None = None,
        channel: object = None,
        ha: str = HA1,
    ) -> str | None:
        """Register, with a changed version unless one is given."""
        self.counter += 1
        version = DataVersion(counter=self.counter if counter is None else counter, timestamp=1)
        one = Registration(cluster, name, broker_id, address, ha, version, topics("T") if table is None else table)
        return self.table.register(one, channel or address)

    def queues(self, name: str) -> dict[str, QueueData]:
        """A topic's queues by broker name."""
        route = self.table.route(name)
        return {} if route is None else {one.broker_name: one for one in route.queue_datas}

    def addresses(self, name: str = "T") -> dict[str, dict[int, str]]:
        """A topic's brokers: name to id to address."""
        route = self.table.route(name)
        return {} if route is None else {one.broker_name: one.broker_addrs for one in route.broker_datas}


def check(table: RouteTable) -> None:
    """Hold that the tables keep the promises of the module's docstring."""
    addresses = {address for broker in table._brokers.values() for address in broker.addresses.values()}
    assert addresses == set(table._live)
    assert sum(len(broker.addresses) for broker in table._brokers.values()) == len(addresses)
    for address, live in table._live.items():
        broker = table._brokers[live.name]
        assert broker.addresses[live.broker_id] == live.address == address
        assert broker.cluster == live.cluster
        assert address in table._addresses_of[id(live.channel)]
    assert sum(map(len, table._addresses_of.values())) == len(table._live)
    members = [(name, cluster) for cluster, names in table._clusters.items() for name in names]
    assert sorted(members) == sorted((name, broker.cluster) for name, broker in table._brokers.items())
    assert all(table._clusters.values())
    pairs = {(topic, name) for topic, queues in table._queues._queues.items() for name in queues}
    assert pairs == {(topic, name) for name, mine in table._queues._topics_of.items() for topic in mine}
    assert all(table._queues._queues.values())
    assert {name for _, name in pairs} <= set(table._brokers)
    assert set(table._queues._topics_of) <= set(table._brokers)


class RegisterTests(RouteTests):
    """Registrations (docs/spec/registry#registration)."""

    def test_interface(self) -> None:
        """The table shows itself to others by its interface."""
        verifyObject(IRoutes, self.table)

    def test_route(self) -> None:
        """A registered topic has a route: its queues, and the broker's addresses."""
        self.register(table={"T": topic("T", 8, 4, 1)})
        route = self.table.route("T")
        assert route is not None
        [queue] = route.queue_datas
        self.assertEqual((queue.broker_name, queue.read_queue_nums, queue.write_queue_nums), ("a", 8, 8))
        self.assertEqual((queue.perm, queue.topic_sys_flag), (4, 1))
        [broker] = route.broker_datas
        self.assertEqual((broker.cluster, broker.broker_name, broker.broker_addrs), ("C", "a", {0: A1}))
        self.assertEqual(route.filter_server_table, {})
        self.assertIsNone(route.order_topic_conf)
        self.assertIsNone(self.table.route("U"))

    def test_two_brokers(self) -> None:
        """A topic of several brokers has them all, in the order of their names."""
        self.register(A2, "b")
        self.register(A1, "a")
        self.assertEqual(self.addresses(), {"a": {0: A1}, "b": {0: A2}})
        route = self.table.route("T")
        assert route is not None
        self.assertEqual([one.broker_name for one in route.queue_datas], ["a", "b"])

    def test_unchanged_version(self) -> None:
        """A registration of the same version leaves the topics as they are, whatever it says."""
        self.register(counter=7)
        self.register(counter=7, table=topics("T", "U"))
        self.assertEqual(self.table.topics(), ["T"])
        self.register(counter=8, table=topics("T", "U"))
        self.assertEqual(self.table.topics(), ["T", "U"])

    def test_version_by_all_members(self) -> None:
        """A version with another timestamp is another version."""
        self.register(counter=7)
        version = DataVersion(counter=7, timestamp=2)
        self.table.register(Registration("C", "a", 0, A1, HA1, version, topics("U")), A1)
        self.assertEqual(self.table.topics(), ["T", "U"])

    def test_topics_stay(self) -> None:
        """A topic that a later registration lacks is not removed."""
        self.register(table=topics("T", "U"))
        self.register(table=topics("U"))
        self.assertEqual(self.table.topics(), ["T", "U"])

    def test_changed_topic(self) -> None:
        """A changed topic replaces the old one, a single one too (increment)."""
        self.register(table=topics("T", "U"))
        self.register(table={"T": topic("T", 2)})
        self.assertEqual(self.queues("T")["a"].read_queue_nums, 2)
        self.assertEqual(self.queues("U")["a"].read_queue_nums, 4)

    def test_slave(self) -> None:
        """A slave brings no topics beside its master; it is told its master, and appears in routes under its id."""
        self.assertIsNone(self.register())
        self.assertEqual(self.register(A2, broker_id=1, ha=HA2, table=topics("X")), A1)
        self.assertEqual(self.table.told_ha(A1, ASKER), HA1)
        self.assertEqual(self.table.topics(), ["T"])
        self.assertEqual(self.addresses(), {"a": {0: A1, 1: A2}})

    def test_slave_first(self) -> None:
        """A slave without a master is told nothing, and gives no route before a master had the time to register."""
        self.assertIsNone(self.register(A2, broker_id=1))
        self.assertEqual(self.table.topics(), [])
        self.assertIsNone(self.table.route("T"))

    def wait(self, seconds: float = MASTER_WAIT) -> None:
        """Let time pass in which no master registers."""
        self.clock.advance(seconds)

    def test_slave_stands_in(self) -> None:
        """A slave's topics can be read when no master has registered for long enough, whatever the slave's version."""
        self.register(A2, broker_id=1, counter=5, table={"T": topic("T", perm=7)})
        self.wait(MASTER_WAIT - 1)
        self.register(A2, broker_id=1, counter=5, table={"T": topic("T", perm=7)})
        self.assertEqual(self.table.topics(), [])
        self.wait(1)
        self.assertTrue(self.table.lacks(A2))
        self.register(A2, broker_id=1, counter=5, table={"T": topic("T", perm=7)})
        self.assertEqual((self.queues("T")["a"].perm, self.addresses()), (5, {"a": {1: A2}}))
        self.assertFalse(self.table.lacks(A2))

    def test_stand_in_unread(self) -> None:
        """A repetition whose topics were not read brings none, and the next one is read."""
        self.register(A2, broker_id=1, counter=5)
        self.wait()
        self.register(A2, broker_id=1, counter=5, table={})
        self.assertEqual((self.table.topics(), self.table.lacks(A2)), ([], True))

    def test_stand_in_newer(self) -> None:
        """Of several slaves the newest topics count; older ones change nothing and are not asked for again."""
        self.register(A2, broker_id=1, counter=5)
        self.register(A3, broker_id=2, counter=4, table=topics("T", "OLD"))
        self.wait()
        self.register(A2, broker_id=1, counter=5)
        self.register(A3, broker_id=2, counter=4, table=topics("T", "OLD"))
        self.assertEqual((self.table.topics(), self.table.lacks(A3)), (["T"], False))
        self.register(A3, broker_id=2, counter=6, table=topics("T", "NEW"))
        self.assertEqual(self.table.topics(), ["T", "NEW"])
        self.register(A2, broker_id=1, counter=5)
        self.assertEqual(self.table.topics(), ["T", "NEW"])

    def test_stand_in_replaced(self) -> None:
        """A master's topics replace those that a slave stood in with, even where the versions are the same."""
        self.register(A2, broker_id=1, counter=5, table=topics("T", "GONE"))
        self.wait()
        self.register(A2, broker_id=1, counter=5, table=topics("T", "GONE"))
        self.register(A1, counter=5)
        self.assertEqual((self.table.topics(), self.queues("T")["a"].perm), (["T"], 6))

    def test_masters_topics_count(self) -> None:
        """A slave does not change what a master registered, also long after that one has left."""
        self.register(A1)
        self.register(A2, broker_id=1, table=topics("X"))
        self.table.unregister(A1, "a", 0)
        self.wait()
        self.assertFalse(self.table.lacks(A2))
        self.register(A2, broker_id=1, table=topics("X"))
        self.assertEqual((self.table.topics(), self.queues("T")["a"].perm), (["T"], 6))

    def test_promoted_stand_in(self) -> None:
        """A slave that stood in and becomes the master lets its topics be written to."""
        self.register(A2, broker_id=1, counter=5)
        self.wait()
        self.register(A2, broker_id=1, counter=5)
        self.register(A2, counter=5)
        self.assertEqual(self.queues("T")["a"].perm, 6)

    def test_stand_in_leaves(self) -> None:
        """The last slave takes the topics along, and the next one has to wait anew."""
        self.register(A2, broker_id=1)
        self.wait()
        self.register(A2, broker_id=1)
        self.table.unregister(A2, "a", 1)
        self.assertEqual(self.table.topics(), [])
        self.register(A2, broker_id=1)
        self.assertEqual(self.table.topics(), [])

    def test_stand_in_full(self) -> None:
        """Where there is no room for the topics of a slave, the slave stays registered without them."""
        self.table = RouteTable(self.clock.seconds, max_topics=3)
        self.register(A2, broker_id=1, table=topics("T", "U"))
        self.wait()
        self.register(A2, broker_id=1, table=topics("T", "U"))
        self.assertEqual((self.table.topics(), len(self.table.brokers())), ([], 1))
        self.register(A2, broker_id=1, table=topics("T"))
        self.assertEqual(self.table.topics(), ["T"])

    def test_ids_in_order(self) -> None:
        """Ids are listed in their order, whoever came first."""
        self.register(A3, broker_id=2)
        self.register(A2, broker_id=1)
        self.register(A1)
        route = self.table.route("T")
        assert route is not None
        self.assertEqual(list(route.broker_datas[0].broker_addrs), [0, 1, 2])

    def test_promoted(self) -> None:
        """A slave that comes back as master of the same address has only its new id, and topics stay."""
        self.register(A1)
        self.register(A2, broker_id=1)
        self.table.unregister(A1, "a", 0)
        self.assertEqual(self.addresses(), {"a": {1: A2}})
        self.register(A2, table=topics("U"))
        self.assertEqual(self.addresses(), {"a": {0: A2}})
        self.assertEqual(self.table.topics(), ["T", "U"])

    def test_promoted_same_version(self) -> None:
        """A promoted slave's topics are taken although its version is the one it had as a slave."""
        self.register(A2, broker_id=1, counter=5)
        self.register(A2, counter=5)
        self.assertEqual(self.addresses(), {"a": {0: A2}})

    def test_slave_moved(self) -> None:
        """A slave that comes back with another address replaces the old one."""
        self.register(A1)
        self.register(A2, broker_id=1)
        self.register(A3, broker_id=1)
        self.assertEqual(self.addresses(), {"a": {0: A1, 1: A3}})
        self.assertIsNone(self.table.version(A2))

    def test_clusters(self) -> None:
        """Clusters list their brokers."""
        self.register(A1, "a", cluster="C")
        self.register(A2, "b", cluster="C")
        self.register(A3, "c", cluster="D")
        info = self.table.cluster_info()
        self.assertEqual(info.cluster_addr_table, {"C": ["a", "b"], "D": ["c"]})
        self.assertEqual(info.broker_addr_table["b"].broker_addrs, {0: A2})

    def test_bad_names(self) -> None:
        """A registration without proper names and addresses is refused."""
        for cluster, name, address in (
            ("", "a", A1),
            ("C", "", A1),
            ("C", "a b", A1),
            ("C", "a\n", A1),
            ("C\0", "a", A1),
            ("C", "a" * 256, A1),
            ("C", "a", ""),
            ("C", "a", "host"),
            ("C", "a", "h:"),
            ("C", "a", "a:1;b:2"),
        ):
            self.assertRaises(BadName, self.register, address, name, 0, cluster)
        self.assertRaises(BadName, self.register, A1, "a", -1)
        self.assertRaises(BadName, self.register, ha="nowhere")
        self.assertEqual(self.table.cluster_info().cluster_addr_table, {})

    def test_odd_topics(self) -> None:
        """Topics whose names no client could send are left out; those of host names and long groups are kept."""
        good = ["broker.example.org", "%RETRY%" + "g" * 255]
        self.register(table=topics(*good, "", "a b", "a\x01", "x" * 513))
        self.assertEqual(self.table.topics(), good)

    def test_no_ha_address(self) -> None:
        """A broker need not have an HA address."""
        self.register(ha="")
        self.assertEqual((self.register(A2, broker_id=1), self.table.told_ha(A1, ASKER)), (A1, ""))


class RivalTests(RouteTests):
    """One master for a name, one name for an address (reliability H6)."""

    def test_second_master(self) -> None:
        """A second master of a name is refused with code 1 and the first's address, and changes nothing."""
        self.register(A1)
        self.clock.advance(30)
        error = self.assertRaises(NameTaken, self.register, A2, table=topics("X"))
        self.assertEqual(error.code, 1)
        self.assertEqual(
            str(error),
            f"{A1} is the master of broker a, heard from 30 s ago; "
            "it keeps the name until it stops or is silent for 120 s",
        )
        self.assertEqual((self.addresses(), self.table.topics()), ({"a": {0: A1}}, ["T"]))

    def test_second_after_silence(self) -> None:
        """After 120 s of silence the second may have it, whether or not the first was searched for."""
        self.register(A1)
        self.clock.advance(EXPIRY)
        self.assertRaises(NameTaken, self.register, A2)
        self.clock.advance(0.5)
        self.register(A2)
        self.assertEqual(self.addresses(), {"a": {0: A2}})
        self.assertEqual(self.table.expire(), [])

    def test_second_after_the_end(self) -> None:
        """When the first has said farewell the second may have it; when its connection has ended, 10 s later."""
        self.register(A1)
        self.table.unregister(A1, "a", 0)
        self.register(A2)
        self.table.channel_gone(A2)
        self.clock.advance(9.9)
        error = self.assertRaises(NameTaken, self.register, A3)
        self.assertEqual((error.holder, self.addresses()), (A2, {}))
        self.register(A3, broker_id=1)
        self.clock.advance(0.1)
        self.register(A1)
        self.assertEqual(self.addresses(), {"a": {0: A1, 1: A3}})

    def test_first_comes_back(self) -> None:
        """The first may come back within that time, and keeps the name then."""
        self.register(A1)
        for _ in range(3):
            self.table.channel_gone(A1)
            self.clock.advance(5)
            self.assertRaises(NameTaken, self.register, A2)
            self.register(A1)
        self.table.channel_gone(A1)
        self.clock.advance(EXPIRY + 1)
        self.table.expire()
        self.assertEqual(len(self.table._absent), 0)

    def test_heartbeats_hold(self) -> None:
        """Registrations and version queries keep the first alive."""
        self.register(A1, counter=1)
        self.clock.advance(100)
        self.register(A1, counter=1)
        self.clock.advance(100)
        self.table.heard(A1)
        self.clock.advance(100)
        self.assertRaises(NameTaken, self.register, A2)
        self.assertEqual(self.table.expire(), [])

    def test_promotion_waits(self) -> None:
        """A slave cannot become master beside a living one, and stays a slave."""
        self.register(A1)
        self.register(A2, broker_id=1)
        self.assertRaises(NameTaken, self.register, A2)
        self.assertEqual(self.addresses(), {"a": {0: A1, 1: A2}})

    def test_other_cluster(self) -> None:
        """A name that is alive in one cluster is refused to another; once it is silent it moves."""
        self.register(A1, cluster="C")
        for broker_id in (0, 1):
            self.assertRaises(NameTaken, self.register, A2, broker_id=broker_id, cluster="D")
        self.clock.advance(EXPIRY + 1)
        self.register(A2, cluster="D")
        self.assertEqual(self.table.cluster_info().cluster_addr_table, {"D": ["a"]})

    def test_own_cluster_changes(self) -> None:
        """A broker alone of its name may change its cluster."""
        self.register(A1, cluster="C")
        self.register(A1, cluster="D")
        self.assertEqual(self.table.cluster_info().cluster_addr_table, {"D": ["a"]})

    def test_address_taken(self) -> None:
        """An address that a living broker has, over another connection, is refused to another name."""
        self.register(A1, "a", channel="first")
        error = self.assertRaises(NameTaken, self.register, A1, "b", channel="second")
        self.assertEqual(str(error), f"{A1} is registered by broker a, heard from 0 s ago")
        self.table.channel_gone("first")
        self.register(A1, "b", channel="second")
        self.assertEqual(self.addresses(), {"b": {0: A1}})

    def test_renamed(self) -> None:
        """A process that registers under another name leaves the old one."""
        self.register(A1, "a", table=topics("T", "U"))
        self.register(A1, "b", table=topics("U"))
        self.assertEqual((self.table.topics(), self.addresses("U")), (["U"], {"b": {0: A1}}))


class LeaveTests(RouteTests):
    """Farewells, ends of connections, silence (docs/spec/registry#expiry)."""

    def test_unregister(self) -> None:
        """The last address of a name takes name, cluster and topics with it."""
        self.register(A1, "a", table=topics("T", "U"))
        self.register(A2, "b", table=topics("U"), cluster="D")
        self.assertTrue(self.table.unregister(A1, "a", 0))
        self.assertEqual((self.table.topics(), self.addresses("U")), (["U"], {"b": {0: A2}}))
        self.assertEqual(self.table.cluster_info().cluster_addr_table, {"D": ["b"]})

    def test_master_leaves_slave(self) -> None:
        """While a slave is left, name and topics stay, and the route shows the slave alone."""
        self.register(A1)
        self.register(A2, broker_id=1)
        self.table.unregister(A1, "a", 0)
        self.assertEqual(self.addresses(), {"a": {1: A2}})
        self.table.unregister(A2, "a", 1)
        self.assertEqual(self.table.topics(), [])

    def test_strangers_farewell(self) -> None:
        """Only the process that is registered can be unregistered: a refused rival takes nothing with it."""
        self.register(A1)
        for address, name, broker_id in ((A2, "a", 0), (A1, "b", 0), (A1, "a", 1)):
            self.assertFalse(self.table.unregister(address, name, broker_id))
        self.assertEqual(self.addresses(), {"a": {0: A1}})

    def test_channel_gone(self) -> None:
        """The end of a connection removes what was registered over it, at once."""
        self.register(A1, channel="one")
        [gone] = self.table.channel_gone("one")
        self.assertEqual((gone.name, gone.address, gone.broker_id, gone.cluster), ("a", A1, 0, "C"))
        self.assertEqual(self.table.topics(), [])
        self.assertEqual(self.table.channel_gone("one"), [])

    def test_reconnected(self) -> None:
        """A broker that registered over a new connection outlives the old one."""
        self.register(A1, channel="old")
        self.register(A1, channel="new")
        self.assertEqual(self.table.channel_gone("old"), [])
        self.assertEqual(self.addresses(), {"a": {0: A1}})
        self.assertEqual(len(self.table.channel_gone("new")), 1)

    def test_several_over_one(self) -> None:
        """All that was registered over one connection goes with it."""
        self.register(A1, "a", channel="one")
        self.register(A2, "b", channel="one")
        self.register(A3, "c", channel="two")
        self.assertEqual([gone.name for gone in self.table.channel_gone("one")], ["a", "b"])
        self.assertEqual(self.addresses(), {"c": {0: A3}})

    def test_equal_channels(self) -> None:
        """Connections are told apart by identity, not equality."""
        one, two = [1], [1]
        self.register(A1, channel=one)
        self.assertEqual(self.table.channel_gone(two), [])
        self.assertEqual(len(self.table.brokers()), 1)

    def test_expire(self) -> None:
        """Who was silent for more than 120 s is removed, and returned with the connection to close."""
        self.register(A1, "a", channel="one")
        self.clock.advance(60)
        self.register(A2, "b", channel="two")
        self.clock.advance(60)
        self.assertEqual(self.table.expire(), [])
        self.clock.advance(1)
        [(gone, channel)] = self.table.expire()
        self.assertEqual((gone.name, gone.age, channel), ("a", 121.0, "one"))
        self.assertEqual(self.addresses(), {"b": {0: A2}})

    def test_ages(self) -> None:
        """Every broker tells when it was last heard from."""
        self.register(A1)
        self.clock.advance(10)
        self.register(A2, broker_id=1)
        self.assertEqual([(one.address, one.age) for one in self.table.brokers()], [(A1, 10.0), (A2, 0.0)])


class AdministrationTests(RouteTests):
    """What tools do to the tables (docs/spec/registry#requests)."""

    def test_wipe(self) -> None:
        """Wiping takes the write bit from every topic of that broker alone, and counts them."""
        self.register(A1, "a", table={"T": topic("T"), "TBW102": topic("TBW102", perm=7), "R": topic("R", perm=4)})
        self.register(A2, "b")
        self.assertEqual(self.table.wipe_write("a"), 3)
        self.assertEqual([self.queues(name)["a"].perm for name in ("T", "TBW102", "R")], [4, 5, 4])
        self.assertEqual(self.queues("T")["b"].perm, 6)
        self.assertEqual(self.table.wipe_write("nobody"), 0)

    def test_add(self) -> None:
        """Giving it back sets read and write, and takes the inherit bit of TBW102."""
        self.register(table={"T": topic("T", perm=4), "TBW102": topic("TBW102", perm=7)})
        self.assertEqual(self.table.add_write("a"), 2)
        self.assertEqual([self.queues(name)["a"].perm for name in ("T", "TBW102")], [6, 6])

    def test_own_copy(self) -> None:
        """Only the registry's copy changes, and no answer that was already made."""
        config = topic("T")
        self.register(table={"T": config})
        before = self.queues("T")["a"]
        self.table.wipe_write("a")
        self.assertEqual((config.perm, before.perm), (6, 6))

    def test_until_changed(self) -> None:
        """A wipe lasts until the broker registers with a changed version."""
        self.register(counter=1)
        self.table.wipe_write("a")
        self.register(counter=1)
        self.assertEqual(self.queues("T")["a"].perm, 4)
        self.register(counter=2)
        self.assertEqual(self.queues("T")["a"].perm, 6)

    def test_delete_topic(self) -> None:
        """A topic can be removed everywhere, or in one cluster; an unknown one without harm."""
        self.register(A1, "a", cluster="C", table=topics("T", "U"))
        self.register(A2, "b", cluster="D", table=topics("T"))
        self.table.delete_topic("T", "D")
        self.assertEqual(self.addresses(), {"a": {0: A1}})
        self.table.delete_topic("T", "nowhere")
        self.assertEqual(self.addresses(), {"a": {0: A1}})
        self.table.delete_topic("T")
        self.table.delete_topic("T")
        self.assertEqual(self.table.topics(), ["U"])

    def test_deleted_stays_away(self) -> None:
        """A removed topic comes back with a changed version only."""
        self.register(counter=1)
        self.table.delete_topic("T")
        self.register(counter=1)
        self.assertEqual(self.table.topics(), [])
        self.register(counter=2)
        self.assertEqual(self.table.topics(), ["T"])

    def test_topics_of_cluster(self) -> None:
        """A cluster's topics are those of its brokers, each once."""
        self.register(A1, "a", cluster="C", table=topics("T", "U"))
        self.register(A2, "b", cluster="C", table=topics("U", "V"))
        self.register(A3, "c", cluster="D", table=topics("W"))
        self.assertEqual(self.table.topics_of_cluster("C"), ["T", "U", "V"])
        self.assertEqual(self.table.topics_of_cluster("nowhere"), [])

    def test_system_topics(self) -> None:
        """Names of clusters and brokers are system topics; any broker's address goes along."""
        self.assertEqual(self.table.system_topics(), ([], None))
        self.register(A1, "a", cluster="C")
        self.register(A2, "b", cluster="C")
        names, address = self.table.system_topics()
        self.assertEqual(sorted(names), ["C", "a", "b"])
        self.assertIn(address, (A1, A2))

    def test_unit_topics(self) -> None:
        """Topics are found by the unit bits of their sys flag."""
        self.register(table={name: topic(name, flag=flag) for name, flag in (("N", 0), ("U", 1), ("S", 2), ("B", 3))})
        self.assertEqual(sorted(self.table.unit_topics(True, None)), ["B", "U"])
        self.assertEqual(sorted(self.table.unit_topics(None, True)), ["B", "S"])
        self.assertEqual(self.table.unit_topics(False, True), ["S"])


class BoundTests(RouteTests):
    """The registry's memory is bounded."""

    def setUp(self) -> None:
        """Room for six topics and two brokers."""
        super().setUp()
        self.table = RouteTable(self.clock.seconds, max_topics=6, max_brokers=2)

    def test_topics(self) -> None:
        """A registration with too many new topics is refused as a whole; those that are known need no room."""
        self.register(A1, "a", table=topics("T", "U"))
        self.assertRaises(TableFull, self.register, A2, "b", table=topics("U", "V", "W"))
        self.assertEqual([one.name for one in self.table.brokers()], ["a"])
        self.register(A2, "b", table=topics("T", "U"))
        self.assertEqual(self.table.topics(), ["T", "U"])

    def test_brokers(self) -> None:
        """One address too many is refused; those that are there go on."""
        self.register(A1, "a")
        self.register(A2, "b")
        self.assertRaises(TableFull, self.register, A3, "c")
        self.register(A1, "a")


class RandomTests(RouteTests):
    """Any sequence of events."""

    def test_promises(self) -> None:
        """Whatever happens in whatever order, the tables agree with each other and empty themselves in the end."""
        for seed in range(60):
            random = Random(seed)
            self.table = RouteTable(self.clock.seconds, max_topics=12, max_brokers=5)
            for _ in range(120):
                self.event(random)
                check(self.table)
            self.clock.advance(EXPIRY + 1)
            self.table.expire()
            check(self.table)
            self.assertEqual((self.table.topics(), self.table.brokers()), ([], []))
            self.assertEqual(self.table.cluster_info().cluster_addr_table, {})

    def event(self, random: Random) -> None:
        """One thing that can happen."""
        address = random.choice((A1, A2, A3, "d:1", "e:1", "f:1"))
        name = random.choice("abc")
        broker_id = random.choice((0, 0, 1, 2))
        channel = random.choice(("p", "q", "r", "s"))
        kind = random.randrange(10)
        if kind < 5:
            table = topics(*random.sample("TUVWXYZKLMNOP", random.randrange(5)))
            try:
                self.register(address, name, broker_id, random.choice("CD"), table, random.randrange(4), channel)
            except (NameTaken, TableFull):
                pass
        elif kind == 5:
            self.table.unregister(address, name, broker_id)
        elif kind == 6:
            self.table.channel_gone(channel)
        elif kind == 7:
            self.clock.advance(random.choice((1, 50, 121)))
            self.table.expire()
        elif kind == 8:
            self.table.delete_topic(random.choice("TUV"), random.choice((None, "C")))
        else:
            random.choice((self.table.wipe_write, self.table.add_write))(name)
