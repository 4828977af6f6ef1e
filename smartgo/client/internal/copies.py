"""Copies of stored messages, to be sent again."""

from __future__ import annotations

from typing import Final

from smartgo.client.messages import Message, ReceivedMessage
from smartgo.errors import NoOrigin
from smartgo.schema import properties
from smartgo.schema.topics import DLQ_PREFIX, RETRY_PREFIX, retry_topic

RESENT_FROM: Final = "RESENT_FROM"
"""The property of a copy that says the offset id of the message it was made of."""

_KEPT: Final = frozenset(
    {properties.SHARDING_KEY, properties.BUYER_ID, properties.INSTANCE_ID, properties.TTL, properties.CORRELATION_ID}
)
"""Properties with a meaning for the system that belong to the message, and not to one sending of it."""


def copy_to(message: ReceivedMessage, topic: str = "") -> Message:
    """
    Return a copy to be sent to a topic, by default to the original one; the copy gets an id of its own.

    @raise NoOrigin: nothing says where it came from.
    """
    kept = {name: value for name, value in message.properties.items() if value and (name in _KEPT or is_own(name))}
    return Message(
        topic=topic or origin(message),
        body=message.body,
        tag=message.tag,
        keys=message.keys,
        flag=message.flag,
        properties={**kept, RESENT_FROM: message.offset_id},
    )


def copy_for(message: ReceivedMessage, group: str) -> Message:
    """
    Return a copy that only one group gets, as if it were delivered for the first time.

    It keeps the id that its producer gave it. Raises as L{copy_to} does.
    """
    copy = copy_to(message, retry_topic(group))
    copy.properties = {
        **copy.properties,
        properties.RETRY_TOPIC: origin(message),
        properties.ORIGIN_MESSAGE_ID: message.properties.get(properties.ORIGIN_MESSAGE_ID, message.offset_id),
        properties.UNIQ_KEY: message.message_id,
    }
    return copy


def origin(message: ReceivedMessage) -> str:
    """Return the topic that a message was first sent to. @raise NoOrigin: nothing says so."""
    for name in (properties.RETRY_TOPIC, properties.DLQ_ORIGIN_TOPIC, properties.REAL_TOPIC):
        topic = message.properties.get(name)
        if topic:
            return topic
    topic = message.queue.topic
    if topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise NoOrigin(f"nothing says which topic message {message.offset_id} came from")
    return topic


def is_own(name: str) -> bool:
    """Return whether a property is the application's, not a reserved one."""
    taken = name in properties.RESERVED or name == RESENT_FROM
    return not taken and not name.startswith(properties.TRANSIENT_PREFIX)
