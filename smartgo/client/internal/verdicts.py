"""
Verdicts of producers on the half messages of their transactions: END_TRANSACTION (37).

Rules: docs/spec/client#transactions. Source: C{client/impl/producer/DefaultMQProducerImpl.java} of 4.9.8.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from smartgo.client.messages import SendResult
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.transaction import CheckTransactionRequest, EndTransactionRequest
from smartgo.schema.message import parse_message_id


async def ended(result: object) -> object:
    """Return a result that a function returned at once, by a Deferred or by another awaitable."""
    if isinstance(result, Deferred) or hasattr(result, "__await__"):
        return await result
    return result


def verdict_on_half(group: str, sent: SendResult, verdict: int, error: Exception | None) -> Command:
    """
    Return the request that tells a broker the outcome of a local transaction.

    @param sent: the result of the half message.
    @param verdict: 8 to commit, 12 to roll back, 0 for unknown.
    @param error: what the local transaction raised.
    @raise smartgo.errors.BadHeader: the broker's id of the half message cannot be read.
    """
    _, offset = parse_message_id(sent.offset_id)
    header = EndTransactionRequest(
        producer_group=group,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=offset,
        commit_or_rollback=verdict,
        msg_id=sent.message_id,
        transaction_id=sent.message_id,
    )
    return _request(header, "executeLocalTransactionBranch exception", error)


def verdict_on_check(
    group: str, check: CheckTransactionRequest, message_id: str, verdict: int, error: Exception | None
) -> Command:
    """
    Return the request that answers a check-back; the places are those of the check.

    @param message_id: the unique id of the half message.
    @param verdict: 8 to commit, 12 to roll back, 0 for unknown.
    @param error: what the check raised.
    """
    header = EndTransactionRequest(
        producer_group=group,
        tran_state_table_offset=check.tran_state_table_offset,
        commit_log_offset=check.commit_log_offset,
        commit_or_rollback=verdict,
        msg_id=message_id,
        from_transaction_check=True,
        transaction_id=check.transaction_id,
    )
    return _request(header, "checkLocalTransactionState Exception", error)


def _request(header: EndTransactionRequest, what: str, error: Exception | None) -> Command:
    command = Command.request(RequestCode.END_TRANSACTION, header, one_way=True)
    if error is not None:
        command.remark = f"{what}: {type(error).__name__}: {error}"
    return command
