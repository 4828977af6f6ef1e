"""Several registries of which one or all fail (reliability H7, F18), and brokers that go, seen by clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.offsets import RemoteOffsets
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, SendResult
from smartgo.client.producer import Producer
from smartgo.client.pullconsumer import PullConsumer
from smartgo.errors import CallFailed, NotConnected, PeerRefused
from smartgo.schema.bodies import ConsumeFromWhere, ConsumerList, MessageQueue, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import OffsetResponse, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest, PullResponse
from smartgo.schema.headers.send import SendRequest
from tests.client.doubles import REGISTRY, ClusterTestCase, Node, Storing, route

OTHER = 9877
A, B = ("a", 10001), ("b", 10002)
SLAVE = 10003
TROUBLES: dict[str, Callable[[Command], Any]] = {
    "silent": lambda request: Deferred(),
    "empty": lambda request: request.answer(int(ResponseCode.TOPIC_NOT_EXIST), "No topic route info"),
    "broken": lambda request: request.answer(int(ResponseCode.SYSTEM_ERROR), "out of memory"),
    "busy": lambda request: request.answer(int(ResponseCode.SYSTEM_BUSY), "busy"),
    "wrong": lambda request: request.answer(body=b"<html>"),
}


class TwoRegistries(ClusterTestCase):
    """Two registries that know the same, until a test says otherwise, and two brokers that store."""

    def setUp(self) -> None:
        super().setUp()
        self.other = Node()
        self.listen(OTHER, self.other)
        self.other.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route
        self.a, self.b = Storing(), Storing()
        self.listen(A[1], self.a)
        self.listen(B[1], self.b)
        self.routes["T"] = route(A, B)

    def two(self) -> Client:
        """A client of both."""
        return Client(self.env, f"127.0.0.1:{REGISTRY};127.0.0.1:{OTHER}", instance="two")

    def producer(self) -> Producer:
        """A producer that has started."""
        self.client_ = self.two()
        producer = Producer(self.client_, "pg")
        self.successResultOf(producer.start())
        self.addCleanup(self.ended, self.client_)
        return producer

    def send(self, producer: Producer, topic: str = "T", seconds: float = 0.5) -> SendResult:
        """Send one message, which must be stored in time."""
        return self.result(producer.send(Message(topic=topic, body=b"x")), seconds)


class RegistryTests(TwoRegistries):
    def test_one_in_trouble(self) -> None:
        """With one registry silent, empty, broken, busy or wrong, whichever, no send fails, to a new topic neither."""
        for trouble, does in TROUBLES.items():
            producer = self.producer()
            for node in (self.registry, self.other):
                self.send(producer)
                node.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = does
                self.routes[f"New-{trouble}"] = route(A)
                self.send(producer, f"New-{trouble}", 2.0)
                for _ in range(20):
                    self.pass_time(5.0, 0.5)
                    self.send(producer)
                node.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route
                self.pass_time(31.0, 0.5)
            self.result(self.client_.stop(), 4.0)

    def test_one_dies(self) -> None:
        """When a registry dies the other is asked from then on; the log says so once."""
        producer = self.producer()
        self.send(producer)
        asked = self.registry if self.registry.seen else self.other
        with capturedLogs() as events:
            self.servers[0 if asked is self.registry else 1].stopService()
            for _ in range(30):
                self.pass_time(5.0, 0.5)
                self.send(producer)
        left = self.other if asked is self.registry else self.registry
        self.assertGreaterEqual(len(left.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)), 4)
        said = [event for event in events if "does not answer" in event["log_format"]]
        self.assertEqual(len(said), 1)

    def test_all_dead(self) -> None:
        """Without any registry known routes go on; what is unknown cannot be sent to."""
        producer = self.producer()
        self.send(producer)
        with capturedLogs() as events:
            for server in self.servers[:2]:
                server.stopService()
            for _ in range(60):
                self.pass_time(5.0, 0.5)
                self.send(producer)
        self.assertEqual(len([one for one in events if "no registry answers" in one["log_format"]]), 1)
        failed = producer.send(Message(topic="U", body=b"x"))
        self.pass_time(0.5)
        error = self.failureResultOf(failed, NotConnected).value
        for words in (
            "no registry can be reached: cannot connect to 127.0.0.1:987",
            "give the client the address of one",
        ):
            self.assertIn(words, str(error))

    def test_all_wrong(self) -> None:
        """What all registries answer wrongly changes nothing; each is told of in the log once."""
        producer = self.producer()
        self.send(producer)
        with capturedLogs() as events:
            for node in (self.registry, self.other):
                node.does[RequestCode.GET_ROUTEINFO_BY_TOPIC] = TROUBLES["wrong"]
            for _ in range(30):
                self.pass_time(5.0, 0.5)
                self.send(producer)
        told = [one for one in events if "cannot be read" in str(one.get("error")) and "address" in one]
        self.assertEqual(len(told), 2)

    def test_all_begin_anew(self) -> None:
        """A topic that all registries have forgotten for less than 25 s stays; after that it is gone."""
        producer = self.producer()
        self.send(producer)
        known = self.routes.pop("T")
        self.pass_time(32.0, 0.5)  # one refresh finds nothing
        self.send(producer)
        self.routes["T"] = known
        self.pass_time(30.0, 0.5)
        del self.routes["T"]
        self.pass_time(32.0, 0.5)
        self.send(producer)
        self.pass_time(30.0, 0.5)
        failed = producer.send(Message(topic="T", body=b"x"))
        self.pass_time(0.5)
        self.assertEqual(self.failureResultOf(failed, PeerRefused).value.code, ResponseCode.TOPIC_NOT_EXIST)

    def test_shares(self) -> None:
        """Clients begin with either registry, by chance."""
        for at in range(40):
            client = Client(self.env, f"127.0.0.1:{REGISTRY};127.0.0.1:{OTHER}", instance=str(at))
            self.result(client.routes.find("T"))
            self.result(client.stop(), 2.0)
        self.assertTrue(10 < len(self.registry.seen) < 30, len(self.registry.seen))
        self.assertEqual(len(self.registry.seen) + len(self.other.seen), 40)


class BrokerGoneTests(TwoRegistries):
    def sent(self, node: Node) -> int:
        """Return the number of messages that a broker was sent."""
        return len(node.of(RequestCode.SEND_MESSAGE_V2))

    def test_dropped(self) -> None:
        """A broker that left the routes gets no more messages and no heartbeats after the next refresh."""
        producer = self.producer()
        for _ in range(4):
            self.send(producer)
        self.routes["T"] = route(B)
        self.pass_time(31.0, 0.5)
        before = len(self.a.seen)
        for _ in range(4):
            self.send(producer)
        self.pass_time(60.0, 0.5)
        self.assertEqual(len(self.a.seen), before)

    def test_template_is_fresh(self) -> None:
        """Topics that were never made keep no dead broker alive: their template is asked for anew."""
        self.routes["TBW102"] = route(A)
        producer = self.producer()
        self.a.code = self.b.code = int(ResponseCode.SYSTEM_ERROR)
        failed = producer.send(Message(topic="New", body=b"x"))
        self.pass_time(1.0)
        self.failureResultOf(failed, PeerRefused)
        self.routes["TBW102"] = route(B)
        self.pass_time(61.0, 0.5)
        self.assertEqual(self.client_.routes.addresses(), [])
        self.b.code = 0
        self.assertEqual(self.send(producer, "New").queue.broker_name, "b")

    def test_refresh_soon(self) -> None:
        """A broker that cannot be reached, or takes no messages, has routes refreshed within 3 s, once."""
        producer = self.producer()
        self.send(producer)
        asked = [*self.registry.seen, *self.other.seen]
        self.a.code = int(ResponseCode.SERVICE_NOT_AVAILABLE)
        for _ in range(4):
            self.send(producer)
        self.routes["T"] = route(B)
        self.pass_time(3.1)
        self.assertEqual(len([*self.registry.seen, *self.other.seen]), len(asked) + 1)
        before = self.sent(self.a)
        self.servers[3].stopService()
        for _ in range(4):
            failed = producer.send(Message(topic="T", body=b"x"))
            self.pass_time(1.0)
            self.failureResultOf(failed, CallFailed)
        self.assertEqual(self.sent(self.a), before)
        self.routes["T"] = route(A)
        self.a.code = 0
        self.pass_time(3.0)
        self.send(producer)

    def test_masters_alone(self) -> None:
        """Producers leave brokers without a master out, and use them again when one is there."""
        slave_only = route(A, B)
        slave_only.broker_datas[0].broker_addrs = {1: f"127.0.0.1:{A[1]}"}
        self.routes["T"] = slave_only
        producer = self.producer()
        self.assertEqual({self.send(producer).queue.broker_name for _ in range(6)}, {"b"})
        self.routes["T"] = route(A, B)
        self.pass_time(31.0, 0.5)
        self.assertEqual({self.send(producer).queue.broker_name for _ in range(6)}, {"a", "b"})

    def test_order(self) -> None:
        """An order of queues is followed to the letter, and to the new letter after a refresh."""
        ordered = route(A, B, queues=8)
        ordered.order_topic_conf = "b:1;a:2"
        self.routes["T"] = ordered
        producer = self.producer()
        for words, wanted in (("b:1;a:2", {("b", 0), ("a", 0), ("a", 1)}), ("a:3", {("a", 0), ("a", 1), ("a", 2)})):
            ordered.order_topic_conf = words
            self.pass_time(31.0, 0.5)
            found = {self.send(producer).queue for _ in range(12)}
            self.assertEqual({(one.broker_name, one.queue_id) for one in found}, wanted)


class Reading(Node):
    """A broker, master or slave, with messages without end that nobody filters; answers pulls after a second."""

    def __init__(self, env: Any, suggests: int = 0) -> None:
        super().__init__()
        self.suggests = suggests
        self.committed = 0
        clock = env.clock

        def pull(request: Command) -> Any:
            header = request.read(PullRequest)
            place = PullResponse(
                suggest_which_broker_id=self.suggests,
                next_begin_offset=header.queue_offset + 1,
                min_offset=0,
                max_offset=1 << 40,
            )
            answer = request.answer(int(ResponseCode.PULL_RETRY_IMMEDIATELY), "none", place)
            return deferLater(clock, 1.0, lambda: answer)

        def query(request: Command) -> Command:
            return request.answer(header=OffsetResponse(offset=self.committed))

        def commit(request: Command) -> Command:
            self.committed = request.read(UpdateOffsetRequest).commit_offset
            return request.answer()

        self.does[RequestCode.PULL_MESSAGE] = pull
        self.does[RequestCode.QUERY_CONSUMER_OFFSET] = query
        self.does[RequestCode.UPDATE_CONSUMER_OFFSET] = commit
        self.does[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda request: request.answer(
            body=ConsumerList(["127.0.0.1@two"]).encode()
        )

    def pulls(self, since: int = 0) -> list[PullRequest]:
        """The pulls of the topic, without the first so many."""
        found = [request.read(PullRequest) for request in self.of(RequestCode.PULL_MESSAGE)]
        return [one for one in found if one.topic == "T"][since:]


def replicated(master: bool = True) -> TopicRouteData:
    """A route over one broker set, with or without its master."""
    data = route(A, queues=1)
    data.broker_datas[0].broker_addrs = {1: f"127.0.0.1:{SLAVE}"}
    if master:
        data.broker_datas[0].broker_addrs[0] = f"127.0.0.1:{A[1]}"
    return data


class SlaveTests(ClusterTestCase):
    """A consumer of a broker set of two."""

    def setUp(self) -> None:
        super().setUp()
        self.master, self.slave = Reading(self.env), Reading(self.env)
        self.listen(A[1], self.master)
        self.listen(SLAVE, self.slave)
        self.routes["T"] = replicated()
        self.client_ = Client(self.env, f"127.0.0.1:{REGISTRY}", instance="two")
        consumer = PushConsumer(
            self.client_,
            "cg",
            lambda messages: None,
            ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
        )
        consumer.subscribe("T")
        self.result(consumer.start(), 1.0)
        self.addCleanup(self.ended, self.client_)

    def test_master(self) -> None:
        """While the master is there it alone is pulled from, and told where the group stands; both get heartbeats."""
        self.pass_time(12.0)
        self.assertTrue(all(one.sys_flag & 1 for one in self.master.pulls()))
        self.assertEqual(self.slave.pulls(), [])
        self.assertGreater(self.master.committed, 0)
        for node in (self.master, self.slave):
            self.assertGreater(len(node.of(RequestCode.HEART_BEAT)), 0)

    def test_master_gone_and_back(self) -> None:
        """Without a master the slave is read, with no commit in pulls, and told of positions; then the master again."""
        self.pass_time(6.0)
        self.routes["T"] = replicated(master=False)
        self.pass_time(31.0)
        before, pulled = len(self.master.pulls()), len(self.slave.pulls())
        self.pass_time(10.0)
        self.assertEqual(len(self.master.pulls()), before)
        found = self.slave.pulls(pulled)
        self.assertGreater(len(found), 8)
        self.assertEqual([one.sys_flag & 1 for one in found], [0] * len(found))
        self.assertEqual(found[0].queue_offset, self.slave.pulls()[0].queue_offset + pulled)
        self.assertGreater(self.slave.committed, self.master.committed)
        self.routes["T"] = replicated()
        self.pass_time(31.0)
        before = len(self.slave.pulls())
        self.pass_time(10.0)
        self.assertEqual(len(self.slave.pulls()), before)
        self.assertTrue(self.master.pulls()[-1].sys_flag & 1)
        self.assertGreater(self.master.committed, self.slave.committed)

    def test_position_told_again(self) -> None:
        """Who keeps positions in another's place is told of one that the other was told already."""
        queue = MessageQueue("T", "a", 0)
        offsets = RemoteOffsets(self.client_, "another")
        offsets.update(queue, 77)
        self.result(offsets.persist([queue]))
        told = [len(node.of(RequestCode.UPDATE_CONSUMER_OFFSET)) for node in (self.master, self.slave)]
        self.result(offsets.persist([queue]))
        self.routes["T"] = replicated(master=False)
        self.result(self.client_.routes.refresh())
        self.result(offsets.persist([queue]))
        after = [len(node.of(RequestCode.UPDATE_CONSUMER_OFFSET)) for node in (self.master, self.slave)]
        self.assertEqual(after, [told[0], told[1] + 1])

    def test_suggested(self) -> None:
        """A pull goes to the broker that the last one suggested, without a commit where that is a slave."""
        self.master.suggests = 1
        self.pass_time(5.0)
        before = len(self.slave.pulls())
        self.assertGreater(before, 0)
        self.assertTrue(all(not one.sys_flag & 1 for one in self.slave.pulls()))
        self.pass_time(6.0)  # the slave suggests the master again, and so they take turns
        self.assertGreater(len(self.slave.pulls()), before)
        self.assertGreater(self.master.committed, 0)
        self.assertEqual(self.slave.committed, 0)
        self.master.suggests = 7
        self.slave.suggests = 7
        self.pass_time(5.0)
        before = len(self.slave.pulls())
        self.pass_time(5.0)
        self.assertEqual(len(self.slave.pulls()), before)  # there is neither 7 nor 8: the lowest is asked

    def test_master_dies(self) -> None:
        """When the master dies the slave is read within 7 s of the registry's noticing."""
        self.pass_time(5.0)
        self.servers[1].stopService()
        self.routes["T"] = replicated(master=False)
        self.pass_time(7.0)
        self.assertGreater(len(self.slave.pulls()), 0)


