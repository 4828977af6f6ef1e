"""Consume in two machine rooms, each from the brokers of its own; start a broker first (C{smartgo dev})."""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import (
    AllocateAveragely,
    AllocateMachineRoomNearby,
    Client,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    RealEnvironment,
)

ROOM_OF_BROKER = {"broker-a": "east", "broker-b": "west"}


def broker_room(queue):
    return ROOM_OF_BROKER.get(queue.broker_name, "east")


def client_room(client_id):
    return client_id.rpartition("@")[2].partition("-")[0]  # address@room-number, of Client(..., instance="room-number")


async def work(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry, instance="east-1")
    producer = Producer(client, "example-producers")
    await producer.start()
    await producer.send(Message(topic="Rooms", body=b"near"))

    done = Deferred()
    strategy = AllocateMachineRoomNearby(AllocateAveragely(), broker_room, client_room)
    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, strategy=strategy)
    consumer = PushConsumer(client, "room-consumers", lambda messages: done.callback(messages[0].body), settings)
    consumer.subscribe("Rooms")
    await consumer.start()
    print("consumed", (await done).decode(), "by", strategy.name)
    await client.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
