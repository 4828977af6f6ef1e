"""Subscriptions that wait for their consumer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.filters import Sql
from smartgo.client.internal.subscriptionlist import SubscriptionList
from smartgo.errors import BadName, SubscriptionParseFailed


class Subscriber:
    """A consumer that notes what it subscribes to."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | Sql]] = []

    def subscribe(self, topic: str, expression: str | Sql) -> None:
        """Note it."""
        self.seen.append((topic, expression))


class SubscriptionTests(SynchronousTestCase):
    def test_applied(self) -> None:
        """A consumer subscribes to all topics, each with the expression that was given last."""
        wants = SubscriptionList("g")
        self.assertFalse(wants)
        sql = Sql("a > 1")
        for topic, expression in (("A", "*"), ("B", sql), ("A", "red || blue")):
            wants.add(topic, expression)
        self.assertTrue(wants)
        consumer = Subscriber()
        wants.apply(consumer)
        self.assertEqual(consumer.seen, [("A", "red || blue"), ("B", sql)])

    def test_checked(self) -> None:
        """Names and expressions are checked at once, and what is wrong is not kept."""
        self.assertRaises(BadName, SubscriptionList, "no group")
        wants = SubscriptionList("g")
        self.assertRaises(BadName, wants.add, "no topic", "*")
        self.assertRaises(SubscriptionParseFailed, wants.add, "A", "||")
        self.assertFalse(wants)
