"""
Header of the recall of a timed message: 370. Source: C{RecallMessageRequestHeader}, C{RecallMessageResponseHeader}.

Source: RocketMQ 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header


class RecallRequest(Header, gc=False):
    """370: drop a timed message that was not delivered yet; C{recall_handle} came with the answer to its send."""

    topic: str
    recall_handle: str = field(name="recallHandle")
    producer_group: str = field(name="producerGroup", default="")


class RecallResponse(Header, gc=False):
    """The answer to 370: the unique id of the message."""

    msg_id: str = field(name="msgId")
