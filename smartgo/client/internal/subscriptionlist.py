"""Subscriptions that wait for the consumer that they are for."""

from __future__ import annotations

from typing import Protocol

from smartgo.client.filters import Sql
from smartgo.client.internal.subscription import subscription
from smartgo.schema.topics import check_group, check_topic


class Subscribes(Protocol):
    """A consumer that was not started."""

    def subscribe(self, topic: str, expression: str | Sql) -> None:
        """Subscribe to a topic."""


class SubscriptionList:
    """The subscriptions of a consumer that is made later; each is checked when it is added."""

    def __init__(self, group: str) -> None:
        """
        @raise BadName: the group's name breaks the rules.
        """
        check_group(group)
        self._wants: dict[str, str | Sql] = {}

    def __bool__(self) -> bool:
        return bool(self._wants)

    def add(self, topic: str, expression: str | Sql) -> None:
        """
        Add a subscription, in the place of one to the same topic.

        @raise BadName: the topic's name breaks the rules.
        @raise SubscriptionParseFailed: the expression names no tag.
        """
        check_topic(topic)
        subscription(topic, expression, 0)
        self._wants[topic] = expression

    def apply(self, consumer: Subscribes) -> None:
        """Subscribe a consumer to all of them."""
        for topic, expression in self._wants.items():
            consumer.subscribe(topic, expression)
