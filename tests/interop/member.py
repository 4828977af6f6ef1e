"""
A program of users: one member of a concurrent and of an orderly group, with our client.

It prints a line of JSON for each message that it consumes, before the message counts as consumed, until it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Client, ConsumeFromWhere, ConsumerSettings, PushConsumer, RealEnvironment, ReceivedMessage


def _print(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _consume(group: str, messages: list[ReceivedMessage]) -> None:
    for message in messages:
        _print(
            {
                "event": "message",
                "group": group,
                "queueId": message.queue.queue_id,
                "queueOffset": message.queue_offset,
                "text": message.body.decode(),
                "nowMs": time.time_ns() // 1_000_000,
            }
        )


async def _join(reactor: Any, registry: str, topic: str, concurrent: str, orderly: str, name: str) -> None:
    client = Client(RealEnvironment(reactor), registry, instance=name)
    for group in (concurrent, orderly):
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, orderly=group == orderly)
        consumer = PushConsumer(client, group, partial(_consume, group), settings)
        consumer.subscribe(topic)
        await consumer.start()
    _print({"event": "started"})
    await Deferred()


def main(reactor: Any, *arguments: str) -> Deferred[None]:
    """Join; the arguments are the registry, the topic, both groups and the name of the client's instance."""
    return Deferred.fromCoroutine(_join(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
