"""
The undecided transactions of a broker, without I/O: L{PendingTransactions} (docs/spec/broker#transactions).

It is fed with the half queue and the op queue, each in order, and says which half message an END_TRANSACTION concerns,
which are to be checked back or given up at a moment, and how far both queues are done with. What is saved are these two
offsets alone, so a start reads the queues from there and knows the same again. RocketMQ reads both offsets in the same
way: every half message from the half offset on that no op message from the op offset on names is undecided.

Copies of a half message are one transaction: the latest counts, and a verdict on any of them counts for it. A half
message that was never checked back begins a new transaction where the one with its key is decided: a producer that
sends a message object again sends it with the same UNIQ_KEY.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from itertools import islice, takewhile
from typing import Final, NamedTuple, TypeAlias, TypeVar

from smartgo.schema.transactions import HalfMessage

_Name: TypeAlias = "int | tuple[str, str, str]"
"""The key of a transaction, or, without one, the offset of its latest copy."""
_V = TypeVar("_V")

REMEMBERED: Final = 10_000
"""Decided, and given up, transactions of which the verdict is remembered."""


class TransactionVerdict(Enum):
    """The end of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class _Decided(NamedTuple):
    """
    A verdict that is remembered.

    @ivar verdict: C{None}: an op message says that there was one, not which.
    @ivar before: physical offset of the half message that began a later transaction with the same key, which this
        verdict says nothing of; C{None}: there is none.
    """

    verdict: TransactionVerdict | None
    before: int | None = None

    def concerns(self, half: HalfMessage) -> bool:
        """Tell whether a copy is one of the transaction that was decided."""
        return self.before is None or half.physical_offset < self.before


class CheckRules(NamedTuple):
    """
    The rules of check-backs: ages and counts.

    @ivar immunity_ms: C{transactionTimeOut}: the age before the first check-back.
    @ivar checks: C{transactionCheckMax}.
    @ivar age_ms: C{fileReservedTime}: the age from which one is given up.
    """

    immunity_ms: int
    checks: int
    age_ms: int


class Due(NamedTuple):
    """
    A half message that a round of check-backs concerns, and what is done about it.

    @ivar given_up: it is moved away; else it is checked back.
    @ivar checks: the TRANSACTION_CHECK_TIMES that the copy gets; C{None}: as it is.
    """

    half: HalfMessage
    given_up: bool
    checks: int | None


