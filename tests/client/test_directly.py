"""A client that is told to consume one message now, against our own registry and broker."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from smartgo.client.admin import Admin
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.served import ServedRequests
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.errors import RequestRefused
from smartgo.schema.bodies import ConsumerStatusBody, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest, ConsumerStatusRequest
from tests.broker.doubles import FakePeer
from tests.client.test_cluster import FIRST, ClusterCase, coroutine


class DirectlyTests(ClusterCase):
    """309, all the way."""

    @coroutine
    async def test_outcomes(self) -> None:
        """The listener gets the message once more; what it does is told: done, later, or what it raised."""
        await self.producer.send(Message(topic="T", body=b"good", keys=["k"]))
        seen: list[ReceivedMessage] = []
        does: list[Exception | None] = []

        def listener(messages: list[ReceivedMessage]) -> Deferred[None] | None:
            seen.extend(messages)
            error = does.pop() if does else None
            if error is not None:
                raise error
            return None

        client = self.make_client()
        for group, orderly in (("g1", False), ("g2", True)):
            seen.clear()
            consumer = PushConsumer(client, group, listener, ConsumerSettings(begin=FIRST, orderly=orderly))
            consumer.subscribe("T")
            await consumer.start()
            await self.until(lambda: len(seen) == 1)
            admin = Admin(self.client)
            (message,) = await admin.messages.by_key("T", "k")
            for error, expected, remark in (
                (None, "CR_SUCCESS", None),
                (ConsumeLater(), "CR_LATER", None),
                (ValueError("hard"), "CR_THROW_EXCEPTION", "ValueError: hard"),
            ):
                does.append(error)
                result = await admin.deliveries.consume_directly(group, client.id, message.queue, message.offset_id)
                self.assertEqual((result.consume_result, result.remark, result.order), (expected, remark, orderly))
                self.assertEqual((seen[-1].body, seen[-1].message_id), (b"good", message.message_id))
                self.assertEqual(seen[-1].queue, message.queue)
            self.assertEqual(len(seen), 4)
            self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
            await consumer.stop()

    @coroutine
    async def test_refused(self) -> None:
        """A group that the client has no consumer of, and bytes that are no message, are refused in words."""
        consumer = PushConsumer(self.client, "g", lambda messages: None)
        consumer.subscribe("T")
        await self.producer.send(Message(topic="T", body=b"x"))
        await consumer.start()
        for group, expected in (("other", "not exist"), ("g", "cannot be read")):
            header = ConsumeDirectlyRequest(consumer_group=group, client_id=self.client.id)
            request = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, b"nonsense")
            error = self.assertRaises(
                RequestRefused,
                ServedRequests(self.client.consumers, {}, self.client.replies).process,
                FakePeer(),
                request,
            )
            self.assertIn(expected, str(error))


class StatusTests(ClusterCase):
    """The offsets that a consumer tells (221)."""

    @coroutine
    async def test_offsets(self) -> None:
        """A member tells how far it is in each of its queues of a topic; for a group that is not here it refuses."""
        for _ in range(3):
            sent = await self.producer.send(Message(topic="T", body=b"x"))
        seen: list[ReceivedMessage] = []
        consumer = PushConsumer(self.client, "g", seen.extend, ConsumerSettings(begin=FIRST))
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(seen) == 3)
        served = ServedRequests(self.client.consumers, {}, self.client.replies)

        def asked(group: str, topic: str) -> dict[MessageQueue, int]:
            header = ConsumerStatusRequest(topic=topic, group=group)
            answer = served.process(FakePeer(), Command.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header))
            assert isinstance(answer, Command)
            return ConsumerStatusBody.decode(answer.body).message_queue_table

        await self.until(lambda: sum(asked("g", "T").values()) == 3)
        self.assertEqual({queue.topic for queue in asked("g", "T")}, {"T"})
        self.assertIn(sent.queue, asked("g", "T"))
        self.assertEqual(asked("g", "other"), {})
        self.assertRaises(RequestRefused, asked, "nobody", "T")
        await consumer.stop()
