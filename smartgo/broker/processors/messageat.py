"""The message that a client names by its place in the CommitLog."""

from __future__ import annotations

from smartgo.errors import BadRecord, NoSuchMessage
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import decode
from smartgo.store.interfaces import IMessageStore


async def message_at(store: IMessageStore, offset: int) -> tuple[bytes, StoredMessage]:
    """
    Return the record at a physical offset, and what it holds.

    Only a record that its queue leads to is a message. The offset comes from a client, and may point into the body of
    a message: whoever sent that body could have put a record there, as if it were a message of another topic.

    @raise NoSuchMessage: no message begins there, or its queue does not have it (any more, or yet).
    """
    record = await store.at(offset)
    try:
        message = decode(record)
    except BadRecord:
        raise NoSuchMessage(f"no message at physical offset {offset}") from None
    units = store.units(message.topic, message.queue_id, message.queue_offset, 1)
    if not units or units[0].commitlog_offset != offset:
        raise NoSuchMessage(f"no message at physical offset {offset}: its queue does not lead there")
    return record, message
