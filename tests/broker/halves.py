"""Half messages sent to a cluster in memory, and ones that its broker gave up."""

from __future__ import annotations

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.headers.transaction import EndTransactionRequest
from smartgo.schema.message import COMMIT, parse_message_id
from tests.broker.fakecluster import Cluster

OLD_MS = 100 * 3_600_000
"""Older than C{fileReservedTime}, so that the first round of check-backs gives it up."""


def send_half(
    cluster: Cluster, unique: str, topic: str = "T", group: str = "PG", age_ms: int = 0, **properties: str
) -> SendResponse:
    """
    Send a half message.

    @param age_ms: how long ago its producer made it.
    """
    asked = {"UNIQ_KEY": unique, "WAIT": "true", "TRAN_MSG": "true", "PGROUP": group, **properties}
    born_ms = cluster.env.clock.wall_ms() - age_ms
    answer = cluster.send(topic, b"half", properties=asked, sys_flag=4, born_timestamp=born_ms)
    if answer.code:
        raise AssertionError(f"{answer.code}: {answer.remark}")
    return answer.read(SendResponse)


def given_up(cluster: Cluster, *unique: str, topic: str = "T", group: str = "PG") -> None:
    """Send half messages that are too old, and let the round pass that gives them up."""
    for one in unique:
        send_half(cluster, one, topic, group, OLD_MS)
    cluster.pump(60.5, 1.0)


def commit_half(cluster: Cluster, sent: SendResponse) -> None:
    """Commit the transaction of a half message of group PG."""
    header = EndTransactionRequest(
        producer_group="PG",
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_message_id(sent.msg_id)[1],
        commit_or_rollback=COMMIT,
        msg_id="U",
    )
    answer = cluster.ask(Command.request(RequestCode.END_TRANSACTION, header))
    if answer.code:
        raise AssertionError(f"{answer.code}: {answer.remark}")
