"""Records of messages as brokers give them: not unpacked, whoever looks at one may not want its body."""

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
    """A message that was found."""

    broker: str
    raw: bytes
    """Its record."""
    stored: StoredMessage

    @property
    def properties(self) -> dict[str, str]:
        """All of them."""
        return properties.decode(self.stored.properties)

    @property
    def message_id(self) -> str:
        """The id that its producer gave it, else its offset id."""
        return self.properties.get(properties.UNIQ_KEY, self.stored.message_id)

    @property
    def tag(self) -> str:
        """Its tag, C{""} for none."""
        return self.properties.get(properties.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The words it can be searched by."""
        return properties.split_keys(self.properties.get(properties.KEYS, ""))

    @property
    def queue(self) -> MessageQueue:
        """The queue it is in."""
        return MessageQueue(self.stored.topic, self.broker, self.stored.queue_id)


def found(raw: bytes, broker: str) -> FoundMessage:
    """Return a message of the bytes that a broker gave. @raise CallFailed: they are no message."""
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
    """Return messages as consumers get them; one whose body cannot be unpacked is left out, with a warning."""
    messages = [received_if_readable(one.stored, one.broker) for one in found]
    return [one for one in messages if one is not None]
