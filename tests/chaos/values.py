"""The messages of a run: bodies that name their value, and queues by their names."""

from __future__ import annotations

import zlib
from typing import Final

from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import MessageQueue
from tests.chaos.history import Read

_LONGEST: Final = 80  # bytes of a value


def queue_name(queue: MessageQueue) -> str:
    """Return the text that names a queue in a history."""
    return f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"


def parse_queue(name: str) -> MessageQueue:
    """Return the queue that a text of a history names."""
    topic, _, rest = name.partition("@")
    broker, _, number = rest.rpartition(":")
    return MessageQueue(topic=topic, broker_name=broker, queue_id=int(number))


def body_of(value: str, size: int) -> bytes:
    """Return a body that names its value first; what follows differs from value to value."""
    head = value.encode() + b"|"
    pad = zlib.crc32(head).to_bytes(4, "big").hex().encode()
    return (head + pad * (max(size - len(head), 0) // len(pad) + 1))[: max(size, len(head))]


def value_of(body: bytes) -> str:
    """Return the value that a body begins with; of one that is none, a text that nobody sent."""
    return body.partition(b"|")[0][:_LONGEST].decode(errors="replace")


def read_of(
    message: ReceivedMessage, t: float, who: str, session: str = "", group: str = "", failed: bool = False
) -> Read:
    """Return the event of a message that a consumer was given; the rest is as L{Read} has it."""
    return Read(
        t=t,
        who=who,
        queue=queue_name(message.queue),
        offset=message.queue_offset,
        value=value_of(message.body),
        digest=zlib.crc32(message.body),
        session=session,
        group=group,
        failed=failed,
        id=message.message_id,
    )
