"""The lite pull consumer: what it asks brokers, and what polls return, against our own registry and broker."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from smartgo.client.admin import Admin
from smartgo.client.client import Client
from smartgo.client.internal.events import ClientEvents
from smartgo.client.internal.processqueue import Thresholds
from smartgo.client.litepull import LitePullConsumer
from smartgo.client.litesettings import LitePullSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.pullconsumer import PullConsumer
from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.schema.bodies import ConsumerList, ConsumeType, HeartbeatData, MessageModel, MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest
from tests.client.doubles import ClusterTestCase, Node, route
from tests.client.test_cluster import FIRST, ClusterCase, coroutine


class WireTests(ClusterTestCase):
    """What it sends, over connections in memory."""

    def setUp(self) -> None:
        """A broker that holds every pull."""
        super().setUp()
        self.broker = Node()
        self.listen(10001, self.broker)
        self.broker.does[RequestCode.PULL_MESSAGE] = lambda request: None
        self.broker.does[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: request.answer(
            int(ResponseCode.QUERY_NOT_FOUND), "none", None
        )
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            self.broker.does[code] = lambda request: request.answer(fields={"offset": "7"})
        members = ConsumerList(consumer_id_list=["127.0.0.1@one"]).encode()
        self.broker.does[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda request: request.answer(body=members)
        self.routes["T"] = route(("a", 10001))
        self.client_ = self.client()
        self.consumer = LitePullConsumer(self.client_, "g")

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def pulls(self) -> list[PullRequest]:
        """The headers of all pulls so far."""
        return [one.read(PullRequest) for one in self.broker.of(RequestCode.PULL_MESSAGE)]

    def test_subscribed(self) -> None:
        """It is an active member; its pulls of 10 messages have the subscription and the bit of lite pulls."""
        self.consumer.subscribe("T", "A || B")
        self.result(self.consumer.start())
        (beat, *_) = self.broker.of(RequestCode.HEART_BEAT)
        (member,) = HeartbeatData.decode(beat.body).consumer_data_set
        self.assertEqual((member.group_name, member.consume_type), ("g", ConsumeType.CONSUME_ACTIVELY))
        self.assertEqual([one.topic for one in member.subscription_data_set], ["T"])
        first, second = self.pulls()
        self.assertEqual((first.sys_flag, first.max_msg_nums, first.subscription), (0x16, 10, "A || B"))
        self.assertEqual((first.suspend_timeout_millis, first.queue_offset, first.commit_offset), (20_000, 7, 0))
        self.assertEqual({first.queue_id, second.queue_id}, {0, 1})

    def test_assigned(self) -> None:
        """Assigned queues are read without a subscription in heartbeats; further assignments replace them."""
        a, b = (MessageQueue("T", "a", number) for number in range(2))
        self.result(self.consumer.assign([a]))
        self.result(self.consumer.start())
        self.assertEqual((self.consumer.queues, len(self.pulls())), ([a], 1))
        data = HeartbeatData.decode(self.broker.of(RequestCode.HEART_BEAT)[-1].body)
        self.assertEqual(data.consumer_data_set[0].subscription_data_set, [])
        self.assertEqual((self.pulls()[0].subscription, self.pulls()[0].sys_flag), ("*", 0x16))
        self.result(self.consumer.assign([b]))
        self.assertEqual(self.consumer.queues, [b])
        self.result(self.consumer.assign([]))
        self.assertEqual(self.consumer.queues, [])

    def test_assigned_meanwhile(self) -> None:
        """The last of several assignments counts, although an earlier one still asks where its queues begin."""
        a, b = (MessageQueue("T", "a", number) for number in range(2))
        asked: list[tuple[Command, Deferred[Command]]] = []

        def where(request: Command) -> Deferred[Command]:
            asked.append((request, Deferred()))
            return asked[-1][1]

        self.broker.does[RequestCode.QUERY_CONSUMER_OFFSET] = where
        self.result(self.consumer.assign([]))
        self.result(self.consumer.start())
        first = self.consumer.assign([a, b])
        self.pass_time(0.5)
        second = self.consumer.assign([b])
        self.pass_time(0.5)
        while asked:
            request, answer = asked.pop(0)
            answer.callback(request.answer(fields={"offset": "7"}))
            self.pass_time(0.5)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(self.consumer.queues, [b])

    def test_reset(self) -> None:
        """Offsets that a broker sets are committed for the queues of this member alone."""
        mine, other = (MessageQueue("T", "a", number) for number in range(2))
        self.result(self.consumer.assign([mine]))
        self.result(self.consumer.start())
        self.result(self.client_.consumers["g"].reset_offsets({mine: 3, other: 5}))
        told = [one.read(UpdateOffsetRequest) for one in self.broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)]
        self.assertEqual([(one.queue_id, one.commit_offset) for one in told], [(0, 3)])
        self.assertEqual(self.pulls()[-1].queue_offset, 3)

    def test_stops_once(self) -> None:
        """Whoever stops it again waits for the same end."""
        held: list[tuple[Command, Deferred[Command]]] = []

        def hold(request: Command) -> Deferred[Command]:
            held.append((request, Deferred()))
            return held[-1][1]

        self.broker.does[RequestCode.UNREGISTER_CLIENT] = hold
        self.consumer.subscribe("T")
        self.result(self.consumer.start())
        first, second = self.consumer.stop(), self.consumer.stop()
        self.pass_time(0.5)
        self.assertNoResult(first)
        self.assertNoResult(second)
        ((request, answer),) = held
        answer.callback(request.answer())
        self.result(first)
        self.successResultOf(second)
        self.successResultOf(self.consumer.stop())

    def test_limit_of_topic(self) -> None:
        """A limit of the topic is shared by its assigned queues, and shared anew when there are more of them."""
        asked: list[int] = []

        def count(limits: Thresholds, queues: int) -> Thresholds:
            asked.append(queues)
            return limits

        self.patch(Thresholds, "of_queue", count)
        self.consumer.subscribe("T")
        self.result(self.consumer.start())
        self.assertEqual(asked[-2:], [2, 2])
        self.routes["T"] = route(("a", 10001), queues=3)
        self.pass_time(31.0, 0.5)
        self.assertEqual(asked[-3:], [3, 3, 3])

    def test_order_of_calls(self) -> None:
        """It either subscribes or assigns, starts once, and polls while it runs."""
        self.consumer.subscribe("T")
        self.assertRaises(SettingError, self.consumer.assign, [])
        polling = self.consumer.poll(0.0)
        self.failureResultOf(polling, CallFailed)
        self.result(self.consumer.start())
        self.assertRaises(SettingError, self.consumer.start)
        self.assertRaises(SettingError, self.consumer.subscribe, "U")
        waiting, cancelled = self.consumer.poll(60.0), self.consumer.poll(60.0)
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.assertNoResult(waiting)
        self.result(self.consumer.stop(), 1.0)
        self.failureResultOf(waiting, CallFailed)

    def test_nothing(self) -> None:
        """A poll without messages ends with an empty list when its time is over."""
        self.consumer.subscribe("T")
        self.result(self.consumer.start())
        waiting = self.consumer.poll(2.0)
        self.pass_time(1.9)
        self.assertNoResult(waiting)
        self.assertEqual(self.result(waiting), [])

    def test_queues_changed(self) -> None:
        """A listener is told when the queues of its topic changed, once for each change."""
        told: list[tuple[str, int]] = []
        self.consumer.subscribe("T")
        self.result(self.consumer.start())
        self.result(self.consumer.on_queues_changed("T", lambda topic, queues: told.append((topic, len(queues)))))
        self.pass_time(31.0, 0.5)
        self.assertEqual(told, [])
        self.routes["T"] = route(("a", 10001), queues=3)
        self.pass_time(31.0, 0.5)
        self.assertEqual(told, [("T", 3)])
        self.assertEqual(len(self.consumer.queues), 3)


class _Received(ClientEvents):
    """
    A listener of a client's events.

    @ivar calls: group, queue and messages of each event of messages that were asked for.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, MessageQueue, list[ReceivedMessage]]] = []

    def received(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage], seconds: float) -> None:
        """Keep the event."""
        self.calls.append((group, queue, messages))


