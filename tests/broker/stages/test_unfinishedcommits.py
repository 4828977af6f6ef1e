"""Tests of L{smartgo.broker.stages.unfinishedcommits}; with a whole broker in C{test_transactions}."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.pendingtransactions import PendingTransactions
from smartgo.broker.stages.transactionlookup import TransactionLookup
from smartgo.broker.stages.unfinishedcommits import UnfinishedCommits
from tests.broker.stages.test_pendingtransactions import half


class FakeLookup:
    """An index that says what a test wants, and counts what it is asked."""

    def __init__(self) -> None:
        self.is_complete = True
        self.committed: set[str] = set()
        self.asked: list[str] = []

    async def is_committed(self, key: tuple[str, str, str], after: int = -1) -> bool:
        """Tell it at once."""
        self.asked.append(key[2])
        return key[2] in self.committed


class NamedTests(SynchronousTestCase):
    """Transactions that a verdict names after a start."""

    def setUp(self) -> None:
        """Two transactions are undecided."""
        self.pending = PendingTransactions(0, 0)
        for offset in (1, 2):
            self.pending.note_half(half(offset))
        self.lookup = FakeLookup()
        self.unfinished = UnfinishedCommits(cast(TransactionLookup, self.lookup), self.pending)

    def is_committed(self, offset: int) -> bool:
        """Ask about one of them."""
        found: Deferred[Any] = Deferred.fromCoroutine(self.unfinished.named(half(offset)))
        return self.successResultOf(found) is not None

    def test_once(self) -> None:
        """The index is asked once about each transaction that was undecided at the start, and about no other."""
        self.lookup.committed = {"U1"}
        self.assertEqual([self.is_committed(offset) for offset in (1, 2, 2, 3)], [True, False, False, False])
        self.assertEqual(self.lookup.asked, ["U1", "U2"])

    def test_behind(self) -> None:
        """An index that is behind is asked again, until it has everything or the committed message."""
        self.lookup.is_complete = False
        self.assertEqual([self.is_committed(1), self.is_committed(1)], [False, False])
        self.lookup.committed = {"U1"}
        self.assertEqual([self.is_committed(1), self.is_committed(1)], [True, False])
        self.assertFalse(self.is_committed(2))
        self.lookup.is_complete = True
        self.assertEqual([self.is_committed(2), self.is_committed(2)], [False, False])
        self.assertEqual(self.lookup.asked, ["U1", "U1", "U1", "U2", "U2"])
