"""confluent-kafka under load: Kafka's client in C, librdkafka, with a face for Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from . import session
from .meter import Meter, Order, now

_POLL = 1.0  # seconds to wait for events


def send(producer: Producer, order: Order) -> Meter:
    """Keep a number of messages in flight; their deliveries are reported to a function."""
    meter, body = Meter(order), bytes(order.body)
    in_flight = 0
    goes_on = True

    def delivered(began: float, error: KafkaError | None, message: Any) -> None:
        nonlocal in_flight, goes_on
        in_flight -= 1
        if error is not None:
            raise KafkaException(error)
        goes_on = meter.note(began)

    while goes_on or in_flight:
        while goes_on and in_flight < order.in_flight:
            producer.produce(order.topic, body, on_delivery=partial(delivered, now()))
            in_flight += 1
        producer.poll(_POLL)
    return meter


def consume(address: str, order: Order) -> Meter:
    """Consume a topic from its beginning, a message at a time."""
    meter = Meter(order)
    settings = {"bootstrap.servers": address, "group.id": order.group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([order.topic])
    try:
        goes_on = True
        while goes_on:
            message = consumer.poll(_POLL)
            if message is not None:
                if message.error() is not None:
                    raise KafkaException(message.error())
                goes_on = meter.note()
    finally:
        consumer.close()
    return meter


def main(arguments: Sequence[str]) -> None:
    """Run with the address of a broker."""
    address = arguments[0]
    producer = Producer({"bootstrap.servers": address, "acks": 1, "linger.ms": 0})
    session.ready()
    while (order := session.next_order()) is not None:
        try:
            meter = send(producer, order) if order.kind == "send" else consume(address, order)
        except Exception as error:
            session.failed(error)
        else:
            session.answer(meter)
    producer.flush()
