"""The table of members: who is missing, what cannot be reached, and when a member is forgotten."""

from __future__ import annotations

import itertools

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.errors import BadBody
from smartgo.ops.membership import table
from smartgo.ops.membership.members import TopicContent, Unreachable, read_saved, state_of_broker
from smartgo.ops.membership.table import MembershipTable
from smartgo.tablefile import _encode

__doctests__ = ["smartgo.ops.membership.table"]

A0 = BrokerPlace("c", "broker-a", 0, "10.0.0.1:10911")
A1 = BrokerPlace("c", "broker-a", 1, "10.0.0.2:10911")
B0 = BrokerPlace("c", "broker-b", 0, "10.0.0.3:10911")


def states(members: MembershipTable) -> dict[str, tuple[str, str]]:
    """Return the state of each process and of its broker, by subject."""
    return {one.member.subject: (one.state, one.broker_state) for one in members.statuses()}


class StateTests(SynchronousTestCase):
    """The states of processes and brokers."""

    def test_all_states(self) -> None:
        """A broker of a master and two slaves is in the state that its processes make, in all 27 cases."""
        for master, one, other in itertools.product(("up", "down", "missing"), repeat=3):
            found = state_of_broker({0: master, 1: one, 2: other})  # type: ignore[dict-item]
            slaves = [one, other].count("up")
            if master == "up":
                self.assertEqual(found, "up" if slaves == 2 else "slave-missing")
            else:
                self.assertEqual(found, "no-master" if slaves else "missing")

    def test_nothing_known(self) -> None:
        """Before the registries were asked nobody is missing, and the members known are as they were saved."""
        members = MembershipTable()
        self.assertEqual((members.missing(), members.statuses(), members.observed), ([], [], False))
        members.observe([A0, A1], 1000)
        later = MembershipTable()
        later.restore(read_saved(_encode(members.saved())))
        self.assertEqual((later.missing(), later.places()), ([], [A0, A1]))
        later.observe([A1], 2000)
        self.assertEqual(states(later), {"broker-a": ("missing", "no-master"), "broker-a#1": ("up", "no-master")})

    def test_master_gone(self) -> None:
        """A master that is no longer registered is missing, whether a slave answers or not."""
        members = MembershipTable()
        self.assertTrue(members.observe([A0, A1, B0], 1000))
        self.assertFalse(members.observe([A0, A1, B0], 2000))
        self.assertEqual(set(states(members).values()), {("up", "up")})
        self.assertTrue(members.observe([A1], 3000))
        self.assertEqual(
            states(members),
            {
                "broker-a": ("missing", "no-master"),
                "broker-a#1": ("up", "no-master"),
                "broker-b": ("missing", "missing"),
            },
        )
        self.assertEqual(members.masterless(), ["broker-a"])
        self.assertEqual(members.gone(), {"broker-b": 2000})
        self.assertEqual(
            [(one.subject, one.last_seen_ms) for one in members.missing()], [("broker-a", 2000), ("broker-b", 2000)]
        )
        self.assertEqual(members.places(), [A1])

    def test_departures(self) -> None:
        """How a process left is known if the registry tells it, or if it was there a moment ago; it is kept."""
        members = MembershipTable()
        members.observe([A0, A1, B0], 1000)
        self.assertTrue(members.observe([B0], 2000, {"broker-a": {0: 1990}}))
        self.assertFalse(members.observe([B0], 2500, {"broker-a": {0: 1990}}))
        left = {one.subject: (one.left, one.left_ms) for one in members.missing()}
        self.assertEqual(left, {"broker-a": ("stopped", 1990), "broker-a#1": ("vanished", None)})
        later = MembershipTable()
        later.restore(read_saved(_encode(members.saved())))
        later.observe([], 3000)
        left = {one.subject: (one.left, one.left_ms) for one in later.missing()}
        self.assertEqual(
            left, {"broker-a": ("stopped", 1990), "broker-a#1": ("vanished", None), "broker-b": (None, None)}
        )
        later.observe([A0], 4000, {"broker-b": {0: 2900}})
        self.assertEqual([(one.left, one.left_ms) for one in later.members_of("broker-a", 0)], [(None, None)])
        self.assertEqual([(one.left, one.left_ms) for one in later.members_of("broker-b")], [("stopped", 2900)])

    def test_slave_gone(self) -> None:
        """A slave that is gone is missing, and its broker says so though the master answers."""
        members = MembershipTable()
        members.observe([A0, A1], 1000)
        members.observe([A0], 2000)
        self.assertEqual(
            states(members), {"broker-a": ("up", "slave-missing"), "broker-a#1": ("missing", "slave-missing")}
        )
        self.assertEqual((members.lost(), members.masterless()), ({}, []))

    def test_silent(self) -> None:
        """A registered process that does not answer is down, and so is its broker; it is up once it answers."""
        members = MembershipTable()
        members.observe([A0], 1000)
        members.answered({A0.address: False}, 1500)
        self.assertEqual(states(members), {"broker-a": ("down", "missing")})
        self.assertEqual((list(members.lost()), members.gone()), (["broker-a"], {}))
        members.answered({A0.address: True}, 1500)
        self.assertEqual(states(members), {"broker-a": ("up", "up")})

    def test_seen(self) -> None:
        """A process is seen where a registry has it, where it answers, and when it is stopped; not when it is gone."""
        members = MembershipTable()
        members.observe([A0, A1, B0], 1000)
        members.unobserved()
        members.answered({A0.address: True, A1.address: False, B0.address: True}, 5000)
        members.observe([], 6000, {"broker-b": {0: 5500}, "broker-a": {1: 9999}})
        members.answered({A0.address: True}, 7000)
        seen = {one.subject: one.last_seen_ms for one in members.missing()}
        self.assertEqual(seen, {"broker-a": 5000, "broker-a#1": 6000, "broker-b": 5500})

    def test_masterless_unobserved(self) -> None:
        """While no registry answers, a broker of which only a slave answers has no master."""
        members = MembershipTable()
        members.observe([A0, A1, B0], 1000)
        members.answered({A0.address: False, B0.address: False}, 2000)
        self.assertEqual((members.masterless(), members.registries_silent), ([], False))
        members.unobserved()
        self.assertEqual((members.masterless(), members.registries_silent), (["broker-a"], True))
        members.observe([A0, A1, B0], 3000)
        self.assertEqual((members.masterless(), members.registries_silent), ([], False))

    def test_returns(self) -> None:
        """A process that registers again is there again, at whatever address, with its first time."""
        members = MembershipTable()
        members.observe([A0], 1000)
        members.observe([], 2000)
        moved = BrokerPlace("c", "broker-a", 0, "10.0.0.9:10911")
        self.assertTrue(members.observe([moved], 3000))
        self.assertEqual(states(members), {"broker-a": ("up", "up")})
        [known] = members.members_of("broker-a")
        self.assertEqual((known.address, known.first_seen_ms, known.last_seen_ms), (moved.address, 1000, 3000))


