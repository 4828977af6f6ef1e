"""A registry and brokers over connections in memory, that answer as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from smartgo.client.client import Client
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IPeer, IRequestProcessor
from smartgo.remoting.server import RemotingServer
from smartgo.schema.bodies import BrokerData, QueueData, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.send import SendRequest, SendResponse
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of

T = TypeVar("T")

REGISTRY = 9876
ALL_CODES = frozenset(int(code) for code in RequestCode)


def route(*brokers: tuple[str, int], queues: int = 2, perm: int = 6) -> TopicRouteData:
    """A route over brokers, given as name and port."""
    return TopicRouteData(
        queue_datas=[QueueData(name, queues, queues, perm, 0) for name, _ in brokers],
        broker_datas=[BrokerData("c", name, {0: f"127.0.0.1:{port}"}) for name, port in brokers],
    )


@implementer(IRequestProcessor)
class Node:
    """
    Answers requests by functions.

    @ivar does: by request code; other codes succeed without a word.
    @ivar seen: the requests, in order; C{peers} where they came from.
    """

    codes = ALL_CODES

    def __init__(self) -> None:
        self.does: dict[int, Callable[[Command], Any]] = {}
        self.seen: list[Command] = []
        self.peers: list[IPeer] = []

    def process(self, peer: IPeer, request: Command) -> Any:
        """Answer."""
        self.seen.append(request)
        self.peers.append(peer)
        return self.does.get(request.code, lambda request: request.answer())(request)

    def refuses(self) -> bool:
        """No."""
        return False

    def run_ended(self) -> None:
        """Nothing."""

    def of(self, code: RequestCode) -> list[Command]:
        """The requests of one code."""
        return [request for request in self.seen if request.code == code]


class Storing(Node):
    """A broker that stores what it is sent, or answers C{code}."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 0
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.does[code] = self._store

    def _store(self, request: Command) -> Command:
        header = request.read(SendRequest)
        return request.answer(
            self.code, "as told", SendResponse(msg_id="OFF", queue_id=header.queue_id, queue_offset=7)
        )


class ClusterTestCase(SynchronousTestCase):
    """
    Tests with a registry and brokers.

    @ivar routes: what the registry knows, by topic.
    """

    def setUp(self) -> None:
        """A registry that knows C{routes}."""
        self.env = FakeEnvironment()
        self.routes: dict[str, TopicRouteData] = {}
        self.servers: list[RemotingServer] = []
        self.registry = Node()
        self.listen(REGISTRY, self.registry)
        self.registry.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route

    def listen(self, port: int, node: Node) -> None:
        """Let a node listen."""
        server = RemotingServer(
            self.env, f"tcp:{port}:interface=127.0.0.1", Dispatcher([node]), sweeper_of(self.env.clock)
        )
        server.startService()
        self.successResultOf(server.open())
        self.servers.append(server)

    def _route(self, request: Command) -> Command:
        topic = request.read(RouteInfoRequest).topic
        data = self.routes.get(topic)
        if data is None:
            return request.answer(int(ResponseCode.TOPIC_NOT_EXIST), f"No topic route info: {topic}")
        return request.answer(body=data.encode())

    def client(self) -> Client:
        """A client of this registry."""
        return Client(self.env, f"127.0.0.1:{REGISTRY}", instance="one")

    def pass_time(self, seconds: float, step: float = 0.1) -> None:
        """Let time go by, moving what is sent meanwhile."""
        self.env.network.pump()
        for _ in range(round(seconds / step)):
            self.env.clock.advance(step)
            self.env.network.pump()

    def result(self, waits: Deferred[T], seconds: float = 0.5) -> T:
        """Return the result of a Deferred that fires within some time."""
        self.pass_time(seconds)
        return self.successResultOf(waits)

    def ended(self, client: Client) -> None:
        """Stop a client and see that it leaves no timer behind."""
        self.result(client.stop(), 4.0)
        for server in self.servers:
            server.stopService()
        self.pass_time(8.0, 1.0)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
