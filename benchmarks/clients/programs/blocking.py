"""smartgo's client for programs that block, under load."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from smartgo.sync import (
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


def send(producer: Producer, order: Order) -> Meter:
    """Keep a number of sends in flight, each in a thread of its own; a single one in this thread."""
    meter, body = Meter(order), bytes(order.body)

    def keep_sending() -> None:
        goes_on = True
        while goes_on:
            began = now()
            producer.send(Message(topic=order.topic, body=body))
            goes_on = meter.note(began)

    if order.in_flight == 1:
        keep_sending()
        return meter
    with ThreadPoolExecutor(order.in_flight) as threads:
        for each in [threads.submit(keep_sending) for _ in range(order.in_flight)]:
            each.result()
    return meter


def consume(client: Client, order: Order) -> Meter:
    """Consume a topic from its beginning by a listener in threads."""
    ended = threading.Event()
    meter = Meter(order, ended.set)

    def listener(messages: list[ReceivedMessage]) -> None:
        for _ in messages:
            meter.note()

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, order.group, listener, settings)
    consumer.subscribe(order.topic)
    with consumer:
        ended.wait()
    return meter


def main(arguments: Sequence[str]) -> None:
    """Run with the address of a registry."""
    with Client(arguments[0]) as client, Producer(client, "ClientCost", timeout=10.0) as producer:
        session.ready()
        while (order := session.next_order()) is not None:
            try:
                meter = send(producer, order) if order.kind == "send" else consume(client, order)
            except Exception as error:
                session.failed(error)
            else:
                session.answer(meter)
