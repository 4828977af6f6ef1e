"""Tests of L{smartgo.broker.stages.pendingtransactions}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.pendingtransactions import CheckRules, Due, PendingTransactions, TransactionVerdict
from smartgo.schema.transactions import HalfMessage

RULES = CheckRules(6000, 15, 3_600_000)


def half(
    offset: int,
    unique: str | None = None,
    *,
    checks: int = 0,
    born_ms: int = 0,
    immunity_ms: int | None = None,
    first: int | None = None,
) -> HalfMessage:
    """A half message; without C{unique} it has a key of its own, with an empty one none."""
    key = None if unique == "" else ("PG", "T", unique or f"U{offset}")
    return HalfMessage(offset, offset * 100, key, "PG", "T", checks, born_ms, immunity_ms, first)


class QueueTests(SynchronousTestCase):
    """What the two queues say is undecided."""

    def setUp(self) -> None:
        """Nothing is known."""
        self.pending = PendingTransactions(0, 0)

    def offsets(self) -> list[int]:
        """The offsets of the undecided half messages."""
        return [one.offset for one in self.pending.undecided()]

    def test_empty(self) -> None:
        """Nothing is undecided at first, and the positions are those that were saved."""
        pending = PendingTransactions(7, 3)
        self.assertEqual((len(pending), pending.positions(), pending.oldest_ms([], None)), (0, (7, 3), None))

    def test_decided_before(self) -> None:
        """At a start the op messages come first; what they name is decided, the rest is not."""
        self.pending.note_op(0, [1])
        self.pending.note_op(1, [3, 0])
        for offset in range(5):
            self.pending.note_half(half(offset))
        self.assertEqual(self.offsets(), [2, 4])
        self.assertEqual(
            self.pending.positions(), (2, 1)
        )  # the second op message names offset 3, behind the first open
        self.assertEqual((self.pending.half_end, self.pending.op_end), (5, 2))

    def test_copy(self) -> None:
        """A copy of a half message takes the place of the one before."""
        self.pending.note_half(half(0, "A"))
        self.pending.note_half(half(1, "B"))
        self.pending.note_half(half(2, "A", checks=1))
        self.assertEqual(self.offsets(), [1, 2])
        found = self.pending.find(half(0, "A"))
        assert found is not None
        self.assertEqual((found.offset, found.checks), (2, 1))

    def test_copy_decided(self) -> None:
        """An op message for any copy decides the transaction, whichever comes first in the queue."""
        for named in (0, 2):
            self.pending = PendingTransactions(0, 0)
            self.pending.note_op(0, [named])
            for one in half(0, "A"), half(1, "B"), half(2, "A", checks=1):
                self.pending.note_half(one)
            self.assertEqual(self.offsets(), [1], named)

    def test_sent_again(self) -> None:
        """A half message with the key of a decided one is a transaction of its own, whatever became of the first."""
        for verdict, other in (
            (TransactionVerdict.COMMITTED, TransactionVerdict.ROLLED_BACK),
            (TransactionVerdict.ROLLED_BACK, TransactionVerdict.COMMITTED),
        ):
            self.setUp()
            first, late, again = half(0, "A"), half(1, "A", checks=1), half(2, "A")
            self.pending.note_half(first)
            self.pending.decide(first, verdict)
            self.pending.note_half(late)
            self.pending.note_half(again)
            self.assertEqual(self.offsets(), [2])
            for copy in (first, late):  # an answer to a check-back that comes late
                self.assertIs(self.pending.find(copy), None)
                self.assertIs(self.pending.verdict(copy), verdict)
            self.assertIs(self.pending.verdict(again), None)
            checked = half(3, "A", checks=1)
            self.pending.note_half(checked)
            self.assertEqual(self.pending.find(again), checked)
            self.pending.decide(checked, other)
            self.assertEqual((self.offsets(), self.pending.verdict(again)), ([], other))

    def test_copy_without_key(self) -> None:
        """Copies of a message without a key are told from others by what RocketMQ and we note of them."""
        first, second = half(0, ""), half(1, "", checks=1)
        self.pending.note_half(first)
        self.pending.note_half(second)
        self.assertEqual(self.offsets(), [0, 1])
        self.pending.replace(first, second)
        self.assertEqual((self.offsets(), self.pending.find(first)), ([1], second))
        moved = half(2, "", first=1)
        self.pending.note_half(moved)
        self.assertEqual((self.offsets(), self.pending.find(second)), ([2], moved))

    def test_positions(self) -> None:
        """Positions go on to the first undecided message, and to the first op message that names one behind it."""
        for offset in range(4):
            self.pending.note_half(half(offset))
        for op_offset, offset in enumerate((3, 1, 0)):
            self.pending.decide(half(offset), TransactionVerdict.COMMITTED)
            self.pending.note_op(op_offset, [offset])
        self.assertEqual(self.pending.positions(), (2, 0))
        self.pending.decide(half(2), TransactionVerdict.ROLLED_BACK)
        self.pending.note_op(3, [2])
        self.assertEqual(self.pending.positions(), (4, 4))

    def test_start_again(self) -> None:
        """From any saved positions a start finds the same transactions, whatever happened before and after."""
        halves = [
            half(0, "A"),
            half(1, "B"),
            half(2, "C"),
            half(3, "A", checks=1),
            half(4, "D"),
            half(5, "C", checks=1),
        ]
        ops = [[1], [3], [4]]
        live = PendingTransactions(0, 0)
        saved = [live.positions()]
        steps: list[tuple[str, int]] = [("h", 0), ("h", 1), ("h", 2), ("o", 0), ("h", 3), ("o", 1), ("h", 4), ("o", 2)]
        for kind, number in [*steps, ("h", 5)]:
            if kind == "h":
                live.note_half(halves[number])
            else:
                live.note_op(number, ops[number])
            saved.append(live.positions())
        self.assertEqual([one.offset for one in live.undecided()], [5])
        for half_offset, op_offset in saved:
            again = PendingTransactions(half_offset, op_offset)
            for number in range(op_offset, len(ops)):
                again.note_op(number, ops[number])
            for one in halves[half_offset:]:
                again.note_half(one)
            self.assertEqual(again.undecided(), live.undecided(), (half_offset, op_offset))
            self.assertEqual(again.positions(), live.positions())


class VerdictTests(SynchronousTestCase):
    """Verdicts of producers."""

    def setUp(self) -> None:
        """One half message."""
        self.pending = PendingTransactions(0, 0, remembered=2)
        self.half = half(0)
        self.pending.note_half(self.half)

    def test_once(self) -> None:
        """A decided transaction is not found again; its verdict is known."""
        self.assertEqual(self.pending.find(self.half), self.half)
        self.assertIn(self.half, self.pending)
        self.pending.decide(self.half, TransactionVerdict.COMMITTED)
        self.assertNotIn(self.half, self.pending)
        self.assertIsNone(self.pending.find(self.half))
        self.assertEqual(self.pending.verdict(self.half), TransactionVerdict.COMMITTED)

    def test_forgotten(self) -> None:
        """Verdicts are remembered up to a number."""
        for offset in range(4):
            self.pending.note_half(half(offset))
            self.pending.decide(half(offset), TransactionVerdict.ROLLED_BACK)
        self.assertEqual(
            [self.pending.verdict(half(offset)) for offset in range(4)],
            [None, None, TransactionVerdict.ROLLED_BACK, TransactionVerdict.ROLLED_BACK],
        )

    def test_given_up(self) -> None:
        """A verdict on a transaction that was given up counts still; a resumed one is undecided again."""
        self.pending.give_up(self.half)
        self.assertEqual((len(self.pending), self.pending.find(self.half)), (0, self.half))
        self.pending.note_half(half(1, "U0"))
        self.assertEqual([one.offset for one in self.pending.undecided()], [1])
        self.pending.decide(half(1, "U0"), TransactionVerdict.COMMITTED)
        self.assertIsNone(self.pending.find(self.half))

    def test_dropped(self) -> None:
        """A half message whose record is gone is no longer there, and holds no position back."""
        self.pending.drop(self.half)
        self.assertEqual((self.pending.find(self.half), self.pending.positions()), (None, (1, 0)))


class DueTests(SynchronousTestCase):
    """What a round does at a moment."""

    def due(self, one: HalfMessage, now_ms: int, rules: CheckRules = RULES) -> list[Due]:
        """What is done about one half message."""
        pending = PendingTransactions(one.offset, 0)
        pending.note_half(one)
        return pending.due(pending.offsets(), now_ms, rules)

    def test_age(self) -> None:
        """A message is checked back when it is as old as transactionTimeOut, and counts one more check."""
        one = half(0, born_ms=1000)
        self.assertEqual(self.due(one, 6999), [])
        self.assertEqual(self.due(one, 7000), [Due(one, False, 1)])

    def test_born_later(self) -> None:
        """A message of a producer whose clock is ahead is checked back at once, as by RocketMQ."""
        one = half(0, born_ms=50_000)
        self.assertEqual(self.due(one, 1000), [Due(one, False, 1)])

    def test_immunity(self) -> None:
        """A message's own immunity replaces transactionTimeOut, longer or shorter."""
        longer, shorter = half(0, immunity_ms=30_000), half(0, immunity_ms=1000)
        self.assertEqual(self.due(longer, 29_999), [])
        self.assertEqual(self.due(longer, 30_000), [Due(longer, False, 1)])
        self.assertEqual(self.due(shorter, 1000), [Due(shorter, False, 1)])

    def test_checked_enough(self) -> None:
        """A message that was checked transactionCheckMax times is given up, as it is."""
        before, after = half(0, checks=14), half(0, checks=15)
        self.assertEqual(self.due(before, 10_000), [Due(before, False, 15)])
        self.assertEqual(self.due(after, 10_000), [Due(after, True, None)])

    def test_too_old(self) -> None:
        """A message older than the log's files are kept is given up; RocketMQ counts one more check there."""
        one = half(0, checks=2)
        self.assertEqual(self.due(one, 3_600_000), [Due(one, False, 3)])
        self.assertEqual(self.due(one, 3_600_001), [Due(one, True, 3)])

    def test_all(self) -> None:
        """A young message does not keep the others waiting, and the oldest one's age is known."""
        pending = PendingTransactions(0, 0)
        for offset, born_ms in enumerate((9000, 1000, 2000)):
            pending.note_half(half(offset, born_ms=born_ms))
        self.assertEqual([due.half.offset for due in pending.due(pending.offsets(), 10_000, RULES)], [1, 2])
        self.assertEqual(pending.oldest_ms(pending.offsets(), None), 1000)
