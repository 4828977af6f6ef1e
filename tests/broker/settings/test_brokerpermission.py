"""The broker's permission, changed while it runs: what is taken, what registries say, and a drain."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.broker.settings.changes import Who
from smartgo.client.internal.route import TopicRoute, route_of
from smartgo.schema.bodies import TopicConfig, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from tests.broker.fakecluster import BROKER, REGISTRY, Cluster, opened, pull_command
from tests.remoting.doubles import sweeper_of


class PermissionTests(SynchronousTestCase):
    """One registry, and a broker whose permission is changed."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def permit(self, permission: int, broker: Broker | None = None) -> None:
        """Change it."""
        (broker or self.cluster.broker).settings.change([("brokerPermission", str(permission))], Who("boss"))
        self.cluster.pump(0.1)

    def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic as clients read it from the registry."""
        request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        found: list[Command] = []
        self.cluster.client.ask(REGISTRY, request, 3.0).addCallback(found.append)
        self.cluster.pump(0.1)
        return route_of(topic, TopicRouteData.decode(found[0].body))

    def test_registries(self) -> None:
        """Registries say at once what a broker is for, without any topic changed, and so when it is changed back."""
        self.cluster.send("T")
        self.cluster.pump()
        for permission, writing, reading in ((4, 0, 4), (2, 4, 0), (6, 4, 4)):
            self.permit(permission)
            found = self.route("T")
            self.assertEqual((len(found.publish), len(found.subscribe)), (writing, reading), permission)

    def test_reading(self) -> None:
        """A broker that may not be read refuses pulls, those that it holds too, and serves them again later."""
        self.cluster.send("T")
        held: list[object] = []
        waiting = pull_command("T", 1, 0, sys_flag=6)
        self.cluster.client.ask(BROKER, waiting, 30.0).addBoth(held.append)
        self.cluster.pump()
        self.permit(2)
        self.assertEqual(self.cluster.pull("T")[0].code, ResponseCode.NO_PERMISSION)
        self.cluster.send("T", queue_id=1)
        self.cluster.pump()
        self.assertEqual([one.code for one in held if isinstance(one, Command)], [ResponseCode.NO_PERMISSION])
        self.permit(6)
        self.assertEqual(len(self.cluster.pull("T")[1]), 1)

    def test_writing(self) -> None:
        """
        A broker that may not be written refuses sends to ordered topics and messages given back; what producers still
        send to others is taken, as RocketMQ has it: nothing is lost until all have heard of it.
        """
        self.cluster.broker.topics.update(TopicConfig(topic_name="Ordered", order=True))
        self.cluster.heartbeat("CG", "T")
        first = self.cluster.send("T").read(SendResponse)
        offset = int(first.msg_id[16:], 16)
        back = Command.request(
            RequestCode.CONSUMER_SEND_MSG_BACK, SendBackRequest(offset=offset, group="CG", delay_level=0)
        )
        self.permit(4)
        self.assertEqual(self.cluster.send("Ordered").code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.cluster.ask(back).code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.cluster.send("T").code, ResponseCode.SUCCESS)
        self.permit(6)
        self.assertEqual(self.cluster.send("Ordered").code, ResponseCode.SUCCESS)
        self.assertEqual(self.cluster.ask(back).code, ResponseCode.SUCCESS)

    def test_drain(self) -> None:
        """From permission 4 on producers are sent to other brokers alone, while consumers empty this one."""
        settings = self.cluster.configure(
            {"brokerName": "broker-b", "listenPort": "10921", "haListenPort": "10922", "storePathRootDir": "/other"}
        )
        other = Broker(self.cluster.env, settings, sweeper_of(self.cluster.env.clock))
        other.startService()
        self.cluster.pump()
        self.cluster.send("T")
        opened(other).topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        self.cluster.pump()
        self.assertEqual({one.broker_name for one in self.route("T").publish}, {"broker-a", "broker-b"})
        self.permit(4)
        found = self.route("T")
        self.assertEqual({one.broker_name for one in found.publish}, {"broker-b"})
        self.assertEqual({one.broker_name for one in found.subscribe}, {"broker-a", "broker-b"})
        self.assertEqual(len(self.cluster.pull("T")[1]), 1)
        self.permit(6)
        self.assertEqual({one.broker_name for one in self.route("T").publish}, {"broker-a", "broker-b"})
        stopped: list[object] = []
        other.stopService().addBoth(stopped.append)
        self.cluster.pump(7.0)
        self.assertEqual(stopped, [None])
