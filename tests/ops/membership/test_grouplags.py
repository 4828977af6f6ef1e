"""The lag of groups at brokers that are missing."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.ops.membership.grouplags import GROUPS, GroupLags, UnreachableLag
from smartgo.ops.membership.members import read_saved
from smartgo.ops.membership.table import MembershipTable


class GroupLagsTests(SynchronousTestCase):
    """What is remembered of each broker."""

    def setUp(self) -> None:
        """Two groups at two brokers."""
        self.lags = GroupLags()
        self.lags.counted({"audit": {"a": 700, "b": 0}, "billing": {"a": 3, "b": 5}}, 1000)

    def test_waiting(self) -> None:
        """The count of each broker is told; nothing of one where nothing waits; unknown of one never counted."""
        self.assertEqual(self.lags.waiting("audit", ["b", "a"]), [UnreachableLag("a", 700, 1000)])
        self.assertEqual(
            self.lags.waiting("billing", ["b", "a"]), [UnreachableLag("a", 3, 1000), UnreachableLag("b", 5, 1000)]
        )
        self.assertEqual(self.lags.waiting("audit", ["c"]), [UnreachableLag("c", None, None)])
        self.assertEqual(self.lags.waiting("audit", []), [])

    def test_dies_meanwhile(self) -> None:
        """A broker that told of one group and died keeps the count of the others; a group that is gone has none."""
        self.lags.counted({"audit": {"a": 800}, "billing": {}}, 2000)
        self.assertEqual(self.lags.waiting("audit", ["a"]), [UnreachableLag("a", 800, 2000)])
        self.assertEqual(self.lags.waiting("billing", ["a"]), [UnreachableLag("a", 3, 2000)])
        self.lags.counted({"audit": {"a": 800}}, 3000)
        self.assertEqual(self.lags.waiting("billing", ["a"]), [])

    def test_nothing_any_more(self) -> None:
        """
        At a broker that told of all groups nothing waits for a group that it does not name, as its topic was deleted
        there; of a group that could not be measured the count stays.
        """
        self.lags.counted({"audit": {"a": 9}, "billing": {"b": 5}}, 2000, {"a", "b"})
        self.assertEqual(self.lags.waiting("billing", ["a", "b"]), [UnreachableLag("b", 5, 2000)])
        self.lags.counted({"audit": {}, "billing": None}, 3000, {"a", "b"})
        self.assertEqual(self.lags.waiting("audit", ["a", "b"]), [])
        self.assertEqual(self.lags.waiting("billing", ["a", "b"]), [UnreachableLag("b", 5, 3000)])

    def test_bound(self) -> None:
        """Of very many groups those are remembered for which most waits."""
        self.lags.counted({f"g{number}": {"a": number} for number in range(GROUPS + 5)}, 2000)
        self.assertEqual(self.lags.waiting("g4", ["a"]), [])
        self.assertEqual(self.lags.waiting("g5", ["a"]), [UnreachableLag("a", 5, 2000)])

    def test_kept(self) -> None:
        """It is kept over a restart, until the broker is taken out of service."""
        table = MembershipTable()
        table.observe([BrokerPlace("c", "a", 0, "a:1"), BrokerPlace("c", "b", 0, "b:1")], 1000)
        table.lags.counted({"audit": {"a": 700, "b": 9, "stranger": 1}}, 1500)
        later = MembershipTable()
        later.restore(read_saved(msgspec.json.encode(table.saved())))
        self.assertEqual(later.lags.waiting("audit", ["a"]), [UnreachableLag("a", 700, 1500)])
        self.assertEqual(later.lags.waiting("audit", ["stranger"]), [UnreachableLag("stranger", None, None)])
        later.forget(later.members_of("a"))
        self.assertEqual(later.lags.waiting("audit", ["a"]), [UnreachableLag("a", None, None)])

    def test_before(self) -> None:
        """A file of members of before is read."""
        self.assertEqual(read_saved(b'{"members":[],"contents":{}}').lags, {})
