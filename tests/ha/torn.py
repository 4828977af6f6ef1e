"""Logs with a torn head: what a slave's power failure can leave of a record that was flushed up to its middle."""

from __future__ import annotations

from smartgo.schema.record import encode
from tests.fakes import EPOCH_MS
from tests.store.stores import message

SECTOR = 512


def crossing(log: bytes, left: int, topic: str = "T", queue_id: int = 0, number: int = 0) -> bytes:
    """Return a record for the end of C{log}, of which a sector ends C{left} bytes before it, and its head crosses."""
    assert len(log) % SECTOR == SECTOR - left
    return encode(
        message(topic, queue_id, b"the body", reconsume_times=3, prepared_offset=77, flag=5), number, len(log), EPOCH_MS
    )


def filled(log: bytes, left: int, topic: str = "T", queue_id: int = 0, number: int = 0) -> bytes:
    """Return a record after which C{log} ends C{left} bytes before the end of a sector."""
    empty = len(encode(message(topic, queue_id, b""), number, len(log), EPOCH_MS))
    body = b"f" * ((SECTOR - left - len(log) - empty) % SECTOR)
    return encode(message(topic, queue_id, body), number, len(log), EPOCH_MS)


def torn(record: bytes, flushed: int, left: int) -> bytes:
    """Return a record whose first C{flushed} bytes were flushed, and of whose first sector the rest did not come."""
    return record[:flushed] + bytes(left - flushed) + record[left:]
