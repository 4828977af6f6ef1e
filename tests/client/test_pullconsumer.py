"""Pull consumers of clients that are members of no group, over connections in memory."""

from __future__ import annotations

from smartgo.client.pullconsumer import PullConsumer
from smartgo.errors import CallFailed
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.pull import PullResponse
from tests.client.doubles import ClusterTestCase, Node, route


class RouteTests(ClusterTestCase):
    def setUp(self) -> None:
        """A broker without messages, and a pull consumer."""
        super().setUp()
        broker = Node()
        header = PullResponse(suggest_which_broker_id=0, next_begin_offset=0, min_offset=0, max_offset=0)
        broker.does[RequestCode.PULL_MESSAGE] = lambda request: request.answer(
            int(ResponseCode.PULL_NOT_FOUND), None, header
        )
        self.listen(10001, broker)
        self.routes["T"] = route(("a", 10001))
        self.client_ = self.client()
        self.puller = PullConsumer(self.client_, "g")

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def test_more_queues(self) -> None:
        """Queues that a topic gets later are known after 30 s."""
        self.assertEqual(len(self.result(self.puller.queues("T"))), 2)
        self.routes["T"] = route(("a", 10001), queues=3)
        self.pass_time(31.0, 0.5)
        self.assertEqual(len(self.result(self.puller.queues("T"))), 3)

    def test_moved_broker(self) -> None:
        """A broker that is not reached is looked up again within 3 s."""
        self.routes["T"] = route(("a", 10002))
        queue = MessageQueue("T", "a", 0)
        pulling = self.puller.pull(queue, 0)
        self.pass_time(0.5)
        self.failureResultOf(pulling, CallFailed)
        self.routes["T"] = route(("a", 10001))
        self.pass_time(3.5)
        self.assertEqual(self.result(self.puller.pull(queue, 0)).messages, [])

    def test_stopped(self) -> None:
        """A call after the end of the client fails, and leaves no timer."""
        self.result(self.client_.stop(), 4.0)
        asking = self.puller.queues("T")
        self.pass_time(0.5)
        self.failureResultOf(asking, CallFailed)
