"""
Headers of transactions: 37 and 39.

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
