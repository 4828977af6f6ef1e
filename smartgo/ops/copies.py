"""Copies of stored messages, to be sent again."""

from __future__ import annotations

from typing import Final

from smartgo.client.messages import Message
from smartgo.ops.content import Found, unpacked
from smartgo.ops.problems import Problem
from smartgo.schema import properties
from smartgo.schema.topics import DLQ_PREFIX, RETRY_PREFIX, retry_topic

RESENT_FROM: Final = "RESENT_FROM"
"""The property of a copy that says the offset id of the message it was made of."""

_KEPT: Final = frozenset(
    {properties.SHARDING_KEY, properties.BUYER_ID, properties.INSTANCE_ID, properties.TTL, properties.CORRELATION_ID}
)
"""Properties with a meaning for the system that belong to the message, and not to one sending of it."""


def copy_to(message: Found, topic: str = "", body: bytes | None = None) -> Message:
    """
    Return a copy to be sent to a topic, by default to the one the message was first sent to.

    @param body: another body; C{None} for the same.
    @raise Problem: 409, its body cannot be unpacked, or nothing says where it came from.
    """
    if body is None:
        body, error = unpacked(message.stored)
        if error is not None:
            raise Problem(409, f"its body cannot be unpacked: {error}", "body-unreadable")
    named = message.properties
    copy = Message(
        topic=topic or origin(message),
        body=body,
        tag=named.get(properties.TAGS, ""),
        keys=properties.split_keys(named.get(properties.KEYS, "")),
        flag=message.stored.flag,
        properties={name: value for name, value in named.items() if value and (name in _KEPT or is_own(name))},
    )
    copy.properties = {**copy.properties, RESENT_FROM: message.stored.message_id}
    return copy


def copy_for(message: Found, group: str, body: bytes | None = None) -> Message:
    """
    Return a copy that one group alone gets, as if it were delivered to it for the first time.

    It keeps the id that its producer gave it. Raises as L{copy_to} does.
    """
    copy = copy_to(message, retry_topic(group), body)
    named = message.properties
    copy.properties = {
        **copy.properties,
        properties.RETRY_TOPIC: origin(message),
        properties.ORIGIN_MESSAGE_ID: named.get(properties.ORIGIN_MESSAGE_ID, message.stored.message_id),
        properties.UNIQ_KEY: named.get(properties.UNIQ_KEY, message.stored.message_id),
    }
    return copy


def origin(message: Found) -> str:
    """Return the topic that a message was first sent to. @raise Problem: 409, nothing says so."""
    named = message.properties
    for name in (properties.RETRY_TOPIC, properties.DLQ_ORIGIN_TOPIC, properties.REAL_TOPIC):
        topic = named.get(name)
        if topic:
            return topic
    topic = message.stored.topic
    if topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise Problem(409, f"nothing says which topic message {message.stored.message_id} came from", "no-origin")
    return topic


def is_own(name: str) -> bool:
    """Tell whether a property is the application's own."""
    taken = name in properties.RESERVED or name == RESENT_FROM
    return not taken and not name.startswith(properties.TRANSIENT_PREFIX)