class ContentTests(SynchronousTestCase):
    """What cannot be reached."""

    def setUp(self) -> None:
        self.members = MembershipTable()
        self.members.observe([A0, B0], 1000)
        topics = {"Orders": TopicContent(4, 1000), "Bills": TopicContent(2, 5), "%RETRY%g": TopicContent(1, 3)}
        self.members.counted("broker-a", topics, ["Orders", "Bills"], 1500)

    def test_unreachable(self) -> None:
        """What a missing broker had is told in total for the topics of applications, and topic by topic."""
        self.assertEqual((self.members.lost(), self.members.topics_lost()), ({}, {}))
        self.members.observe([B0], 2000)
        self.assertEqual(self.members.lost(), {"broker-a": Unreachable(2, 6, 1005, 1500)})
        lost = self.members.topics_lost()
        self.assertEqual(lost["Orders"], {"broker-a": TopicContent(4, 1000)})
        self.assertEqual(sorted(lost), ["%RETRY%g", "Bills", "Orders"])

    def test_timed(self) -> None:
        """Timed messages that wait are told beside the others, kept over a restart, and forgotten with the broker."""
        self.members.timed({"broker-a": 3, "broker-b": 0})
        self.members.observe([B0], 2000)
        expected = {"broker-a": Unreachable(2, 6, 1005, 1500, 3)}
        self.assertEqual(self.members.lost(), expected)
        again = MembershipTable()
        again.restore(read_saved(msgspec.json.encode(self.members.saved())))
        again.observe([B0], 3000)
        self.assertEqual(again.lost(), expected)
        before = again.saved()
        gone = again.members_of("broker-a")
        again.forget(gone)
        again.put_back(gone, before)
        self.assertEqual(again.lost(), expected)
        again.forget(gone)
        self.assertEqual((again.lost(), again.saved().timed), ({}, {"broker-b": 0}))

    def test_slave_answers(self) -> None:
        """Where a slave answers, its messages can be reached."""
        self.members.observe([A1, B0], 2000)
        self.assertEqual((self.members.lost(), self.members.topics_lost()), ({}, {}))

    def test_never_counted(self) -> None:
        """Of a broker that was never counted it is not claimed that it had nothing."""
        self.members.observe([A0], 2000)
        self.assertEqual(self.members.lost(), {"broker-b": Unreachable(None, None, None, None)})

    def test_empty_when_counted(self) -> None:
        """Of a broker that had no message at its last count it is not claimed that it has none."""
        self.members.counted("broker-b", {"Orders": TopicContent(4, 0)}, ["Orders"], 1500)
        self.members.observe([A0], 2000)
        self.assertEqual(self.members.lost(), {"broker-b": Unreachable(1, 4, None, 1500)})

    def test_bound(self) -> None:
        """The topics with the most messages are remembered one by one; the totals are of all."""
        self.patch(table, "TOPICS", 2)
        topics = {f"T{number}": TopicContent(1, number) for number in range(5)}
        self.members.counted("broker-b", topics, list(topics), 1500)
        content = self.members.content("broker-b")
        assert content is not None
        self.assertEqual(list(content.topics), ["T3", "T4"])
        self.assertEqual((content.count, content.queues, content.messages), (5, 5, 10))


