"""Whom the registry believes: registrations by connection, leases of masters, administrators by address."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.settings import RegistryConfig
from smartgo.errors import NoPermission
from smartgo.registry import brokerregistrations as registrar
from smartgo.registry.registration import AddressHeld, TableFull
from smartgo.registry.requests import TooManyChanges
from smartgo.registry.service import RegistryService
from smartgo.schema.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from smartgo.schema.command import Command
from tests.fakes import FakeEnvironment
from tests.registry.peers import FakePeer, received

NAME = "broker-a"
A1, A2, A3 = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
CONFIG = RegistryConfig(kv_config_path="/home/namesrv/kvConfig.json")


def table(*topics: str, counter: int = 1) -> RegisterBrokerBody:
    """Return the registration of a broker."""
    topic_table = {topic: TopicConfig(topic_name=topic) for topic in topics}
    return RegisterBrokerBody(TopicConfigSerializeWrapper(topic_table, DataVersion(timestamp=1, counter=counter)))


class TrustTests(SynchronousTestCase):
    """A registry that several ask."""

    config = CONFIG

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.service = self.start()
        self.broker = FakePeer("10.0.0.1:50000")
        self.stranger = FakePeer("10.0.0.66:50000")

    def start(self) -> RegistryService:
        """A registry that has just read its files."""
        service = RegistryService(self.env, self.config)
        service.load()
        return service

    def ask(self, peer: FakePeer, code: int, fields: Mapping[str, str], body: bytes = b"") -> Command:
        """The answer, at once or by a Deferred."""
        answer = self.service.processor.process(peer, received(code, fields, body))
        if isinstance(answer, Deferred):
            answer = self.successResultOf(answer)
        assert isinstance(answer, Command)
        return answer

    def refused(
        self, kind: type[Exception], peer: FakePeer, code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> str:
        """Return why a request is refused, at once or by a Deferred."""
        try:
            answer = self.service.processor.process(peer, received(code, fields, body))
        except kind as error:
            return str(error)
        assert isinstance(answer, Deferred)
        return str(self.failureResultOf(answer, kind).value)

    def fields(self, address: str, **more: str) -> dict[str, str]:
        """The header of 103 and 104."""
        return {
            "brokerName": NAME, "brokerAddr": address, "clusterName": "C", "haServerAddr": "", "brokerId": "0", **more,
        }  # fmt: skip

    def register(self, peer: FakePeer, address: str, *topics: str, counter: int = 1, **more: str) -> Command:
        """Register a master, as smartgo's brokers do unless told otherwise."""
        fields = {"smartgoLease": "", **self.fields(address, **more)}
        return self.ask(peer, 103, fields, table(*(topics or ("T",)), counter=counter).encode())

    @property
    def master(self) -> str | None:
        """The master that serves the topic."""
        route = self.service.routes.route("T")
        return None if route is None else route.broker_datas[0].broker_addrs.get(0)

    def lose(self, *peers: FakePeer) -> None:
        """Connections end, and the registry hears of it."""
        for peer in peers:
            peer.open = False
            self.service.listener.closed(peer)


