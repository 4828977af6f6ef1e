"""Stored messages as brokers return them, not decompressed, as not every reader needs the body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smartgo.client.messages import ReceivedMessage, received_if_readable
from smartgo.errors import BadRecord, CallFailed
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import decode


class FoundMessage(NamedTuple):
    """A stored message that was found at a broker."""

    broker: str
    raw: bytes
    """Its record."""
    stored: StoredMessage

    @property
    def properties(self) -> dict[str, str]:
        """All properties, by name."""
        return properties.decode(self.stored.properties)

    @property
    def message_id(self) -> str:
        """The producer's unique id, or the offset id if there is none."""
        return self.properties.get(properties.UNIQ_KEY, self.stored.message_id)

    @property
    def tag(self) -> str:
        """The tag; C{""} if it has none."""
        return self.properties.get(properties.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The keys by which it can be searched for."""
        return properties.split_keys(self.properties.get(properties.KEYS, ""))

    @property
    def queue(self) -> MessageQueue:
        """The queue that holds it."""
        return MessageQueue(self.stored.topic, self.broker, self.stored.queue_id)


def found(raw: bytes, broker: str) -> FoundMessage:
    """Decode a message that a broker returned. @raise CallFailed: the bytes are no message."""
    try:
        return FoundMessage(broker, raw, decode(raw))
    except BadRecord as error:
        raise CallFailed(f"broker {broker} gave a record that cannot be read: {error}") from None


def decoded(body: bytes, broker: str) -> list[FoundMessage]:
    """Return the messages of an answer; the first that cannot be read ends them."""
    messages = []
    at = 0
    while at < len(body):
        try:
            stored = decode(body, at)
        except BadRecord:
            break
        messages.append(FoundMessage(broker, body[at : at + stored.size], stored))
        at += stored.size
    return messages


def all_of(body: bytes, broker: str) -> list[FoundMessage]:
    """Return the messages of an answer, as L{decoded}. @raise CallFailed: there is something in it, but no message."""
    messages = decoded(body, broker)
    if body and not messages:
        raise CallFailed(f"broker {broker} gave records that cannot be read")
    return messages


def readable(found: Iterable[FoundMessage]) -> list[ReceivedMessage]:
    """Return messages as consumers get them; one that cannot be decompressed is left out, with a warning."""
    messages = [received_if_readable(one.stored, one.broker) for one in found]
    return [one for one in messages if one is not None]