class PollTests(ClusterCase):
    """What polls return."""

    async def start(self, group: str = "g", **settings: object) -> LitePullConsumer:
        """Start a consumer of topic T, which begins at the first message."""
        chosen = LitePullSettings(begin=FIRST, **settings)  # type: ignore[arg-type]
        consumer = LitePullConsumer(self.make_client(), group, chosen)
        consumer.subscribe("T")
        await consumer.start()
        return consumer

    async def polled(self, consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
        """Poll until that many messages are there."""
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += await consumer.poll()
        return found

    async def send_to_one(self, count: int) -> MessageQueue:
        """Send messages to one queue of T; return the queue."""
        queue = (await self.producer.send(Message(topic="T", body=b"0"))).queue
        for number in range(1, count):
            await self.producer.send_to(Message(topic="T", body=b"%d" % number), queue)
        return queue

    @coroutine
    async def test_all(self) -> None:
        """All messages are polled, those of a queue in order; limits of what is fetched only slow it down."""
        ids = await self.send("T", 100)
        consumer = await self.start(thresholds=Thresholds(count=1), count_of_all=3, batch=2)
        found = await self.polled(consumer, 100)
        self.assertEqual(sorted(one.message_id for one in found), sorted(ids))
        for queue in consumer.queues:
            self.assertEqual([one.queue_offset for one in found if one.queue == queue], list(range(25)))

    @coroutine
    async def test_auto_commit(self) -> None:
        """A poll commits what earlier polls returned, a stop nothing more; the next member goes on there."""
        queue = await self.send_to_one(20)
        consumer = await self.start(commit_interval=0.05)
        self.assertEqual([one.body for one in await consumer.poll()], [b"%d" % number for number in range(10)])
        self.assertEqual(await consumer.committed(queue), 0)
        self.assertEqual((await consumer.poll())[0].queue_offset, 10)
        position: int | None = 0
        while position != 10:
            position = await consumer.committed(queue)
        await consumer.stop()
        after = await self.start()
        self.assertEqual(await after.committed(queue), 10)
        self.assertEqual((await after.poll())[0].queue_offset, 10)
        await after.commit()
        await after.stop()
        self.assertEqual(await (await self.start()).committed(queue), 20)

    @coroutine
    async def test_commit(self) -> None:
        """Without automatic commits only commit commits: everything polled, or the offsets given."""
        queue = await self.send_to_one(20)
        consumer = await self.start(auto_commit=False)
        await self.polled(consumer, 20)
        await consumer.commit({queue: 5})
        self.assertEqual(await consumer.committed(queue), 5)
        await consumer.stop()
        again = await self.start(auto_commit=False)
        found = await self.polled(again, 15)
        self.assertEqual([one.queue_offset for one in found], list(range(5, 20)))
        await again.commit()
        self.assertEqual(await again.committed(queue), 20)

    @coroutine
    async def test_traced(self) -> None:
        """A client with traces tells of each poll that returned messages, and of each pull of a pull consumer."""
        queue = await self.send_to_one(3)
        client = Client(self.env, self.node.registry, trace="Traces")
        self.clients.append(client)
        told = _Received()
        client.events.listeners.append(told)
        consumer = LitePullConsumer(client, "g", LitePullSettings(begin=FIRST))
        consumer.subscribe("T")
        await consumer.start()
        found = await consumer.poll()
        self.assertEqual(await consumer.poll(0.0), [])
        puller = PullConsumer(client, "other")
        pulled = await puller.pull(queue, 1)
        self.assertEqual((await puller.pull(queue, 3)).messages, [])
        self.assertEqual(told.calls, [("g", queue, found), ("other", queue, pulled.messages)])
        await consumer.stop()
        await client.stop()  # sends its traces
        admin = Admin(self.client).messages
        for one, groups in ((found[0], {"g"}), (found[2], {"g", "other"})):
            trace = await admin.trace(one.message_id, "Traces")
            self.assertEqual({(event.kind, event.group, event.result) for event in trace.events},
                             {("consumed", group, "success") for group in groups})  # fmt: skip

    @coroutine
    async def test_seek(self) -> None:
        """Polls go on where a seek says; a place that the queue does not have, or a queue of others, is refused."""
        queue = await self.send_to_one(20)
        consumer = await self.start()
        await self.polled(consumer, 20)
        await consumer.seek(queue, 17)
        self.assertEqual([one.queue_offset for one in await self.polled(consumer, 3)], [17, 18, 19])
        await consumer.seek_to_begin(queue)
        self.assertEqual((await consumer.poll())[0].queue_offset, 0)
        await consumer.seek_to_end(queue)
        await self.producer.send_to(Message(topic="T", body=b"new"), queue)
        self.assertEqual([one.body for one in await self.polled(consumer, 1)], [b"new"])
        seeking: Deferred[Any] = consumer.seek(queue, 99)
        error = await self.assertFailure(seeking, SettingError)
        self.assertIn("has the offsets 0 to 21, not 99", str(error))
        stranger = LitePullConsumer(self.make_client(), "other")
        await self.assertFailure(stranger.seek_to_begin(queue), SettingError, CallFailed)
        found = await consumer.offset_for_time(queue, 0)
        self.assertEqual(found, 0)

    @coroutine
    async def test_limit_of_all(self) -> None:
        """A queue that waits because others are full goes on when these are assigned to somebody else."""
        await self.send("T", 40)
        consumer = LitePullConsumer(self.make_client(), "g", LitePullSettings(begin=FIRST, count_of_all=3))
        full, other = (await consumer.fetch_queues("T"))[:2]
        await consumer.assign([full])
        await consumer.start()
        info = self.clients[-1].consumers["g"].running_info
        await self.until(lambda: info().mq_table[full].cached_msg_count > 3)
        await consumer.assign([full, other])
        await consumer.assign([other])
        self.assertEqual({one.queue for one in await consumer.poll()}, {other})

    @coroutine
    async def test_pause(self) -> None:
        """Nothing comes from a paused queue, fetched or not, until it is resumed."""
        queue = await self.send_to_one(5)
        consumer = await self.start(batch=1)
        self.assertEqual((await consumer.poll())[0].body, b"0")
        consumer.pause([queue])
        self.assertEqual(await consumer.poll(0.2), [])
        waiting = consumer.poll()
        consumer.resume([queue])
        self.assertEqual((await waiting)[0].body, b"1")
        await self.polled(consumer, 3)

    @coroutine
    async def test_members(self) -> None:
        """Two members share the queues; tools see both as active; what one leaves, the other reads."""
        await self.send("T", 40)
        members = [await self.start() for _ in range(2)]
        await self.until(lambda: all(len(one.queues) == 2 for one in members))
        connections = await Admin(self.client).groups.connections("g")
        assert connections is not None
        self.assertEqual(connections.consume_type, ConsumeType.CONSUME_ACTIVELY)
        await members[0].stop()
        await self.until(lambda: len(members[1].queues) == 4)
        found = await self.polled(members[1], 40)
        self.assertEqual(len({one.message_id for one in found}), 40)

    @coroutine
    async def test_broadcast(self) -> None:
        """A broadcasting group keeps its offsets on this machine."""
        await self.send_to_one(5)
        settings = {"model": MessageModel.BROADCASTING, "offsets_directory": f"{self.root}/offsets"}
        consumer = await self.start(**settings)
        await self.polled(consumer, 5)
        await consumer.commit()
        await consumer.stop()
        again = await self.start(**settings)
        self.assertEqual(await again.poll(0.3), [])

    @coroutine
    async def test_missing(self) -> None:
        """The queues of a topic that does not exist cannot be fetched."""
        consumer = LitePullConsumer(self.make_client(), "g")
        fetching: Deferred[Any] = consumer.fetch_queues("Nowhere")
        refusal = await self.assertFailure(fetching, PeerRefused)
        self.assertEqual(refusal.code, 17)