class ConnectionTests(TrustTests):
    """A registration belongs to its connection."""

    def test_takeover(self) -> None:
        """Another connection can neither say farewell for a living broker nor register its name or address."""
        self.register(self.broker, A1)
        why = self.refused(NoPermission, self.stranger, 104, self.fields(A1))
        self.assertEqual(why, f"{A1} was registered over another connection")
        self.assertIn("smartgoNameTaken", self.register(self.stranger, A2, counter=2).fields)
        for more in ({}, {"smartgoAdvertised": "0.0.0.0/0=10.0.0.66:1"}):
            why = self.refused(
                AddressHeld, self.stranger, 103, self.fields(A1, **more), table("T", "U", counter=9).encode()
            )
            self.assertIn(f"registered over another connection, from {self.broker.address}, which is alive", why)
        self.assertEqual((self.master, self.service.routes.topics(), self.broker.asked), (A1, ["T"], 2))
        self.lose(self.stranger)
        self.assertEqual(self.master, A1)
        self.ask(self.broker, 104, self.fields(A1))
        self.assertEqual(self.master, None)

    def test_no_sign_of_life(self) -> None:
        """The question for a broker's version is a sign of life over its own connection alone."""
        self.register(self.broker, A1)
        self.env.clock.advance(60)
        version = DataVersion(timestamp=1, counter=1).encode()
        for peer, age in ((self.stranger, 60.0), (self.broker, 0.0)):
            self.assertEqual(self.ask(peer, 322, self.fields(A1), version).fields["changed"], "false")
            self.assertEqual(self.service.routes.brokers()[0].age, age)

    def test_half_open(self) -> None:
        """A broker that comes over a new connection, while the old one is dead without a word, is taken at once."""
        self.register(self.broker, A1)
        self.broker.alive = False
        again = FakePeer("10.0.0.1:50001")
        self.assertEqual(self.register(again, A1, "T", "U").code, 0)
        self.assertIn("no answer", self.broker.reasons[0])
        self.lose(self.broker)
        self.assertEqual(self.master, A1)
        self.ask(again, 104, self.fields(A1))
        self.assertEqual(self.master, None)

    def test_own_lease(self) -> None:
        """With its lease the broker need not wait for that."""
        lease = self.register(self.broker, A1).fields["smartgoLease"]
        again = FakePeer("10.0.0.1:50001")
        self.assertEqual(self.register(again, A1, smartgoLease=lease).code, 0)
        self.assertEqual(self.broker.asked, 0)
        self.lose(self.broker)
        self.assertEqual(self.master, A1)

    def test_gone_meanwhile(self) -> None:
        """Who has left when the other is found to be dead is not registered."""
        self.register(self.broker, A1)
        asked: Deferred[Command] = Deferred()
        self.patch(self.broker, "ask", lambda command, timeout: asked)
        again = FakePeer("10.0.0.1:50001")
        answer = self.service.processor.process(again, received(103, self.fields(A1), table("T").encode()))
        assert isinstance(answer, Deferred)
        self.assertNoResult(answer)
        why = self.refused(AddressHeld, self.stranger, 103, self.fields(A1), table("T").encode())
        self.assertIn("is being checked; try again", why)
        again.open = False
        self.lose(self.broker)
        asked.errback(_timeout())
        self.assertIsNone(self.successResultOf(answer))
        self.assertEqual(self.master, None)

    def test_slave(self) -> None:
        """A slave's id is kept for it in the same way, and given to another address when it is dead."""
        self.register(self.broker, A1)
        slave = FakePeer("10.0.0.2:50000")
        self.register(slave, A2, brokerId="1")
        self.refused(AddressHeld, self.stranger, 103, self.fields(A3, brokerId="1"), table().encode())
        slave.alive = False
        self.assertEqual(self.register(self.stranger, A3, brokerId="1").code, 0)
        data = self.service.routes.cluster_info().broker_addr_table[NAME]
        self.assertEqual(data.broker_addrs, {0: A1, 1: A3})


def _timeout() -> Exception:
    from smartgo.errors import CallTimedOut

    return CallTimedOut("request", 3.0)


