"""The client against our own registry and broker, over real loopback sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from smartgo.cli.support.embedded import EmbeddedNode, configuration_of
from smartgo.client.admin import Admin
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.tracewriter import TraceWriter
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.client.pullconsumer import PullConsumer, PullStatus
from smartgo.env.real import RealEnvironment
from smartgo.errors import CallFailed, NoSuchMessage, SettingError
from smartgo.schema.bodies import ConsumeFromWhere, ConsumerRunningInfo, MessageModel, MessageQueue

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def coroutine(
    function: Callable[[Any], Coroutine[Deferred[Any], Any, None]],
) -> Callable[[Any], Deferred[None]]:
    """Let trial run an C{async} test or fixture."""

    @wraps(function)
    def started(self: Any) -> Deferred[None]:
        return Deferred.fromCoroutine(function(self))

    return started


class ClusterCase(TestCase):
    """
    Tests with a registry, a broker, and a producer.

    @ivar reactor: the one that runs.
    @ivar settings: more settings of the broker, by their names in a file.
    """

    reactor: Any = reactor
    settings: ClassVar[dict[str, str]] = {}
    timeout = 300

    @coroutine
    async def setUp(self) -> None:  # type: ignore[override]
        """A registry and a broker on free ports, and a producer."""
        self.env = RealEnvironment(reactor)
        self.root = self.env.files.temporary_directory("smartgo-test-")
        ports = [self.env.network.free_port() for _ in range(3)]
        flags = {
            "registry.listenPort": str(ports[0]),
            "broker.listenPort": str(ports[1]),
            "haListenPort": str(ports[2]),
            "fastPort": "false",
            "brokerName": "b",
            "storePathRootDir": f"{self.root}/store",
            "kvConfigPath": f"{self.root}/kv.json",
            "mappedFileSizeCommitLog": "1MiB",
            "mappedFileSizeConsumeQueue": "20000",
            "messageDelayLevel": "1s 1s 1s 1s 1s 1s",
            **self.settings,
        }
        self.node = EmbeddedNode(self.env, configuration_of(self.env, flags), self.fail, fill_disk=True)
        await self.node.start()
        self.clients: list[Client] = []
        self.client = self.make_client()
        self.producer = Producer(self.client, "pg")
        await self.producer.start()

    @coroutine
    async def tearDown(self) -> None:  # type: ignore[override]
        """Everything stops; trial sees to it that nothing is left in the reactor."""
        for client in self.clients:
            await client.stop()
        await self.node.stop()
        await self.env.threads.stop()
        self.env.files.remove_tree(self.root)

    def make_client(self) -> Client:
        """One more client."""
        self.clients.append(Client(self.env, self.node.registry))
        return self.clients[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look again and again until something is so; trial's time-out ends what never is."""
        while not condition():
            await deferLater(reactor, 0.02, lambda: None)

    async def send(self, topic: str, count: int, tag: str = "", size: int = 10) -> list[str]:
        """Send messages; return their ids."""
        sends = [self.producer.send(Message(topic=topic, body=b"%0*d" % (size, at), tag=tag)) for at in range(count)]
        return [result.message_id for result in await gatherResults(sends)]


class TraceTests(ClusterCase):
    """Message traces at our broker."""

    @coroutine
    async def test_many(self) -> None:
        """Every record of many sends at a time is stored and found, although a trace message has hundreds of keys."""
        client = Client(self.env, self.node.registry, trace=True)
        self.clients.append(client)
        producer = Producer(client, "traced")
        await producer.start()
        sends = [producer.send(Message(topic="T", body=b"1", keys=f"k{number}")) for number in range(400)]
        ids = [result.message_id for result in await gatherResults(sends)]
        await client.stop()
        (writer,) = client.events.listeners
        assert isinstance(writer, TraceWriter)
        self.assertEqual(writer.dropped, 0)
        admin = Admin(self.client).messages
        for one_id in (ids[0], ids[200], ids[-1]):
            trace = await admin.trace(one_id)
            self.assertEqual([(one.kind, one.group) for one in trace.events], [("produced", "traced")])


