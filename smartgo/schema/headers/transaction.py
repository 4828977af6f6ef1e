"""
Headers of transactions: 37, 39, and smartgo's own 30007.

Source: C{EndTransactionRequestHeader}, C{CheckTransactionStateRequestHeader}, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class EndTransactionRequest(Header, gc=False):
    """
    37: the verdict on a half message.

    @ivar tran_state_table_offset: its offset in the half queue.
    @ivar commit_log_offset: its place in the CommitLog.
    @ivar commit_or_rollback: 8 commit, 12 roll back, 0 unknown.
    """

    producer_group: str = field(name="producerGroup")
    tran_state_table_offset: Int64 = field(name="tranStateTableOffset")
    commit_log_offset: Int64 = field(name="commitLogOffset")
    commit_or_rollback: Int32 = field(name="commitOrRollback")
    msg_id: str = field(name="msgId")
    from_transaction_check: bool = field(name="fromTransactionCheck", default=False)
    transaction_id: str | None = field(name="transactionId", default=None)
    topic: str | None = None


class CheckTransactionRequest(Header, gc=False):
    """39, from the broker with the message as its body: what became of this transaction."""

    tran_state_table_offset: Int64 = field(name="tranStateTableOffset")
    commit_log_offset: Int64 = field(name="commitLogOffset")
    msg_id: str | None = field(name="msgId", default=None)
    transaction_id: str | None = field(name="transactionId", default=None)
    offset_msg_id: str | None = field(name="offsetMsgId", default=None)
    topic: str | None = None


class ListTransactionsRequest(Header, gc=False):
    """
    30007: the transactions of a broker.

    @ivar given_up: those that were given up, newest first; else the undecided ones, oldest copies first.
    @ivar begin: where to go on: C{next} of the answer before; -1: at the beginning.
    @ivar count: rows, at most; the broker has a limit of its own. 0 or less: the figures of the broker alone.
    @ivar group: only those of one producer group; empty: of all.
    @ivar topic: only those for one topic; empty: for all.
    @ivar id: only the one with this UNIQ_KEY, or with a copy that has this offset id; the other fields do not count.
    """

    given_up: bool = field(name="givenUp", default=False)
    begin: Int64 = -1
    count: Int32 = 0
    group: str = ""
    topic: str = ""
    id: str = ""