class LeaseTests(TrustTests):
    """A master takes its name back."""

    def test_taken_back(self) -> None:
        """Whoever took the name of a master without connection loses it when that one comes back, and is told so."""
        lease = self.register(self.broker, A1).fields["smartgoLease"]
        self.lose(self.broker)
        self.assertIn("smartgoNameTaken", self.register(self.stranger, A2).fields)
        self.env.clock.advance(10)
        other = self.register(self.stranger, A2).fields["smartgoLease"]
        self.assertEqual(self.master, A2)
        self.env.clock.advance(20)
        again = FakePeer("10.0.0.1:50001")
        self.assertEqual(self.register(again, A1, smartgoLease=lease).code, 0)
        self.assertEqual(self.master, A1)
        self.assertEqual(self.stranger.reasons, [f"{A1} has the name {NAME}"])
        later = FakePeer("10.0.0.66:50001")
        self.assertIn("smartgoNameTaken", self.register(later, A2, smartgoLease=other).fields)
        self.assertEqual(self.master, A1)

    def test_registry_restarted(self) -> None:
        """After a restart of the registry, too: the lease is good although nobody is known."""
        lease = self.register(self.broker, A1).fields["smartgoLease"]
        self.service = self.start()
        self.env.clock.advance(1)
        self.assertEqual(self.register(self.stranger, A2).code, 0)
        self.assertEqual(self.register(FakePeer("10.0.0.1:50001"), A1, smartgoLease=lease).code, 0)
        self.assertEqual(self.master, A1)

    def test_lapsed(self) -> None:
        """Who was away for more than 120 s, or shows another one's lease, does not get the name back (H6)."""
        lease = self.register(self.broker, A1).fields["smartgoLease"]
        self.lose(self.broker)
        self.env.clock.advance(11)
        self.register(self.stranger, A2)
        forged = f"0.{lease.partition('.')[2]}"
        for shown, address in ((lease, A3), (forged, A1), (lease[:-1], A1), ("x", A1)):
            self.assertIn("smartgoNameTaken", self.register(self.broker, address, smartgoLease=shown).fields)
        self.env.clock.advance(110)
        self.register(self.stranger, A2)
        again = self.register(FakePeer("10.0.0.1:50001"), A1, smartgoLease=lease)
        self.assertEqual((again.fields["smartgoNameTaken"], self.master), (A2, A2))

    def test_moved(self) -> None:
        """A broker that was started anew with another address has its name 10 s after the old connection's end."""
        self.register(self.broker, A1)
        self.lose(self.broker)
        self.env.clock.advance(10)
        self.assertEqual(self.register(FakePeer("10.0.0.2:50000"), A2).code, 0)
        self.assertEqual(self.master, A2)

    def test_rocketmq(self) -> None:
        """A RocketMQ broker, which shows no lease, is the master again when it registers from where it was."""

        def register(peer: FakePeer, address: str) -> Command:
            return self.ask(peer, 103, self.fields(address), table("T").encode())

        self.assertNotIn("smartgoLease", register(self.broker, A1).fields)
        self.lose(self.broker)
        self.env.clock.advance(15)
        self.register(self.stranger, A2)
        self.assertIn("smartgoNameTaken", register(FakePeer("10.0.0.66:50001"), A1).fields)
        self.assertEqual(register(FakePeer("10.0.0.1:50001"), A1).code, 0)
        self.assertEqual(self.master, A1)

    def test_key_unreadable(self) -> None:
        """A file with the key that cannot be read does not keep the registry from starting."""
        self.env.files.replace("/home/namesrv/leaseKey.json", b"{}", False)
        self.env.files.replace("/home/namesrv/leaseKey.json.bak", b'{"key": "00"}', False)
        self.service = self.start()
        self.assertIn("smartgoLease", self.register(self.broker, A1).fields)


class AdministratorTests(TrustTests):
    """Changes that no broker asks for."""

    config = RegistryConfig(
        kv_config_path="/home/namesrv/kvConfig.json", admin_allow=("192.0.2.0/24",), broker_allow=("10.0.0.0/28",)
    )
    CHANGES = (
        (205, {"brokerName": NAME}), (327, {"brokerName": NAME}), (216, {"topic": "T"}),
        (100, {"namespace": "N", "key": "k", "value": "v"}), (102, {"namespace": "N", "key": "k"}),
        (218, {"namespace": "N", "key": "v"}),
    )  # fmt: skip

    def test_strangers(self) -> None:
        """Write permissions, routes and namespaced settings are not changed for anybody who reaches the port."""
        self.register(self.broker, A1)
        for code, fields in self.CHANGES:
            why = self.refused(NoPermission, self.stranger, code, fields)
            self.assertRegex(why, r"^10\.0\.0\.66 may not .* at this registry: adminAllow does not name it$")
        self.assertEqual(self.master, A1)
        self.assertEqual(self.service.routes.route("T").queue_datas[0].perm, 6)  # type: ignore[union-attr]

    def test_administrators(self) -> None:
        """They are for this machine, by whatever address it comes, and the networks of adminAllow."""
        for ip in ("127.0.0.1", "[::1]", "10.0.0.99", "192.0.2.77", "[::ffff:192.0.2.77]"):
            self.register(self.broker, A1, counter=hash(ip))
            for code, fields in self.CHANGES:
                answer = self.service.processor.process(FakePeer(f"{ip}:50000"), received(code, fields))
                if isinstance(answer, Command):
                    self.assertEqual(answer.code, 0)

    def test_pace(self) -> None:
        """An address may change namespaced settings 1000 times at once, and 100 times a second."""
        admin = FakePeer("192.0.2.1:50000")
        for _ in range(1000):
            self.ask(admin, 102, {"namespace": "N", "key": "k"})
        self.refused(TooManyChanges, admin, 102, {"namespace": "N", "key": "k"})
        self.ask(FakePeer("192.0.2.2:50000"), 102, {"namespace": "N", "key": "k"})
        self.env.clock.advance(0.02)
        for _ in range(2):
            self.ask(admin, 100, {"namespace": "N", "key": "k", "value": "v"})
        why = self.refused(TooManyChanges, admin, 100, {"namespace": "N", "key": "k", "value": "v"})
        self.assertEqual(why, "more than 100 changes a second from 192.0.2.1")

    def test_own(self) -> None:
        """A broker may take its own write permission, and a topic that it alone serves."""
        self.register(self.broker, A1, "T", "U")
        other = FakePeer("10.0.0.2:50000")
        self.register(other, A2, "U", brokerName="broker-b")
        self.assertEqual(self.ask(self.broker, 205, {"brokerName": NAME}).fields["wipeTopicCount"], "2")
        self.refused(NoPermission, self.broker, 205, {"brokerName": "broker-b"})
        self.refused(NoPermission, self.broker, 216, {"topic": "U"})
        self.ask(self.broker, 216, {"topic": "T"})
        self.assertEqual(self.service.routes.topics(), ["U"])

    def test_brokers(self) -> None:
        """Where brokerAllow says so, brokers register from its networks and from this machine alone."""
        why = self.refused(NoPermission, self.stranger, 103, self.fields(A2), table("T").encode())
        self.assertEqual(why, "10.0.0.66 may not register a broker at this registry: brokerAllow does not name it")
        for peer in (self.broker, FakePeer("127.0.0.1:50000")):
            self.register(peer, A1)
            self.lose(peer)

    def test_paths(self) -> None:
        """319 tells paths to administrators alone."""
        for peer, path in ((self.stranger, "***"), (FakePeer("192.0.2.1:1"), "/home/namesrv/kvConfig.json")):
            lines = self.ask(peer, 319, {}).body.decode().splitlines()
            self.assertIn(f"kvConfigPath={path}", lines)
            self.assertIn("listenPort=9876", lines)


