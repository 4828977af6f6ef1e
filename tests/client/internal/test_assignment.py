"""The assignment of queues where a broker does not answer."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.schema.bodies import ConsumerList
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import OffsetResponse
from tests.client.doubles import REGISTRY, ClusterTestCase, Node, route

A, B = ("a", 10001), ("b", 10002)
QUEUES = 8


class Holding(Node):
    """A broker of a group with one member, which holds all pulls."""

    def __init__(self) -> None:
        super().__init__()
        self.does[RequestCode.PULL_MESSAGE] = lambda request: Deferred()
        self.does[RequestCode.QUERY_CONSUMER_OFFSET] = self.offset
        self.does[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda request: request.answer(
            body=ConsumerList(["127.0.0.1@one"]).encode()
        )

    def offset(self, request: Command) -> Command:
        """Answer that the group is at the beginning."""
        return request.answer(header=OffsetResponse(offset=0))

    @property
    def queries(self) -> int:
        """How often it was asked for an offset."""
        return len(self.of(RequestCode.QUERY_CONSUMER_OFFSET))


class SilentBrokerTests(ClusterTestCase):
    """A consumer of a topic at two brokers, the first of which answers no question about an offset."""

    def setUp(self) -> None:
        """Nothing is started yet."""
        super().setUp()
        self.first, self.second = Holding(), Holding()
        self.first.does[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: Deferred()
        self.listen(A[1], self.first)
        self.listen(B[1], self.second)
        self.routes["T"] = route(A, B, queues=QUEUES)
        self.client_ = Client(self.env, f"127.0.0.1:{REGISTRY}", instance="one")
        self.consumer = PushConsumer(self.client_, "cg", lambda messages: None)
        self.consumer.subscribe("T")

    def queues(self, broker: str) -> int:
        """Return how many queues of the topic at a broker are assigned."""
        return sum(queue.topic == "T" and queue.broker_name == broker for queue in self.consumer.queues)

    def test_others_wait_once(self) -> None:
        """The queues of the other broker wait for one call to the silent one, not for one for each of its queues."""
        self.result(self.consumer.start(), 3.5)
        self.assertEqual((self.first.queries, self.queues("a"), self.queues("b")), (1, 0, QUEUES))
        self.pass_time(20.0)
        self.assertEqual((self.first.queries, self.queues("b")), (2, QUEUES))
        self.ended(self.client_)

    def test_answers_again(self) -> None:
        """Once the broker answers, its queues are assigned in the next round."""
        self.result(self.consumer.start(), 3.5)
        self.first.does[RequestCode.QUERY_CONSUMER_OFFSET] = self.first.offset
        self.pass_time(20.0)
        self.assertEqual((self.queues("a"), self.queues("b")), (QUEUES, QUEUES))
        self.ended(self.client_)

    def test_failed_at_once(self) -> None:
        """A call that fails at once, such as by a lost connection, does not leave the broker's other queues out."""
        lost: list[Command] = []

        def offset(request: Command) -> Any:
            """Lose the connection once."""
            if lost:
                return self.first.offset(request)
            lost.append(request)
            self.first.peers[-1].close("as told")
            return Deferred()

        self.first.does[RequestCode.QUERY_CONSUMER_OFFSET] = offset
        self.result(self.consumer.start(), 3.5)
        self.assertEqual((self.queues("a"), self.queues("b")), (QUEUES - 1, QUEUES))
        self.ended(self.client_)

    def test_stop(self) -> None:
        """A stop waits for the call under way, and for no other of the round."""
        self.consumer.start()
        self.pass_time(0.5)
        self.assertEqual(self.first.queries, 1)
        self.ended(self.client_)
        self.assertEqual((self.first.queries, self.second.queries), (1, 0))

    def test_members(self) -> None:
        """A broker that does not tell the members of the group is not asked about its queues either."""
        self.first.does[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda request: Deferred()
        self.patch(self.env.random, "below", lambda limit: 0)
        self.result(self.consumer.start(), 3.5)
        self.assertEqual((self.first.queries, self.queues("b")), (0, QUEUES))
        self.ended(self.client_)
