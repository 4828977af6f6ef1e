"""The answers of brokers to sends."""

from __future__ import annotations

from typing import Final

from smartgo.client.internal.prepared import Prepared
from smartgo.client.messages import SendResult, SendStatus
from smartgo.errors import BadHeader, CallFailed, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendResponse

RETRIED: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Response codes after which another broker may do better."""

_STATUSES: Final = {status.value: status for status in SendStatus}


def read_answer(answer: Command, prepared: Prepared, queue: MessageQueue) -> tuple[SendResult, SendResponse]:
    """
    Return the result that an answer tells, and its header.

    @raise PeerRefused: the broker declined.
    @raise CallFailed: the answer cannot be read.
    """
    status = _STATUSES.get(answer.code)
    if status is None:
        raise PeerRefused(answer.code, answer.remark or "")
    try:
        header = answer.read(SendResponse)
    except BadHeader as error:
        raise CallFailed(f"the answer to a send cannot be read: {error}") from None
    if header.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    result = SendResult(status, prepared.unique_id, header.msg_id, queue, header.queue_offset, header.recall_handle)
    return result, header
