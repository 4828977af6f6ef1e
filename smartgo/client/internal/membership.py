"""The membership of a push consumer in its group, which its parts share."""

from __future__ import annotations

from dataclasses import dataclass

from smartgo.client.client import Client
from smartgo.client.internal.offsets import IOffsetStore
from smartgo.client.listening import ConsumerSettings
from smartgo.client.pullconsumer import QueueCalls


@dataclass(frozen=True)
class Membership:
    """
    A client as a member of a consumer group.

    @ivar client: whose connections, routes and heartbeats it uses.
    @ivar group: the group's name.
    @ivar settings: how the member behaves.
    @ivar calls: its requests to brokers about queues.
    @ivar offsets: where the offsets that it consumed up to are kept.
    """

    client: Client
    group: str
    settings: ConsumerSettings
    calls: QueueCalls
    offsets: IOffsetStore