class ShareTests(TrustTests):
    """No source fills the table of topics."""

    config = RegistryConfig(kv_config_path="/home/namesrv/kvConfig.json", max_route_topics=100, max_route_brokers=20)

    def flood(self, peer: FakePeer, name: str, count: int) -> None:
        """Register made-up topics."""
        fields = self.fields(f"{name}:1", brokerName=name)
        self.ask(peer, 103, fields, table(*(f"{name}{number}" for number in range(count))).encode())

    def test_address(self) -> None:
        """All names of one address may have as many topics as are left then; others find room."""
        self.flood(self.stranger, "x", 30)
        self.assertRaises(TableFull, self.flood, self.stranger, "y", 21)
        self.flood(FakePeer("10.0.0.66:50001"), "y", 20)
        self.assertRaises(TableFull, self.flood, FakePeer("10.0.0.66:50002"), "z", 1)
        self.register(self.broker, A1, *(f"T{number}" for number in range(25)))
        self.assertEqual(len(self.service.routes.topics()), 75)

    def test_brokers(self) -> None:
        """Made-up brokers of one address leave room for those of others, too."""
        with self.assertRaises(TableFull) as caught:
            for number in range(20):
                self.flood(self.stranger, f"x{number}", 0)
        self.assertEqual(
            str(caught.exception),
            "this source has 10 brokers and must leave as many of 20 (maxRouteBrokers) to others; 9 would be left",
        )
        for number in range(5):
            self.flood(FakePeer("10.0.0.67:50000"), f"y{number}", 0)
        self.flood(self.stranger, "x0", 0)
        self.register(self.broker, A1)
        self.assertEqual(self.master, A1)

    def test_loopback(self) -> None:
        """On one machine the connections are told apart."""
        self.flood(FakePeer("127.0.0.1:50000"), "x", 50)
        self.flood(FakePeer("127.0.0.1:50001"), "y", 25)
        self.assertRaises(TableFull, self.flood, FakePeer("127.0.0.1:50001"), "z", 1)
        self.register(FakePeer("127.0.0.1:50002"), A1, "T")
        self.assertEqual(self.master, A1)

    def test_shared_topics(self) -> None:
        """Topics that others have take no room."""
        for number in range(4):
            fields = self.fields(f"10.0.0.{number}:1", brokerName=f"b{number}")
            topics = table(*(f"T{one}" for one in range(50))).encode()
            self.ask(FakePeer(f"10.0.0.{number}:50000"), 103, fields, topics)
        self.assertEqual(len(self.service.routes.brokers()), 4)


