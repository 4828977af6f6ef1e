"""smartgo's client on asyncio, under load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from smartgo.aio import (
    Client,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)

from . import session
from .meter import Meter, Order, now


async def send(producer: Producer, order: Order) -> Meter:
    """Keep a number of sends in flight, each awaited by a task of its own."""
    meter, body = Meter(order), bytes(order.body)

    async def keep_sending() -> None:
        goes_on = True
        while goes_on:
            began = now()
            await producer.send(Message(topic=order.topic, body=body))
            goes_on = meter.note(began)

    await asyncio.gather(*(keep_sending() for _ in range(order.in_flight)))
    return meter


async def consume(client: Client, order: Order) -> Meter:
    """Consume a topic from its beginning by a coroutine function as listener."""
    ended = asyncio.Event()
    meter = Meter(order, ended.set)

    async def listener(messages: list[ReceivedMessage]) -> None:
        for _ in messages:
            meter.note()

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, order.group, listener, settings)
    consumer.subscribe(order.topic)
    async with consumer:
        await ended.wait()
    return meter


async def serve(registry: str) -> None:
    """Carry out orders until there are no more."""
    loop = asyncio.get_running_loop()
    async with Client(registry) as client, Producer(client, "ClientCost", timeout=10.0) as producer:
        session.ready()
        while (order := await loop.run_in_executor(None, session.next_order)) is not None:
            try:
                meter = await (send(producer, order) if order.kind == "send" else consume(client, order))
            except Exception as error:
                session.failed(error)
            else:
                session.answer(meter)


def main(arguments: Sequence[str]) -> None:
    """Run with the address of a registry."""
    asyncio.run(serve(arguments[0]))