class MembersTests(ClusterTestCase):
    def test_next_broker(self) -> None:
        """A broker that is dead keeps nobody from learning the members of his group."""
        self.routes["T"] = route(A, B, queues=1)
        node = Reading(self.env)
        self.listen(B[1], node)
        for at in range(6):
            client = Client(self.env, f"127.0.0.1:{REGISTRY}", instance="two")
            consumer = PushConsumer(client, "cg", lambda messages: None)
            consumer.subscribe("T")
            self.result(consumer.start(), 1.0)
            self.assertEqual([one for one in consumer.queues if one.topic == "T"], [MessageQueue("T", "b", 0)], at)
            self.result(client.stop(), 4.0)


class NewTopicTests(ClusterTestCase):
    """A consumer that starts before its topic is there."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = Reading(self.env)
        self.stores = Storing()
        self.broker.does.update(self.stores.does)
        self.listen(A[1], self.broker)
        self.client_ = Client(self.env, f"127.0.0.1:{REGISTRY}", instance="two")
        self.addCleanup(self.ended, self.client_)

    def consumer(self, group: str = "cg") -> PushConsumer:
        """Return a consumer of the topic that has started."""
        consumer = PushConsumer(self.client_, group, lambda messages: None)
        consumer.subscribe("T")
        self.result(consumer.start(), 1.0)
        return consumer

    def test_created_by_another(self) -> None:
        """A topic that another client creates is consumed 2.5 s later at most, however long it was missing."""
        for waited in (0.0, 3.3, 7.0):
            consumer = self.consumer(f"after-{waited:.0f}")
            self.pass_time(waited)
            self.routes["T"] = route(A, queues=1)
            self.pass_time(2.5)
            self.assertIn(MessageQueue("T", "a", 0), consumer.queues)
            self.result(consumer.stop(), 1.0)
            del self.routes["T"]
            self.pass_time(62.0, 0.5)  # until the client has forgotten the topic

    def test_created_by_a_send(self) -> None:
        """A topic that a send of the same client creates is consumed 0.5 s later at most."""
        self.routes["TBW102"] = route(A)
        consumer = self.consumer()
        producer = Producer(self.client_, "pg")
        self.successResultOf(producer.start())
        self.pass_time(5.0)
        sent = producer.send(Message(topic="T", body=b"x"))
        self.pass_time(0.1)  # the topic comes into being after the client has asked
        self.routes["T"] = route(A, queues=1)
        self.pass_time(0.5)
        self.successResultOf(sent)
        self.assertIn(MessageQueue("T", "a", 0), consumer.queues)

    def test_gone_and_back(self) -> None:
        """A topic that all registries have forgotten, and that is created again, is noticed as a new one is."""
        self.routes["T"] = route(A, queues=1)
        consumer = self.consumer()
        del self.routes["T"]
        self.pass_time(62.0, 0.5)
        self.assertEqual(consumer.queues, [])
        self.routes["T"] = route(A, queues=1)
        self.pass_time(2.5)
        self.assertIn(MessageQueue("T", "a", 0), consumer.queues)

    def test_two_groups(self) -> None:
        """The end of one consumer does not end the looks for another one of the same client."""
        stays, goes = self.consumer("stays"), self.consumer("goes")
        self.result(goes.stop(), 1.0)
        self.routes["T"] = route(A, queues=1)
        self.pass_time(2.5)
        self.assertIn(MessageQueue("T", "a", 0), stays.queues)

    def test_nobody_left(self) -> None:
        """After the last consumer nobody asks for the topic."""
        consumer = self.consumer()
        self.result(consumer.stop(), 1.0)
        before = len(self.registry.seen)
        self.pass_time(29.0)
        self.assertEqual(len(self.registry.seen), before)


class PullConsumerTests(TwoRegistries):
    def test_slave_only(self) -> None:
        """A puller by hand reads from a slave, and commits to it, where there is no master."""
        self.routes["T"] = replicated(master=False)
        slave = Reading(self.env)
        self.listen(SLAVE, slave)
        client = self.two()
        self.addCleanup(self.ended, client)
        puller = PullConsumer(client, "hand")
        (queue,) = self.result(puller.queues("T"))
        self.assertEqual(self.result(puller.pull(queue, 3), 2.0).next_offset, 4)
        self.result(puller.commit(queue, 9))
        self.assertEqual((slave.committed, self.result(puller.committed(queue))), (9, 9))


class SendRequestTests(TwoRegistries):
    def test_next_broker_name(self) -> None:
        """After a broker that takes no messages another one is tried in the same send."""
        self.a.code = int(ResponseCode.SERVICE_NOT_AVAILABLE)
        producer = self.producer()
        for _ in range(4):
            self.assertEqual(self.send(producer).queue.broker_name, "b")
        self.assertEqual({one.read(SendRequest).topic for one in self.a.of(RequestCode.SEND_MESSAGE_V2)}, {"T"})
