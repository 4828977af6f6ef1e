"""smartgo's client on Twisted, under load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater, react
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogBeginner, textFileLogObserver

from smartgo import (
    Client,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    RealEnvironment,
    ReceivedMessage,
)

from . import session
from .meter import Meter, Order, now


async def send(producer: Producer, order: Order) -> Meter:
    """Keep a number of sends in flight, each awaited by a coroutine of its own."""
    meter, body = Meter(order), bytes(order.body)

    async def keep_sending() -> None:
        goes_on = True
        while goes_on:
            began = now()
            await producer.send(Message(topic=order.topic, body=body))
            goes_on = meter.note(began)

    await gatherResults([Deferred.fromCoroutine(keep_sending()) for _ in range(order.in_flight)], consumeErrors=True)
    return meter


async def consume(reactor: Any, client: Client, order: Order) -> Meter:
    """Consume a topic from its beginning by a listener."""
    ended: Deferred[None] = Deferred()
    meter = Meter(order, lambda: ended.callback(None))

    def listener(messages: list[ReceivedMessage]) -> None:
        for _ in messages:
            meter.note()

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, order.group, listener, settings)
    consumer.subscribe(order.topic)
    await consumer.start()
    await ended
    await deferLater(reactor, 0)  # the last call of the listener returns first
    await consumer.stop()
    return meter


async def serve(reactor: Any, registry: str) -> None:
    """Carry out orders until there are no more."""
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "ClientCost", timeout=10.0)
    await producer.start()
    session.ready()
    while (order := await deferToThread(session.next_order)) is not None:
        try:
            meter = await (send(producer, order) if order.kind == "send" else consume(reactor, client, order))
        except Exception as error:
            session.failed(error)
        else:
            session.answer(meter)
    await client.stop()


def main(arguments: Sequence[str]) -> None:
    """Run with the address of a registry."""
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    react(lambda reactor: Deferred.fromCoroutine(serve(reactor, arguments[0])))
