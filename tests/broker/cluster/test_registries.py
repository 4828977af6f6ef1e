"""A broker and its registries, in memory: which know what, and how soon (reliability H7, F18)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.admin import Admin
from smartgo.client.client import Client
from smartgo.config.loading import Surroundings, load
from smartgo.node.registryserver import Registry
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.server import RemotingServer
from smartgo.schema.bodies import TopicRouteData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import PutKVConfigRequest, RouteInfoRequest
from tests.broker.fakecluster import BROKER, REGISTRY, SMALL, Cluster
from tests.client.doubles import Node
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of

OTHER = "127.0.0.1:9877"


class RegistriesCase(SynchronousTestCase):
    """A broker with two registries, of which a test makes the second."""

    def start(self, env: FakeEnvironment | None = None, **settings: str) -> None:
        """Start the first registry and the broker."""
        self.cluster = Cluster(env, **{"namesrvAddr": f"{REGISTRY};{OTHER}", **settings})
        self.addCleanup(self.cluster.stop)

    def second(self, port: int = 9877) -> Registry:
        """Start the second registry, empty."""
        flags = {**SMALL, "registry.listenPort": str(port), "kvConfigPath": f"/kv{port}.json"}
        registry = Registry(
            self.cluster.env,
            load(Surroundings("testhost", "/home/test", lambda _: None), flags=flags),
            sweeper_of(self.cluster.env.clock),
        )
        registry.startService()
        self.cluster.pump()
        self.addCleanup(self.end, registry)
        return registry

    def end(self, service: Any) -> None:
        """Stop it."""
        if service.running:
            service.stopService()
            self.cluster.pump(7.0)

    def until(self, true: Any, limit: float) -> float:
        """Let time pass until something is so; return how long that took, in seconds."""
        for tenths in range(round(limit * 10)):
            if true():
                return tenths / 10
            self.cluster.pump(0.1)
        raise AssertionError(f"not within {limit} s")

    def route(self, topic: str = "TBW102", address: str = REGISTRY) -> TopicRouteData:
        """The route of a topic as a registry tells it."""
        command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        return TopicRouteData.decode(self.cluster.ask(command, address).body)


def broken(request: Command) -> Any:
    """Answer with nonsense."""
    return request.answer(body=b"<html>", fields={"masterAddr": "", "haServerAddr": "x"})


def refusing(request: Command) -> Any:
    """Refuse everything."""
    return request.answer(1, "out of memory")


def silent(request: Command) -> Any:
    """Never answer."""
    return Deferred()


class TroubleTests(RegistriesCase):
    def whole(self, registry: Registry) -> bool:
        """Tell whether a registry has all topics of the broker."""
        return {"TBW102", "T"} <= set(registry.routes.topics())

    def test_down_at_start(self) -> None:
        """A registry that is down at the start delays nothing, and is whole within 10 s of its coming."""
        self.start()
        self.cluster.send("T")
        self.cluster.pump()
        self.assertTrue(self.whole(self.cluster.registry))
        self.cluster.pump(60.0, step=1.0)
        registry = self.second()
        self.until(lambda: self.whole(registry), 10.0)

    def test_begins_anew(self) -> None:
        """A registry that is started again, empty, is whole as soon as it was away for, 10 s at most, and not 30."""
        self.start()
        self.cluster.send("T")
        for away, limit in ((0.2, 1.1), (1.0, 2.1), (5.0, 8.1), (60.0, 10.1)):
            registry = self.second()
            self.until(lambda: self.whole(registry), 10.1)  # noqa: B023  called at once
            registry.stopService()
            self.cluster.pump(away)
            registry = self.second()
            self.until(lambda: self.whole(registry), limit)  # noqa: B023  called at once
            self.end(registry)

    def test_wrong(self) -> None:
        """A registry that answers nonsense, refuses, or is silent keeps the broker from nothing with the other one."""
        for trouble, seconds in ((broken, 0.0), (refusing, 0.0), (silent, 6.1)):
            env = FakeEnvironment()
            node = Node()
            node.does = {int(code): trouble for code in RequestCode}
            server = RemotingServer(env, "tcp:9877:interface=127.0.0.1", Dispatcher([node]), sweeper_of(env.clock))
            server.startService()
            server.open()
            self.start(env)
            taken = self.until(lambda: self.cluster.broker.store.refusal is None, 6.2)
            self.assertLessEqual(taken, seconds, trouble.__name__)
            self.assertIn("TBW102", self.cluster.registry.routes.topics())
            self.cluster.send("T")
            self.cluster.pump()
            self.assertTrue(self.whole(self.cluster.registry), trouble.__name__)
            self.cluster.pump(150.0, step=1.0)
            (seen,) = self.cluster.registry.routes.brokers()
            self.assertLessEqual(seen.age, 31.0)
            self.assertEqual(self.cluster.send("T").code, 0)
            server.stopService()
            self.cluster.pump(7.0)

    def test_all_down(self) -> None:
        """A broker works without any registry, from its start on."""
        self.start(namesrvAddr="127.0.0.1:1;127.0.0.1:2")
        self.assertEqual(self.cluster.send("TBW102").code, 0)
        self.cluster.pump(300.0, step=1.0)
        self.assertEqual(self.cluster.send("TBW102").code, 0)


class OrderTests(RegistriesCase):
    def test_order(self) -> None:
        """An order of queues is part of the route where that is on; the broker marks the topic at its next round."""
        self.start(orderMessageEnable="true")
        self.cluster.send("T")
        self.cluster.pump()
        self.assertIsNone(self.route("T").order_topic_conf)
        header = PutKVConfigRequest(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:2")
        self.cluster.ask(Command.request(RequestCode.PUT_KV_CONFIG, header), REGISTRY)
        self.assertEqual(self.route("T").order_topic_conf, "broker-a:2")

        def ordered() -> bool:
            config = self.cluster.broker.topics.get("T")
            return config is not None and config.order

        self.assertFalse(ordered())
        self.until(ordered, 30.1)


class AdvertisedTests(RegistriesCase):
    def test_told(self) -> None:
        """Clients are told the address that is advertised for where they ask from; message ids keep brokerIP1."""
        self.start(advertisedAddresses="127.0.0.0/8=localhost:10911; 10.0.0.0/8=10.0.0.5:10911")
        self.assertEqual(self.route().broker_datas[0].broker_addrs, {0: "localhost:10911"})
        (seen,) = self.cluster.registry.routes.brokers()
        self.assertEqual(seen.address, BROKER)
        offset_id = self.cluster.send("T").fields["msgId"]
        self.assertTrue(offset_id.startswith("7F000001"), offset_id)
        client = Client(self.cluster.env, REGISTRY, instance="asker")
        self.addCleanup(client.stop)
        found: list[Any] = []
        Admin(client).messages.by_id(offset_id).addBoth(found.append)
        self.cluster.pump(2.0)
        self.assertEqual(found[0].body, b"body")

    def test_unregistered(self) -> None:
        """A broker that stops is gone at once whatever it advertised."""
        self.start(advertisedAddresses="@127.0.0.1=localhost:10911")
        self.assertEqual(self.route().broker_datas[0].broker_addrs, {0: "localhost:10911"})
        self.cluster.service.stopService()
        self.cluster.pump(1.0)
        self.assertEqual(self.cluster.registry.routes.brokers(), [])