class ForgetTests(SynchronousTestCase):
    """Members that are taken out, by people and by the bound."""

    def test_forget(self) -> None:
        """What was taken out is not mentioned any more, and is a new member when it registers again."""
        members = MembershipTable()
        members.observe([A0, A1], 1000)
        members.counted("broker-a", {"T": TopicContent(1, 1)}, ["T"], 1000)
        members.observe([], 2000)
        members.forget(members.members_of("broker-a", 1))
        self.assertEqual(list(states(members)), ["broker-a"])
        self.assertEqual(members.lost()["broker-a"].messages, 1)
        members.forget(members.members_of("broker-a"))
        self.assertEqual((members.statuses(), members.lost(), members.content("broker-a")), ([], {}, None))
        members.observe([A0], 3000)
        self.assertEqual(members.members_of("broker-a")[0].first_seen_ms, 3000)

    def test_bound(self) -> None:
        """Of too many members those that are missing for the longest time are forgotten, and none that is there."""
        self.patch(table, "MEMBERS", 3)
        members = MembershipTable()
        for number in range(5):
            members.observe([A0, BrokerPlace("c", f"old-{number}", 0, "a:1")], 1000 * number)
        members.observe([A0, A1, B0], 9000)
        self.assertEqual(sorted(states(members)), ["broker-a", "broker-a#1", "broker-b"])
        members.observe([A0, A1, B0, BrokerPlace("c", "more", 0, "a:1")], 9500)
        self.assertEqual(len(states(members)), 4)

    def test_damaged(self) -> None:
        """A file that holds something else is refused."""
        for data in (b"", b"[]", b'{"members": 1, "contents": {}}', b'{"members": [{"name": "a"}], "contents": {}}'):
            self.assertRaises(BadBody, read_saved, data)