class LargeTests(TrustTests):
    """Large registrations are read in a thread."""

    def setUp(self) -> None:
        super().setUp()
        self.work: list[tuple[Deferred[Any], Any]] = []

        def run(lane: str, function: Any, *args: Any) -> Deferred[Any]:
            self.assertEqual(lane, "registrations")
            done: Deferred[Any] = Deferred()
            self.work.append((done, lambda: function(*args)))
            return done

        self.patch(self.env.threads, "run", run)

    def read(self) -> None:
        """The thread does the next one."""
        done, function = self.work.pop(0)
        try:
            result = function()
        except Exception as error:
            done.errback(error)
        else:
            done.callback(result)

    def begin(self, *topics: str, counter: int = 1, compressed: bool = False) -> Deferred[Any]:
        """Send a registration that is not answered at once."""
        body = table(*topics, counter=counter).encode(compressed)
        fields = self.fields(A1, compressed=str(compressed).lower(), bodyCrc32=str(zlib.crc32(body) & 0x7FFFFFFF))
        answer = self.service.processor.process(self.broker, received(103, fields, body))
        assert isinstance(answer, Deferred)
        return answer

    LONG = tuple(f"topic-{hashlib.sha256(bytes([number % 256, number // 256])).hexdigest()}" for number in range(1000))

    def test_in_a_thread(self) -> None:
        """They are taken when they have been read; compressed ones are large sooner."""
        for compressed in (False, True):
            answer = self.begin(*self.LONG, counter=2 + compressed, compressed=compressed)
            self.assertNoResult(answer)
            self.read()
            self.assertEqual(self.successResultOf(answer).code, 0)
        self.assertEqual(len(self.service.routes.topics()), 1000)

    def test_in_order(self) -> None:
        """A small one that follows over the same connection is not taken before it."""
        first = self.begin(*self.LONG, counter=1)
        second = self.begin("T", counter=2)
        self.assertEqual(len(self.work), 1)
        self.read()
        self.assertEqual(self.successResultOf(first).code, 0)
        self.assertNoResult(second)
        self.read()
        self.assertEqual(self.successResultOf(second).code, 0)
        self.assertEqual(self.service.routes.version(A1), DataVersion(timestamp=1, counter=2))
        self.assertEqual(self.register(self.broker, A1, "T", counter=3).code, 0)
        self.assertEqual(self.work, [])

    def test_left(self) -> None:
        """A broker whose connection has ended meanwhile is not registered."""
        answer = self.begin(*self.LONG)
        self.lose(self.broker)
        self.read()
        self.assertIsNone(self.successResultOf(answer))
        self.assertEqual(self.service.routes.brokers(), [])

    def test_too_many(self) -> None:
        """Of more than 16 of one address that wait the rest is answered 2; another address finds room."""
        waiting = [self.begin(*self.LONG, counter=number) for number in range(16)]
        refused = self.failureResultOf(self.begin(*self.LONG, counter=17))
        self.assertEqual(refused.value.code, 2)
        broker, self.broker = self.broker, self.stranger
        self.assertNoResult(self.begin(*self.LONG, counter=18))
        self.lose(self.stranger)
        self.broker = broker
        while self.work:
            self.read()
        for one in waiting:
            self.assertEqual(self.successResultOf(one).code, 0)

    def test_bytes(self) -> None:
        """Of one address so many bytes are read at once and a second, and no more; others are read."""
        size = len(table(*self.LONG).encode())
        self.patch(registrar, "READ_BURST", 2.5 * size)
        self.patch(registrar, "READ_RATE", size)
        self.service = self.start()
        for number in range(2):
            answer = self.begin(*self.LONG, counter=number)
            self.read()
            self.assertEqual(self.successResultOf(answer).code, 0)
        refused = self.failureResultOf(self.begin(*self.LONG, counter=2))
        self.assertEqual((refused.value.code, self.work), (2, []))
        self.env.clock.advance(0.6)
        self.begin(*self.LONG, counter=2)
        self.read()
        self.failureResultOf(self.begin(*self.LONG, counter=3))
        self.lose(self.broker)
        self.broker = FakePeer("10.0.0.9:50000")
        self.begin(*self.LONG, counter=3)
        self.read()
