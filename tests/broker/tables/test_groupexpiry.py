"""Deletion of groups that came about by their mere use and were never of any."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groupexpiry import GroupExpiry
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.errors import RequestRefused
from smartgo.schema.bodies import ConsumerData, SubscriptionGroupConfig
from tests.broker.doubles import FakePeer, FakeStore, change, current
from tests.fakes import FakeClock


class GroupExpiryTests(SynchronousTestCase):
    """Groups that come and go."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.topics = TopicTable(self.clock)
        self.settings = current()
        self.groups = GroupTable(self.clock, settings=self.settings)
        self.offsets = OffsetTable(self.clock)
        self.consumers = ConsumerTable(self.clock)
        self.store = FakeStore()
        self.expiry = GroupExpiry(
            self.clock,
            self.groups,
            self.topics,
            self.offsets,
            self.consumers,
            self.store,  # type: ignore[arg-type]
        )
        self.expiry.start()
        self.peer = FakePeer()

    def join(self, name: str) -> None:
        """A member comes, as by a heartbeat."""
        self.groups.find(name)
        self.topics.create_for_group(f"%RETRY%{name}", 1)
        data = ConsumerData(group_name=name)
        self.consumers.register(data, [], self.peer, "c", 0, 0)

    def wait(self, minutes: float) -> None:
        """Let time pass."""
        self.clock.pump([30.0] * round(minutes * 2))

    def test_deleted(self) -> None:
        """A group that nobody used is deleted some minutes after its last member left, with its empty retry topic."""
        self.join("g")
        self.wait(20)
        self.assertIn("g", self.groups)
        self.consumers.disconnected(self.peer)
        self.wait(8)
        self.assertIn("g", self.groups)
        self.wait(4)
        self.assertEqual((len(self.groups), len(self.topics)), (0, 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.topics.removed.counts(), {})  # what is remembered there of others is not pushed out

    def test_twenty_thousand(self) -> None:
        """Heartbeats of 1,000 groups on 20 connections do not fill the table, nor what they fill of it for good."""
        local = FakePeer("127.0.0.1:5")
        for number in range(10_000):
            self.groups.find(f"g{number}", local)
            self.topics.create_for_group(f"%RETRY%g{number}", 1)
        self.assertRaises(RequestRefused, self.groups.find, "more", local)
        self.groups.find("other", FakePeer())
        self.wait(13)
        self.assertEqual((len(self.groups), len(self.topics), self.clock.getDelayedCalls()), (0, 0, []))
        self.groups.find("mine", local)

    def test_used(self) -> None:
        """A group stays that committed an offset, has dead letters, had members for an hour, or was wanted."""
        for name in ("committed", "dead", "long", "wanted", "unused"):
            self.join(name)
        self.groups.update(SubscriptionGroupConfig(group_name="wanted"))
        self.topics.create_for_group("%DLQ%dead", 1)
        self.offsets.commit("committed", "T", 0, 1)
        self.consumers.disconnected(self.peer)
        self.join("long")
        self.wait(62)
        self.consumers.disconnected(self.peer)
        self.wait(30)
        self.assertEqual(self.groups.names(), ["committed", "dead", "long", "wanted"])
        self.assertEqual((self.groups.unused, self.clock.getDelayedCalls()), ({}, []))

    def test_retry_topic_with_messages(self) -> None:
        """A retry topic stays in which something was ever stored."""
        self.join("g")
        self.store.stored["%RETRY%g", 0] = (7, [])
        self.consumers.disconnected(self.peer)
        self.wait(13)
        self.assertEqual((self.groups.names(), self.topics.names()), ([], ["%RETRY%g"]))

    def test_without_auto_creation(self) -> None:
        """While groups do not come about by themselves none is deleted."""
        self.join("g")
        self.consumers.disconnected(self.peer)
        change(self.settings, auto_create_subscription_group=False)
        self.wait(60)
        self.assertIn("g", self.groups)
        change(self.settings)
        self.wait(2)
        self.assertNotIn("g", self.groups)

    def test_stop(self) -> None:
        """Stopped it sets no more timers."""
        self.join("g")
        self.expiry.stop()
        self.join("h")
        self.assertEqual(self.clock.getDelayedCalls(), [])