class ClusterTests(ClusterCase):
    @coroutine
    async def test_group(self) -> None:
        """Two members of a group share all messages, each comes once; when one leaves, the other has all queues."""
        before = await self.producer.send(Message(topic="T", body=b"x"))
        seen: Counter[str] = Counter()
        shares: list[set[MessageQueue]] = [set(), set()]
        members = []
        for number in range(2):

            def listener(messages: list[ReceivedMessage], number: int = number) -> None:
                seen.update(one.message_id for one in messages)
                shares[number].update(one.queue for one in messages)

            member = PushConsumer(self.make_client(), "cg", listener, ConsumerSettings(begin=FIRST, batch=4))
            member.subscribe("T")
            await member.start()
            members.append(member)
        await self.until(lambda: all(len([one for one in each.queues if one.topic == "T"]) == 2 for each in members))
        ids = await self.send("T", 300, size=5000)
        await self.until(lambda: len(seen) == 301)
        self.assertTrue(set(ids) < set(seen))
        await members[0].stop()
        await self.until(lambda: len(members[1].queues) == 5)
        await self.send("T", 50)
        await self.until(lambda: len(seen) == 351)
        del seen[before.message_id]  # it may come twice: its queue may change hands before it is committed
        self.assertEqual(set(seen.values()), {1})
        await members[1].stop()
        puller = PullConsumer(self.client, "cg")
        for queue in await puller.queues("T"):
            self.assertEqual(await puller.committed(queue), await puller.max_offset(queue))

    @coroutine
    async def test_later(self) -> None:
        """A message that fails comes again later, by its own topic, with its count; one given up at once does not."""
        found: list[tuple[bytes, int, str]] = []

        def listener(messages: list[ReceivedMessage]) -> None:
            found.append((messages[0].body, messages[0].reconsume_times, messages[0].topic))
            if messages[0].body == b"never":
                raise ConsumeLater(-1)
            if messages[0].reconsume_times == 0:
                raise ConsumeLater(1)

        await self.producer.send(Message(topic="T", body=b"later"))
        await self.producer.send(Message(topic="T", body=b"never"))
        consumer = PushConsumer(self.make_client(), "cg", listener, ConsumerSettings(begin=FIRST))
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(found) == 3)
        self.assertEqual(sorted(found), [(b"later", 0, "T"), (b"later", 1, "T"), (b"never", 0, "T")])
        puller = PullConsumer(self.client, "tools")
        (dead,) = await puller.queues("%DLQ%cg")
        result = await puller.pull(dead, 0)
        self.assertEqual([one.body for one in result.messages], [b"never"])

    @coroutine
    async def test_orderly(self) -> None:
        """An orderly consumer sees each queue in order, one batch at a time, a failed batch again in place."""
        await self.send("T", 100)
        seen: list[tuple[int, int]] = []
        running: Counter[int] = Counter()
        failed = False

        async def listener(messages: list[ReceivedMessage]) -> None:
            nonlocal failed
            queue = messages[0].queue.queue_id
            running[queue] += 1
            self.assertEqual(running[queue], 1)
            await deferLater(reactor, 0.001, lambda: None)
            running[queue] -= 1
            if messages[0].queue_offset >= 10 and not failed:
                failed = True
                raise ConsumeLater
            seen.extend((queue, one.queue_offset) for one in messages)

        consumer = PushConsumer(
            self.make_client(), "og", listener, ConsumerSettings(begin=FIRST, orderly=True, batch=3)
        )
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(seen) >= 100)
        for queue in range(4):
            self.assertEqual([at for one, at in seen if one == queue], list(range(25)))
        self.assertTrue(failed)

    @coroutine
    async def test_broadcast(self) -> None:
        """Each member of a broadcasting group gets every message that has a wanted tag; its file says how far it is."""
        await self.send("T", 10, tag="A")
        await self.send("T", 10, tag="B")
        seen: list[list[ReceivedMessage]] = [[], []]
        for number in range(2):
            settings = ConsumerSettings(
                model=MessageModel.BROADCASTING, begin=FIRST, offsets_directory=f"{self.root}/offsets{number}"
            )
            member = PushConsumer(self.make_client(), "bg", seen[number].extend, settings)
            member.subscribe("T", "B || C")
            await member.start()
        await self.until(lambda: len(seen[0]) == len(seen[1]) == 10)
        self.assertEqual({one.tag for one in seen[0]}, {"B"})
        await self.clients[1].stop()
        path = f"{self.root}/offsets0/{self.clients[1].stable_id}/bg/offsets.json"
        self.assertIn(b"offsetTable", self.env.files.read(path))

    @coroutine
    async def test_reset(self) -> None:
        """A consumer that is told to go back reads again from there."""
        await self.send("T", 40)
        seen: Counter[str] = Counter()
        consumer = PushConsumer(
            self.make_client(),
            "cg",
            lambda messages: seen.update(one.message_id for one in messages),
            ConsumerSettings(begin=FIRST),
        )
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(seen) == 40)
        await consumer.reset_offsets({MessageQueue("T", "b", 0): 4})
        await self.until(lambda: sum(seen.values()) == 46)
        info = consumer.running_info()
        self.assertEqual(info.properties["PROP_CONSUME_TYPE"], "CONSUME_PASSIVELY")
        self.assertEqual(info.status_table["T"].consume_failed_msgs, 0)
        self.assertEqual(len(info.mq_table), 5)
        self.assertEqual(info.properties[ConsumerRunningInfo.LISTENER_CALLS], "0")
        self.assertIsNone(info.mq_table[MessageQueue("T", "b", 0)].never_consumed)

    @coroutine
    async def test_hanging_listener(self) -> None:
        """A consumer tells of listener calls that do not return, and that it has consumed nothing."""
        await self.send("T", 4)
        release: Deferred[None] = Deferred()
        for orderly in (False, True):
            begun: list[object] = []

            def hang(messages: object, begun: list[object] = begun) -> Deferred[None]:
                begun.append(messages)
                waiting: Deferred[None] = Deferred()
                release.addBoth(lambda _: waiting.callback(None))
                return waiting

            settings = ConsumerSettings(begin=FIRST, orderly=orderly)
            consumer = PushConsumer(self.make_client(), f"hang-{orderly}", hang, settings)
            consumer.subscribe("T")
            await consumer.start()
            await self.until(lambda begun=begun: len(begun) == 4)  # type: ignore[misc]
            info = consumer.running_info()
            self.assertEqual(info.properties[ConsumerRunningInfo.LISTENER_CALLS], "4")
            self.assertGreaterEqual(int(info.properties[ConsumerRunningInfo.LONGEST_CALL]), 0)
            self.assertIs(info.mq_table[MessageQueue("T", "b", 0)].never_consumed, True)
        release.callback(None)

    @coroutine
    async def test_pull(self) -> None:
        """Pulling by hand: bounds, messages from an offset, nothing new, an offset outside, positions."""
        await self.send("T", 40)
        puller = PullConsumer(self.client, "hand")
        queue = (await puller.queues("T"))[0]
        self.assertEqual((await puller.min_offset(queue), await puller.max_offset(queue)), (0, 10))
        result = await puller.pull(queue, 4, limit=3)
        self.assertEqual(([one.queue_offset for one in result.messages], result.next_offset), ([4, 5, 6], 7))
        self.assertIs((await puller.pull(queue, 10)).status, PullStatus.NO_NEW)
        moved = await puller.pull(queue, 99)
        self.assertEqual((moved.status, moved.next_offset), (PullStatus.OFFSET_MOVED, 10))
        self.assertEqual(await puller.offset_at(queue, 0), 0)
        await puller.commit(queue, 6)
        self.assertEqual(await puller.committed(queue), 6)

    @coroutine
    async def test_admin(self) -> None:
        """Topics are created, listed and described; a message is found by its id, no other is."""
        admin = Admin(self.client)
        self.assertEqual(await admin.topics.create("Made", 3), ["b"])
        self.assertIn("Made", await admin.topics.names())
        self.assertEqual((await admin.topics.route("Made")).queue_datas[0].write_queue_nums, 3)
        self.assertEqual(list((await admin.brokers.cluster()).broker_addr_table), ["b"])
        await self.assertFailure(admin.topics.create("Made", brokers=["nobody"]), CallFailed)
        result = await self.producer.send(Message(topic="Made", body=b"x" * 9000, keys=["k"]))
        found = await admin.messages.by_id(result.offset_id)
        self.assertEqual((found.body, found.message_id, found.keys), (b"x" * 9000, result.message_id, ["k"]))
        await self.assertFailure(admin.messages.by_id(result.offset_id[:-4] + "7FFF"), NoSuchMessage)

    @coroutine
    async def test_misuse(self) -> None:
        """A consumer without a topic, started twice, or subscribing too late is refused in words."""
        consumer = PushConsumer(self.client, "cg", lambda messages: None)
        self.assertRaises(SettingError, consumer.start)
        consumer.subscribe("Nowhere")
        await consumer.start()
        self.assertRaises(SettingError, consumer.start)
        self.assertRaises(SettingError, consumer.subscribe, "T")
        await consumer.stop()
        await consumer.stop()
        lost = Client(self.env, f"127.0.0.1:{self.env.network.free_port()}")
        stranger = PushConsumer(lost, "cg", lambda messages: None)
        stranger.subscribe("T")
        await self.assertFailure(stranger.start(), CallFailed)
        await lost.stop()
