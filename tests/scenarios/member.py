"""
A consumer that misbehaves: C{python -m tests.scenarios.member REGISTRIES GROUP TOPIC hang|refuse}.

C{hang}: its listener never returns. C{refuse}: it fails at every message.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.env.real import RealEnvironment
from smartgo.schema.bodies import ConsumeFromWhere


async def _hang(messages: Sequence[Any]) -> None:
    await Deferred()


async def _refuse(messages: Sequence[Any]) -> None:
    raise ConsumeLater(0)


async def work(reactor: Any, registries: str, group: str, topic: str, behaviour: str) -> None:
    """Consume until this process is ended."""
    client = Client(RealEnvironment(reactor), registries, f"{group}-member")
    listener = {"hang": _hang, "refuse": _refuse}[behaviour]
    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, group, listener, settings)
    consumer.subscribe(topic, "*")
    await consumer.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    await Deferred()


if __name__ == "__main__":
    words = sys.argv[1:]
    task.react(lambda reactor: Deferred.fromCoroutine(work(reactor, *words)))