class PendingTransactions:
    """
    The undecided half messages, and how far half and op queue are done with.

    @ivar half_end: offset in the half queue of the next half message to be noted.
    @ivar op_end: offset in the op queue of the next op message to be noted.
    """

    def __init__(self, half_offset: int, op_offset: int, remembered: int = REMEMBERED) -> None:
        """
        @param half_offset: the saved offset in the half queue; C{op_offset} in the op queue.
        @param remembered: how many decided, and given up, transactions are remembered.
        """
        self.half_end = half_offset
        self.op_end = op_offset
        self._remembered = remembered
        self._pending: dict[int, HalfMessage] = {}  # by offset, ascending
        self._offsets: dict[tuple[str, str, str], int] = {}  # key -> offset of the latest copy
        self._moved: dict[_Name, int] = {}  # offset of a first copy -> offset of the latest, for messages without a key
        self._ops: deque[tuple[int, int]] = deque()  # (op offset, highest half offset that it names)
        self._named: set[int] = set()  # half offsets that op messages name, whose half message was not noted yet
        self._decided: dict[_Name, _Decided] = {}
        self._given_up: dict[_Name, HalfMessage] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, half: object) -> bool:
        """Tell whether this copy of a half message is the latest, and undecided."""
        return isinstance(half, HalfMessage) and self._pending.get(half.offset) == half

    # -- the queues ------------------------------------------------------------------------------------------

    def note_op(self, op_offset: int, half_offsets: list[int]) -> None:
        """
        Note the op message at C{op_offset}, the next in its queue.

        @param half_offsets: what it names. At a start all op messages are noted before the first half message.
        """
        self.op_end = op_offset + 1
        if half_offsets:
            self._ops.append((op_offset, max(half_offsets)))
        for offset in half_offsets:
            half = self._pending.get(offset)
            if half is not None:
                self._remove(half)
            elif offset >= self.half_end:
                self._named.add(offset)

    def note_half(self, half: HalfMessage) -> None:
        """Note the next half message of the queue: a new one, or a copy of one that is known."""
        self.half_end = max(self.half_end, half.offset + 1)
        older = self._find(half)
        if older is not None:
            self._remove(older)
        if half.offset in self._named:
            self._named.discard(half.offset)
            self._remember(self._decided, self._name(half), _Decided(None))
            return
        decided = None if half.key is None else self._decided.get(half.key)
        if decided is not None and half.key is not None and decided.before is None:
            if half.checks or half.first_offset is not None:
                return
            self._decided[half.key] = decided._replace(before=half.physical_offset)
        self._given_up.pop(self._name(half), None)
        self._pending[half.offset] = half
        if half.key is not None:
            self._offsets[half.key] = half.offset
        elif half.first_offset is not None:
            self._remember(self._moved, half.first_offset, half.offset)

    def skip_half(self, offset: int) -> None:
        """Go on at a later offset of the half queue: what lies before cannot be read any more, or was moved."""
        self.half_end = max(self.half_end, offset)

    def positions(self) -> tuple[int, int]:
        """
        Return the offsets to be saved: of the first undecided half message, and of the first op message that a start
        needs for those from there on.
        """
        half = next(iter(self._pending), self.half_end)
        while self._ops and self._ops[0][1] < half:
            self._ops.popleft()
        return half, self._ops[0][0] if self._ops else self.op_end

    # -- verdicts --------------------------------------------------------------------------------------------

    def find(self, named: HalfMessage) -> HalfMessage | None:
        """
        Return the latest copy of the transaction that a producer named by any of its copies.

        One that was given up is found as well, as long as it is remembered.

        @return: C{None}: it is decided, or forgotten.
        """
        return self._find(named) or self._given_up.get(self._name(named))

    def verdict(self, named: HalfMessage) -> TransactionVerdict | None:
        """Return what became of a transaction; C{None}: it is undecided, or forgotten."""
        decided = self._decided.get(self._name(named))
        return decided.verdict if decided is not None and decided.concerns(named) else None

    def decide(self, half: HalfMessage, verdict: TransactionVerdict) -> None:
        """Note the verdict on a transaction that L{find} returned; its op message is noted on its own."""
        self._remove(half)
        self._given_up.pop(self._name(half), None)
        self._remember(self._decided, self._name(half), _Decided(verdict))

    def give_up(self, half: HalfMessage) -> None:
        """Note that a transaction is checked back no more; a verdict still counts."""
        self._remove(half)
        self._remember(self._given_up, self._name(half), half)

    def replace(self, old: HalfMessage, new: HalfMessage) -> None:
        """Note that C{new}, which is noted, is a copy of C{old}: for messages without a key."""
        self._remove(old)
        if new.key is None and old.offset != new.offset:
            self._remember(self._moved, old.offset, new.offset)

    def drop(self, half: HalfMessage) -> None:
        """Forget a half message whose record is gone."""
        self._remove(half)

    # -- check-backs -----------------------------------------------------------------------------------------

    def offsets(self) -> list[int]:
        """Return the offsets in the half queue of all undecided half messages, ascending, for L{due}."""
        return list(self._pending)

    def at(self, offset: int) -> HalfMessage | None:
        """Return the undecided half message at an offset of the half queue; C{None}: there is none."""
        return self._pending.get(offset)

    def due(self, offsets: Iterable[int], now_ms: int, rules: CheckRules) -> list[Due]:
        """
        Return what a round does about some half messages; the rules are those of RocketMQ's C{check}.

        One that was checked C{rules.checks} times, or is older than C{rules.age_ms}, is given up whatever its immunity.

        @param offsets: of half messages, some of which may be decided.
        @param now_ms: the wall clock.
        """
        found = []
        for offset in offsets:
            half = self._pending.get(offset)
            if half is None:
                continue
            age = now_ms - half.born_ms
            if half.checks >= rules.checks and half.checks > 0:
                found.append(Due(half, True, None))
            elif age > rules.age_ms:
                found.append(Due(half, True, half.checks + 1))
            elif half.immunity_ms is not None:
                if age >= half.immunity_ms:
                    found.append(Due(half, False, half.checks + 1))
            elif not 0 <= age < rules.immunity_ms:
                found.append(Due(half, False, half.checks + 1))
        return found

    def oldest_ms(self, offsets: Iterable[int], before: int | None) -> int | None:
        """
        Return when the oldest of some half messages was born, by its producer's clock.

        @param offsets: of half messages, some of which may be decided.
        @param before: what was found among others; C{None}: nothing.
        """
        halves = map(self._pending.get, offsets)
        found = min((half.born_ms for half in halves if half is not None), default=None)
        return before if found is None else found if before is None else min(found, before)

    @property
    def oldest(self) -> HalfMessage | None:
        """The undecided half message whose latest copy is the oldest."""
        return next(iter(self._pending.values()), None)

    def below(self, physical_offset: int, count: int) -> list[HalfMessage]:
        """Return undecided half messages whose records lie below a physical offset, at most C{count}, oldest first."""
        first = islice(self._pending.values(), count)
        return list(takewhile(lambda half: half.physical_offset < physical_offset, first))

    def undecided(self, count: int | None = None) -> list[HalfMessage]:
        """Return the undecided half messages, oldest copies first; at most C{count}."""
        return list(islice(self._pending.values(), count))

    # -- inside ----------------------------------------------------------------------------------------------

    def _find(self, half: HalfMessage) -> HalfMessage | None:
        if half.key is not None:
            decided = self._decided.get(half.key)
            offset = None if decided is not None and decided.concerns(half) else self._offsets.get(half.key)
        else:
            offset = half.offset
            while (later := self._moved.get(offset)) is not None:
                offset = later
            if half.first_offset is not None and offset not in self._pending:
                offset = self._moved.get(half.first_offset, half.first_offset)
        return None if offset is None else self._pending.get(offset)

    def _name(self, half: HalfMessage) -> _Name:
        return half.offset if half.key is None else half.key

    def _remove(self, half: HalfMessage) -> None:
        self._pending.pop(half.offset, None)
        if not self._pending:
            self._pending = {}  # an emptied dict of many is slow to iterate
        if half.key is not None and self._offsets.get(half.key) == half.offset:
            del self._offsets[half.key]

    def _remember(self, table: dict[_Name, _V], name: _Name, value: _V) -> None:
        table[name] = value
        if len(table) > self._remembered:
            del table[next(iter(table))]
