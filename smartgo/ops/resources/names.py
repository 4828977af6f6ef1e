"""Names and numbers in requests, with their limits (reliability L5, B3, B5)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_NAME = "^[%|a-zA-Z0-9_-]+$"

TopicName = Annotated[str, Meta(min_length=1, max_length=127, pattern=_NAME, description="A topic's name.")]
GroupName = Annotated[str, Meta(min_length=1, max_length=255, pattern=_NAME, description="A consumer group's name.")]
BrokerName = Annotated[
    str, Meta(min_length=1, max_length=127, pattern="^[%|a-zA-Z0-9_.-]+$", description="A broker's name.")
]
Brokers = Annotated[
    Annotated[list[BrokerName], Meta(min_length=1, max_length=64)] | None,
    Meta(description="Only at these brokers; null: at those that have it, or at all if none has."),
]
ClientId = Annotated[
    str, Meta(min_length=1, max_length=255, pattern="^[!-.0-~]+$", description="A client's id, ASCII without a slash.")
]
Namespace = Annotated[
    str, Meta(min_length=1, max_length=127, pattern="^[a-zA-Z0-9_.%-]+$", description="A namespace of the registry.")
]
KvKey = Annotated[
    str, Meta(min_length=1, max_length=255, pattern="^[%|a-zA-Z0-9_.@:-]+$", description="A key in a namespace.")
]
QueueCount = Annotated[int, Meta(ge=1, le=1024, description="Queues at each broker.")]


class TopicPath(msgspec.Struct):
    """One topic."""

    name: TopicName


class GroupPath(msgspec.Struct):
    """One consumer group."""

    name: GroupName


class BrokerPath(msgspec.Struct):
    """One broker: its master."""

    name: BrokerName


BrokerId = Annotated[
    Annotated[int, Meta(ge=0, le=1 << 31)] | None,
    Meta(description="0: the master; others: that slave; null: the master, if there is one."),
]


class ProcessQuery(msgspec.Struct):
    """The process of a broker, by its id."""

    id: BrokerId = None


class MemberPath(msgspec.Struct):
    """One client in one group."""

    name: GroupName
    client: ClientId


class ClientPath(msgspec.Struct):
    """One client."""

    id: ClientId


class NamespacePath(msgspec.Struct):
    """One namespace."""

    namespace: Namespace


class KvPath(msgspec.Struct):
    """One value."""

    namespace: Namespace
    key: KvKey
