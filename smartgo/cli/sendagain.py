"""Copies of stored messages, to be sent again."""

from __future__ import annotations

from typing import Final

from smartgo.cli.message import sent_to
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.schema import properties
from smartgo.schema.topics import retry_topic

_NOT_SENT_AGAIN: Final = frozenset(
    {
        properties.TAGS,
        properties.KEYS,
        properties.DELAY,
        properties.WAIT,
        properties.UNIQ_KEY,
        properties.TRAN_MSG,
        properties.PGROUP,
        properties.CLUSTER,
        properties.REAL_TOPIC,
        properties.REAL_QID,
        properties.RETRY_TOPIC,
        properties.ORIGIN_MESSAGE_ID,
        properties.RECONSUME_TIME,
        properties.MAX_RECONSUME_TIMES,
    }
)
"""Properties that belong to one sending, or to what brokers did with it."""


def again(message: ReceivedMessage, topic: str, body: bytes | None = None) -> Message:
    """
    Return a copy to be sent to a topic; it will get an id of its own.

    @param body: another body; C{None} for the same.
    """
    return Message(
        topic=topic,
        body=message.body if body is None else body,
        tag=message.tag,
        keys=message.keys,
        flag=message.flag,
        properties=_kept(message),
    )


def again_for(message: ReceivedMessage, group: str, body: bytes | None = None) -> Message:
    """
    Return a copy that one group alone will get, as if it were delivered to it again for the first time.

    It keeps the id by which its producer knows it.
    """
    copy = again(message, retry_topic(group), body)
    copy.properties = {
        **copy.properties,
        properties.RETRY_TOPIC: sent_to(message),
        properties.ORIGIN_MESSAGE_ID: message.properties.get(properties.ORIGIN_MESSAGE_ID, message.offset_id),
        properties.UNIQ_KEY: message.message_id,
    }
    return copy


def _kept(message: ReceivedMessage) -> dict[str, str]:
    return {name: value for name, value in message.properties.items() if name not in _NOT_SENT_AGAIN and value}
