"""Two brokers of one name (reliability H6), with a registry, in memory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.schema.bodies import TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RouteInfoRequest
from tests.broker.fakecluster import BROKER, REGISTRY, Cluster, opened, pull_command, send_command
from tests.remoting.doubles import sweeper_of

SECOND = "127.0.0.1:10921"


class RivalsTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A cluster whose broker is the master of its name, and a second one of that name."""
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.cluster.send("T", b"first")
        self.second = self.start_second()

    def start_second(self) -> Broker:
        """Start it; it ends with the test."""
        settings = {"listenPort": "10921", "storePathRootDir": "/second", "fastPort": "false"}
        second = Broker(self.cluster.env, self.cluster.configure(settings), sweeper_of(self.cluster.env.clock))
        second.startService()
        self.cluster.pump()
        self.addCleanup(self.end, second)
        return second

    def end(self, broker: Broker) -> None:
        """Stop a broker."""
        ended = broker.stopService()
        self.cluster.pump(7.0)
        self.successResultOf(ended)

    def send(self, address: str) -> Command:
        """Send to one of the two."""
        return self.cluster.ask(send_command("T"), address)

    @property
    def master(self) -> str:
        """Whom the registry calls the master."""
        answer = self.cluster.ask(
            Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic="TBW102")), REGISTRY
        )
        return TopicRouteData.decode(answer.body).broker_datas[0].broker_addrs[0]

    def test_second(self) -> None:
        """The second is ready, serves reads and refuses messages with 14 and why; the first does not notice."""
        self.successResultOf(self.second.ready)
        answer = self.send(SECOND)
        self.assertEqual(answer.code, ResponseCode.SERVICE_NOT_AVAILABLE)
        self.assertIn(f"{BROKER} is the master of broker broker-a", answer.remark or "")
        self.assertIn("does not let this broker be a master", str(opened(self.second).store.refusal))
        self.assertEqual(self.cluster.ask(pull_command("T", 0, 0), SECOND).code, ResponseCode.PULL_NOT_FOUND)
        self.assertEqual((self.send(BROKER).code, self.master), (0, BROKER))

    def test_first_leaves(self) -> None:
        """When the first has stopped the second is the master within 10 s."""
        self.end(self.cluster.service)
        self.cluster.pump(4.0)
        self.assertEqual((self.master, opened(self.second).store.refusal), (SECOND, None))
        self.assertEqual(self.send(SECOND).code, 0)

    def test_first_stood_still(self) -> None:
        """A master that was stopped for long, and replaced, takes no message when it goes on (F13)."""
        registrar = self.cluster.broker.registrar
        assert registrar._timer is not None
        registrar._timer.reset(10_000.0)  # the process does nothing any more
        registrar.running = 0
        self.cluster.pump(119.0, step=1.0)
        self.assertEqual(self.master, BROKER)
        self.cluster.pump(25.0, step=1.0)
        self.assertEqual(self.master, SECOND)
        registrar.running = 1
        now = self.cluster.env.clock.seconds()
        self.cluster.sweeper.overdue = now - 140.0
        self.cluster.sweeper.stood_still(now)
        self.assertIn("stood still for 144 s", self.send(BROKER).remark or "")
        self.cluster.pump(10.0)
        self.assertIn(f"{SECOND} is the master of broker broker-a", self.send(BROKER).remark or "")
        self.assertEqual((self.send(SECOND).code, self.master), (0, SECOND))
