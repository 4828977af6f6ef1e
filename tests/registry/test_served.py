"""The registry behind a remoting server, asked over connections in memory."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.settings import RegistryConfig
from smartgo.registry.service import RegistryService
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.server import RemotingServer
from smartgo.schema.bodies import RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper, TopicRouteData
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RegisterBrokerRequest, RouteInfoRequest
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of

HERE = "127.0.0.1:9876"


class ServedTests(SynchronousTestCase):
    """A broker, a client and a registry on one network."""

    def setUp(self) -> None:
        """A registry that listens, and two who may connect."""
        self.env = FakeEnvironment()
        self.registry = RegistryService(self.env, RegistryConfig(kv_config_path="/home/namesrv/kvConfig.json"))
        self.registry.startService()
        dispatcher = Dispatcher([self.registry.processor])
        self.server = RemotingServer(
            self.env, "tcp:9876:interface=127.0.0.1", dispatcher, sweeper_of(self.env.clock), self.registry.listener
        )
        self.server.startService()
        self.broker, self.client = (
            RemotingClient(self.env, sweeper_of(self.env.clock)),
            RemotingClient(self.env, sweeper_of(self.env.clock)),
        )
        self.addCleanup(self.stop)

    def stop(self) -> None:
        """Everything ends, and leaves no timer behind."""
        for ending in (self.broker.stop(), self.client.stop(), self.server.stopService(), self.registry.stopService()):
            self.settled(ending)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def settled(self, waiting: Deferred[None]) -> None:
        """Move bytes and time until something has happened."""
        for _ in range(20):
            if waiting.called:
                break
            self.turn(0.5)
        self.turn(0)
        self.successResultOf(waiting)

    def turn(self, seconds: float) -> None:
        """Let time pass, then what was written arrive."""
        self.env.clock.advance(seconds)
        self.env.network.pump()
        self.env.clock.advance(0)

    def ask(self, who: RemotingClient, command: Command) -> Command:
        """The answer to one request."""
        waiting = who.ask(HERE, command)
        self.turn(0)
        self.turn(0)
        return self.successResultOf(waiting)

    def register(self) -> Command:
        """Register a broker with one topic."""
        header = RegisterBrokerRequest(
            broker_name="broker-a",
            broker_addr="10.0.0.1:10911",
            cluster_name="C",
            ha_server_addr="10.0.0.1:10912",
            broker_id=0,
            compressed=True,
        )
        table = TopicConfigSerializeWrapper({"T": TopicConfig(topic_name="T")})
        return self.ask(self.broker, Command.request(103, header, RegisterBrokerBody(table).encode(compressed=True)))

    def route(self) -> Command:
        """Ask for its route."""
        return self.ask(self.client, Command.request(105, RouteInfoRequest(topic="T")))

    def test_route(self) -> None:
        """What a broker registers over one connection, a client finds over another."""
        self.assertEqual(self.route().code, 17)
        self.assertEqual(self.register().code, 0)
        answer = self.route()
        self.assertEqual(answer.code, 0)
        [broker] = TopicRouteData.decode(answer.body).broker_datas
        self.assertEqual(broker.broker_addrs, {0: "10.0.0.1:10911"})

    def test_end(self) -> None:
        """When the broker's connection ends its route is gone at once; a client's end changes nothing."""
        self.register()
        self.settled(self.client.stop())
        self.assertEqual(self.registry.routes.topics(), ["T"])
        self.settled(self.broker.stop())
        self.assertEqual(self.registry.routes.topics(), [])

    def test_silence(self) -> None:
        """A broker that stops registering is cut off after 120 s, though its connection was alive."""
        self.register()
        for _ in range(120):
            self.turn(1)
            self.ask(self.broker, Command.request(206))
        self.assertEqual(len(self.registry.routes.brokers()), 1)
        for _ in range(10):
            self.turn(1)
        self.assertEqual(self.registry.routes.topics(), [])
        self.assertEqual(self.server.connections, [])

    def test_refusals(self) -> None:
        """Unknown codes are answered 3, missing fields 1 with the field's name."""
        answer = self.ask(self.client, Command.request(217))
        self.assertEqual((answer.code, answer.remark), (3, " request type 217 not supported"))
        answer = self.ask(self.client, Command.request(105))
        self.assertEqual(answer.code, 1)
        self.assertIn("topic", answer.remark or "")
