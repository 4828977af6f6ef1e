"""Sentences about a missing process: how it left, what works without it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.ops.membership.effects import detail, effect
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.membership.table import MembershipTable

A0 = BrokerPlace("c", "broker-a", 0, "a:1")
A1 = BrokerPlace("c", "broker-a", 1, "a:2")
A2 = BrokerPlace("c", "broker-a", 2, "a:3")
B0 = BrokerPlace("c", "broker-b", 0, "b:1")
OTHER = BrokerPlace("other", "broker-x", 0, "x:1")


class EffectTests(SynchronousTestCase):
    """What works, and what does not."""

    def setUp(self) -> None:
        """Two brokers, one with two slaves, and a broker of another cluster."""
        self.table = MembershipTable()
        self.table.observe([A0, A1, A2, B0, OTHER], 1000)

    def effect(self, *there: BrokerPlace, of: str = "broker-a") -> str:
        """Return what is said of a process while only these are there."""
        self.table.observe([*there, OTHER], 2000)
        statuses = self.table.statuses()
        [status] = [one for one in statuses if one.member.subject == of]
        self.assertEqual(status.state, "missing")
        return effect(status, statuses)

    def test_master_with_slaves(self) -> None:
        """The slaves that answer serve reads; which masters take messages is said, or that none does."""
        self.assertEqual(
            self.effect(A1, B0),
            "Its messages can be read at slave 1; nothing can be stored. Masters that answer: broker-b.",
        )
        self.assertEqual(
            self.effect(A1, A2),
            "Its messages can be read at slaves 1, 2; nothing can be stored. No master answers: every send fails.",
        )

    def test_all_gone(self) -> None:
        """What cannot be reached is counted, or was never counted."""
        self.assertEqual(
            self.effect(B0),
            "What it stored is not known, and cannot be reached. Masters that answer: broker-b.",
        )
        self.table.counted("broker-a", {"T": TopicContent(4, 1001), "U": TopicContent(1, 0)}, ["T", "U"], 1500)
        self.assertEqual(
            self.effect(B0), "1,001 messages and 5 queues cannot be reached. Masters that answer: broker-b."
        )
        self.table.counted("broker-a", {"T": TopicContent(1, 1)}, ["T"], 1500)
        self.assertEqual(
            self.effect(B0, of="broker-a#1"), "1 message and 1 queue cannot be reached. Masters that answer: broker-b."
        )

    def test_slave(self) -> None:
        """Without a slave all goes on; how many copies are left is said."""
        self.assertEqual(
            self.effect(A0, A2, B0, of="broker-a#1"), "Its master and slave 2 answer: sends and reads go on."
        )
        self.assertEqual(
            self.effect(A0, B0, of="broker-a#1"),
            "Its master answers: sends and reads go on, and new messages are stored only there.",
        )

    def test_silent(self) -> None:
        """A process that is registered and does not answer serves nobody."""
        self.table.answered({B0.address: False, A1.address: False}, 1500)
        self.assertEqual(
            self.effect(A1, B0),
            "What it stored is not known, and cannot be reached. No master answers: every send fails.",
        )

    def test_many(self) -> None:
        """Of many masters that answer some are named, and the rest are counted."""
        masters = [BrokerPlace("c", f"broker-{number:02d}", 0, f"192.0.2.{number}:1") for number in range(10, 19)]
        said = self.effect(A1, *masters)
        self.assertEqual(said.count("broker-"), 8)
        self.assertTrue(said.endswith("broker-17 and 1 more."), said)

    def test_unrouted(self) -> None:
        """Slaves whose topics the registries do not know serve nobody."""
        self.table.routed(["broker-a"])
        self.assertEqual(
            self.effect(A1, B0),
            "The registries do not know the topics of slave 1: nobody finds its messages, and nothing can be stored."
            " Masters that answer: broker-b.",
        )

    def test_departure(self) -> None:
        """How it left comes first, where it is known."""
        self.table.observe([B0], 2000, {"broker-a": {0: 1_700_000_000_000}})
        statuses = {one.member.subject: one for one in self.table.statuses()}
        everybody = list(statuses.values())
        self.assertTrue(
            detail(statuses["broker-a"], everybody).startswith(
                "It was stopped in order at 2023-11-14 22:13:20 UTC. What it stored is not known"
            )
        )
        self.assertTrue(
            detail(statuses["broker-a#1"], everybody).startswith(
                "It was not stopped in order: it died, or it cannot reach its registries. What it"
            )
        )
        statuses["broker-a"].member.left = None
        self.assertTrue(detail(statuses["broker-a"], everybody).startswith("What it stored"))
