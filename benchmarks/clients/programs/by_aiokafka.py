"""aiokafka under load: Kafka's client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from . import session
from .meter import Meter, Order, now


async def send(producer: AIOKafkaProducer, order: Order) -> Meter:
    """Keep a number of sends in flight, each awaited by a task of its own."""
    meter, body = Meter(order), bytes(order.body)

    async def keep_sending() -> None:
        goes_on = True
        while goes_on:
            began = now()
            await producer.send_and_wait(order.topic, body)
            goes_on = meter.note(began)

    await asyncio.gather(*(keep_sending() for _ in range(order.in_flight)))
    return meter


async def consume(address: str, order: Order) -> Meter:
    """Consume a topic from its beginning, a message at a time."""
    meter = Meter(order)
    consumer = AIOKafkaConsumer(
        order.topic, bootstrap_servers=address, group_id=order.group, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        async for _ in consumer:
            if not meter.note():
                break
    finally:
        await consumer.stop()
    return meter


async def serve(address: str) -> None:
    """Carry out orders until there are no more."""
    loop = asyncio.get_running_loop()
    producer = AIOKafkaProducer(bootstrap_servers=address, acks=1)
    await producer.start()
    session.ready()
    try:
        while (order := await loop.run_in_executor(None, session.next_order)) is not None:
            try:
                meter = await (send(producer, order) if order.kind == "send" else consume(address, order))
            except Exception as error:
                session.failed(error)
            else:
                session.answer(meter)
    finally:
        await producer.stop()


def main(arguments: Sequence[str]) -> None:
    """Run with the address of a broker."""
    asyncio.run(serve(arguments[0]))
