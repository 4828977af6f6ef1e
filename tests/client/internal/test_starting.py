"""Consumers that brokers do not admit."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from smartgo.client.consumer import PushConsumer
from smartgo.client.litepull import LitePullConsumer
from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import OffsetResponse
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

    def consumer(self, lite: bool) -> LitePullConsumer | PushConsumer:
        """Return a consumer of T."""
        made = LitePullConsumer(self.client_, "g") if lite else PushConsumer(self.client_, "g", lambda messages: None)
        made.subscribe("T")
        return made

    def start(self, lite: bool, consumer: LitePullConsumer | PushConsumer | None = None) -> Deferred[None]:
        """Start a consumer of T, a new one by default."""
        consumer = consumer or self.consumer(lite)
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
        """With the right to consume the consumer that was refused starts; it starts once, and not after a stop."""
        for lite in (True, False):
            self.answers = {"a": (1, ACL), "b": (1, ACL)}
            consumer = self.consumer(lite)
            self.failureResultOf(self.start(lite, consumer), PeerRefused)
            self.answers = {"a": (0, ""), "b": (0, "")}
            self.successResultOf(self.start(lite, consumer))
            self.assertEqual(list(self.client_.consumers), ["g"])
            self.assertIn("was started before", str(self.assertRaises(SettingError, consumer.start)))
            self.result(consumer.stop(), 4.0)
            self.assertIn("make a new one", str(self.assertRaises(SettingError, consumer.start)))

    def test_assigned(self) -> None:
        """The queues that were assigned before a start that was refused are read after the next start."""
        self.brokers["a"].does[RequestCode.PULL_MESSAGE] = lambda request: Deferred()
        consumer = LitePullConsumer(self.client_, "g")
        queue = MessageQueue("T", "a", 1)
        consumer.assign([queue])
        self.answers = {"a": (1, ACL), "b": (1, ACL)}
        self.failureResultOf(self.start(True, consumer), PeerRefused)
        self.answers = {"a": (0, ""), "b": (0, "")}
        self.brokers["a"].does[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: request.answer(
            header=OffsetResponse(offset=7)
        )
        self.successResultOf(self.start(True, consumer))
        self.assertEqual(consumer.queues, [queue])

    def test_no_registry(self) -> None:
        """A consumer that reached no registry starts when one is there."""
        for lite in (True, False):
            consumer = self.consumer(lite)
            self.registry.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.answer(1, "not yet")
            self.failureResultOf(self.start(lite, consumer), CallFailed)
            self.registry.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route
            self.successResultOf(self.start(lite, consumer))
            self.result(consumer.stop(), 4.0)

    def test_stopped_and_refused(self) -> None:
        """A consumer that is stopped while its brokers refuse it stays stopped."""
        held: list[tuple[Command, Deferred[Command]]] = []

        def hold(request: Command) -> Deferred[Command]:
            held.append((request, Deferred()))
            return held[-1][1]

        for broker in self.brokers.values():
            broker.does[RequestCode.HEART_BEAT] = hold
        for lite in (True, False):
            consumer = self.consumer(lite)
            starting = self.start(lite, consumer)
            self.result(consumer.stop(), 1.0)
            while held:
                request, answer = held.pop()
                answer.callback(request.answer(1, ACL))
            self.pass_time(1.0)
            self.failureResultOf(starting, PeerRefused)
            self.assertRaises(SettingError, consumer.start)
