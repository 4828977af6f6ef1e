"""Consumers that brokers do not admit."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from smartgo.client.consumer import PushConsumer
from smartgo.client.litepull import LitePullConsumer
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from tests.client.doubles import ClusterTestCase, Node, route

ACL = "org.apache.rocketmq.acl.common.AclException: No default permission for g, org.apache.rocketmq..."


class AdmissionTests(ClusterTestCase):
    def setUp(self) -> None:
        """Two brokers of topic T that answer heartbeats as C{self.answers} says."""
        super().setUp()
        self.answers = {"a": (0, ""), "b": (0, "")}
        self.brokers = {}
        for name, port in (("a", 10001), ("b", 10002)):
            broker = self.brokers[name] = Node()
            broker.does[RequestCode.HEART_BEAT] = self._answering(name)
            broker.does[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda request: request.answer(1, "no consumer")
            self.listen(port, broker)
        self.routes["T"] = route(("a", 10001), ("b", 10002))
        self.client_ = self.client()

    def _answering(self, name: str) -> Callable[[Command], Command]:
        return lambda request: self.answer(request, name)

    def answer(self, request: Command, name: str) -> Command:
        """Answer a heartbeat to one broker."""
        code, remark = self.answers[name]
        return request.answer(code, remark)

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def start(self, lite: bool) -> Deferred[None]:
        """Start a consumer of T."""
        consumer = (
            LitePullConsumer(self.client_, "g") if lite else PushConsumer(self.client_, "g", lambda messages: None)
        )
        consumer.subscribe("T")
        starting = consumer.start()
        self.pass_time(1.0)
        return starting

    def test_denied(self) -> None:
        """A consumer that all brokers of its topic deny access fails to start with their words, and has left then."""
        for lite in (False, True):
            for answer in ((1, ACL), (int(ResponseCode.NO_PERMISSION), "no")):
                self.answers = {"a": answer, "b": answer}
                refusal = self.failureResultOf(self.start(lite), PeerRefused).value
                self.assertEqual((refusal.code, refusal.remark), answer)
                self.assertEqual(self.client_.consumers, {})

    def test_stopped_meanwhile(self) -> None:
        """A consumer that is stopped while its topics are looked up does not start."""
        asked: list[tuple[Command, Deferred[Command]]] = []

        def hold(request: Command) -> Deferred[Command]:
            asked.append((request, Deferred()))
            return asked[-1][1]

        self.registry.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = hold
        for consumer in (LitePullConsumer(self.client_, "g"), PushConsumer(self.client_, "h", lambda messages: None)):
            consumer.subscribe("T")
            starting = consumer.start()
            self.pass_time(0.5)
            self.result(consumer.stop())
            while asked:
                request, answer = asked.pop()
                answer.callback(request.answer(body=route(("a", 10001)).encode()))
                self.pass_time(0.5)
            self.failureResultOf(starting, CallFailed)
            self.assertEqual(self.client_.consumers, {})

    def test_admitted_by_one(self) -> None:
        """One broker that admits it is enough; the others refuse for themselves."""
        self.answers["a"] = (1, ACL)
        self.successResultOf(self.start(lite=False))

    def test_other_refusals(self) -> None:
        """A heartbeat that is refused for another reason does not end a start: the next one may be taken."""
        self.answers = {"a": (1, "too many groups"), "b": (2, "busy")}
        self.successResultOf(self.start(lite=False))

    def test_admitted_later(self) -> None:
        """With the right to consume a consumer can be made anew, and starts."""
        self.answers = {"a": (1, ACL), "b": (1, ACL)}
        self.failureResultOf(self.start(lite=True), PeerRefused)
        self.answers = {"a": (0, ""), "b": (0, "")}
        self.successResultOf(self.start(lite=True))
