"""
The messages of the HA connection: what a slave reports, and what heads each piece of log a master sends.

Report, slave to master, big-endian, 8 bytes::

    0   offset  int64  the slave's end of log; the first is a request, each later one an acknowledgement or heartbeat

Transfer head, master to slave, 12 bytes, followed by C{size} bytes of raw CommitLog::

    0   offset  int64  physical offset of the first byte that follows; of the next to come, where none does
    8   size    int32  0 is a heartbeat

Ticket, slave to master, 32 bytes, once before the first report where the master asks for one; ours::

    0   mark    int64  C{TICKET_MARK}: less than any offset
    8   word    24 B   what the master gave us at its main port (L{smartgo.schema.headers.ha})

Source: C{store/ha/HAConnection.java}, C{HAService.java} of RocketMQ 4.9; docs/spec/ha#wire.
"""

from __future__ import annotations

from typing import Final

from construct import Bytes, Int32sb, Int64sb, Struct

from smartgo.schema.fixed import fixed

REPORT: Final = Struct("offset" / Int64sb)
TRANSFER_HEAD: Final = Struct("offset" / Int64sb, "size" / Int32sb)

TICKET_WORD_SIZE: Final = 24
TICKET: Final = Struct("mark" / Int64sb, "word" / Bytes(TICKET_WORD_SIZE))

report_struct: Final = fixed(REPORT)
transfer_struct: Final = fixed(TRANSFER_HEAD)
ticket_struct: Final = fixed(TICKET)
REPORT_SIZE: Final = report_struct.size
TRANSFER_HEAD_SIZE: Final = transfer_struct.size
TICKET_SIZE: Final = ticket_struct.size
TICKET_MARK: Final = int.from_bytes(b"\xffsmartgo", "big", signed=True)
"""How a ticket begins: its first byte tells it from a report."""

TRANSFER_LIMIT: Final = 4 * 1024 * 1024
"""A slave believes no longer piece, in bytes (reliability H2)."""
TRANSFER_BATCH: Final = 32768
"""A master sends no longer piece unless told to (C{haTransferBatchSize}), in bytes."""
TAIL_LIMIT: Final = 65536
"""A slave compares so much of its log with the master's before it follows, in bytes (reliability H3)."""


def last_report(data: bytes | memoryview) -> tuple[int | None, int]:
    """
    Return the newest whole report in what a slave has sent, and how many bytes are used up; C{None} for no whole one.

    Older reports say nothing that the newest does not.
    """
    used = len(data) - len(data) % REPORT_SIZE
    if not used:
        return None, 0
    return report_struct.unpack_from(data, used - REPORT_SIZE)[0], used
