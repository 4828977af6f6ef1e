"""
Commits whose op message was not appended any more when the broker was killed.

A commit and its op message are appended one after the other, so one that a kill parted from its op message is the last
record of the log. Only if the store refused the op message, and took others before the kill, there are records behind
it: then the index has the committed message. So each transaction that a start finds undecided is looked up there, once,
before it is checked back or decided. Without an index, or a UNIQ_KEY, a second verdict commits such a message again, as
RocketMQ does.

Only a committed message behind the latest copy of the half message counts. One before it belongs to an earlier
transaction: a producer that sends a message object again sends it with the same UNIQ_KEY.
"""

from __future__ import annotations

from smartgo.broker.stages.pendingtransactions import PendingTransactions
from smartgo.broker.stages.transactionlookup import TransactionLookup
from smartgo.schema.transactions import HalfMessage


class UnfinishedCommits:
    """Finds what a start took for undecided and is committed."""

    def __init__(self, lookup: TransactionLookup, pending: PendingTransactions) -> None:
        """@param pending: what the start found; nothing was decided since."""
        self._lookup = lookup
        self._pending = pending
        self._unproven = {half.key for half in pending.undecided() if half.key is not None}

    async def last(self) -> HalfMessage | None:
        """Return the undecided half message whose commit is the last record of the log; C{None}: that is no commit."""
        named = await self._lookup.last_commit() if self._pending else None
        return None if named is None else self._pending.find(named)

    async def named(self, half: HalfMessage) -> HalfMessage | None:
        """
        Return the latest copy of a half message if it is committed; C{None}: it is not, or that was asked before.

        What was asked while the index was behind is asked again.
        """
        if half.key is None or half.key not in self._unproven:
            return None
        latest, is_complete = self._pending.find(half), self._lookup.is_complete
        committed = latest is not None and await self._lookup.is_committed(half.key, latest.physical_offset)
        if committed or is_complete:
            self._unproven.discard(half.key)
        return self._pending.find(half) if committed else None
