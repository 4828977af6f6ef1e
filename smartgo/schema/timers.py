"""
Timed messages: their delivery time, and the formats of the timer log (docs/spec/broker#timer).

A timed message waits in C{rmq_sys_wheel_timer}, queue 0. The delivered copy has the complement of the waiting record's
physical offset in its head field C{prepared_offset}, which RocketMQ uses for transactions alone, and never with a
negative value: so the CommitLog tells which timers were delivered, and a copy and the note that it was made cannot come
apart.

An entry of the timer log, big-endian, 24 bytes, whose order as bytes is the order of delivery::

    0   due_ms           int64  delivery time, by the wall clock
    8   kind             int32  L{RECALL_ENTRY} before L{MESSAGE_ENTRY}
    12  commitlog_offset int64  byte offset of the waiting record
    20  size             int32  whole record, in bytes

A slot file, C{timer/SLOT.NUMBER}, holds entries in order of arrival; SLOT is C{due_ms // SLOT_MS} in 12 digits.

The checkpoint, C{timer/checkpoint}: L{CHECKPOINT}, then the CRC-32 of it as uint32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from construct import Bytes, Const, ConstructError, GreedyBytes, Int32sb, Int32ub, Int64sb, Prefixed, Struct

from smartgo.errors import BadRecord, MessageIllegal
from smartgo.schema import properties as names
from smartgo.schema.fixed import fixed

SLOT_MS: Final = 600_000
"""Milliseconds of delivery time that one slot file covers."""

TIMERS_WAIT: Final = "timerCongestNum"
"""The row of a broker's runtime information with the number of timed messages that wait, as RocketMQ 5 names it."""
COUNTING: Final = "being counted"
"""The value of L{TIMERS_WAIT} in a broker's runtime information while it is not known how many messages wait."""

RECALL_ENTRY: Final = 0
MESSAGE_ENTRY: Final = 1

ENTRY: Final = Struct("due_ms" / Int64sb, "kind" / Int32sb, "commitlog_offset" / Int64sb, "size" / Int32sb)
ENTRY_SIZE: Final = int(ENTRY.sizeof())
entry_struct: Final = fixed(ENTRY)
FIRST: Final = bytes(ENTRY_SIZE)
"""Sorts before every entry."""

TIMED: Final = frozenset(
    {names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME}
)
"""The properties by which a producer asks for a delivery time."""

DELAYED: Final = TIMED | {names.DELAY}
"""The properties by which a producer asks for a later delivery, by a time or by a level."""

_RELATIVE: Final = frozenset({names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS})
_LONGEST: Final = 18  # digits of a number that is safely an int64


class TimerEntry(NamedTuple):
    """
    One waiting message, or the recall of one; the module's table explains the fields.

    >>> TimerEntry.unpack(TimerEntry(5000, MESSAGE_ENTRY, 1024, 235).pack()).commitlog_offset
    1024
    """

    due_ms: int
    kind: int
    commitlog_offset: int
    size: int

    @classmethod
    def unpack(cls, data: bytes) -> TimerEntry:
        """Read an entry."""
        return cls._make(entry_struct.unpack(data))

    def pack(self) -> bytes:
        """Return the L{ENTRY_SIZE} bytes of this entry."""
        return entry_struct.pack(*self)


def due_of(entry: bytes) -> int:
    """Return the delivery time of a packed entry, in milliseconds."""
    return int.from_bytes(entry[:8], "big")


def offset_of(entry: bytes) -> int:
    """Return the physical offset of the record of a packed entry."""
    return int.from_bytes(entry[12:20], "big")


def is_recall(entry: bytes) -> bool:
    """Tell whether a packed entry is of a recall."""
    return entry[11] == RECALL_ENTRY


def mark_of(offset: int) -> int:
    """Return the field C{prepared_offset} of the delivered copy of the record at a physical offset."""
    return ~offset


def original_of(mark: int) -> int:
    """Return the physical offset of the record that C{prepared_offset} of a delivered copy names."""
    return ~mark


def slot_of(entry: bytes) -> int:
    """Return the number of the slot that a packed entry belongs to."""
    return due_of(entry) // SLOT_MS


def slot_end(slot: int) -> bytes:
    """Return a key that sorts behind all entries of a slot, and before those of the next."""
    return TimerEntry((slot + 1) * SLOT_MS - 1, 0x7FFFFFFF, 0, 0).pack()


def split_entries(data: bytes) -> list[bytes]:
    """Return the entries that lie back to back in C{data}; an incomplete last one is left out."""
    return [data[at : at + ENTRY_SIZE] for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE)]


# -- delivery times ------------------------------------------------------------------------------------------


def number(text: str) -> int:
    """Return a number as Java's C{Long.parseLong} reads it. @raise MessageIllegal: it is none."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST):
        raise MessageIllegal(f"timer message illegal, {text[:32]!r} is no number")
    return int(text)


def asked_due_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """
    Return the delivery time that properties ask for, C{None} where they ask for none.

    The first counts that is there of TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS and C{__STARTDELIVERTIME}.

    @param now_ms: what delays count from: now, or the store timestamp of the record.
    @raise MessageIllegal: it is no number.
    """
    for name, unit_ms in ((names.TIMER_DELAY_SEC, 1000), (names.TIMER_DELAY_MS, 1)):
        text = properties.get(name)
        if text is not None:
            return now_ms + number(text) * unit_ms
    for name in (names.TIMER_DELIVER_MS, names.START_DELIVER_TIME):
        text = properties.get(name)
        if text is not None:
            return number(text)
    return None


def waiting_due_ms(properties: Mapping[str, str], stored_ms: int) -> int:
    """
    Return the delivery time of a record in the timer topic.

    RocketMQ keeps the time rounded down to the second in TIMER_OUT_MS. Of a record that was written again while it
    waited (TIMER_ROLL_TIMES) a delay counts from an older record. smartgo adds TIMER_DELIVER_MS then; where that is
    missing the end of the second is taken, so that nothing is early.

    @raise BadRecord: it has none.
    """
    try:
        exact = asked_due_ms(properties, stored_ms)
        text = properties.get(names.TIMER_OUT_MS)
        if names.TIMER_ROLL_TIMES in properties and not _RELATIVE.isdisjoint(properties):
            exact = None
            kept = properties.get(names.TIMER_DELIVER_MS)
            if kept is not None and text is not None and wheel_ms(number(kept)) == number(text):
                exact = number(kept)
        if exact is not None:
            return exact
        if text is not None:
            return number(text) + 1000
    except MessageIllegal as error:
        raise BadRecord(str(error)) from None
    raise BadRecord("a message in the timer topic has no delivery time")


def wheel_ms(due_ms: int) -> int:
    """Return what TIMER_OUT_MS says of a delivery time: the whole second before it, as RocketMQ's wheel has it."""
    return (due_ms - 1) // 1000 * 1000


# -- the checkpoint ------------------------------------------------------------------------------------------

SLOT_FILE: Final = Struct(
    "slot" / Int64sb,
    "number" / Int64sb,
    "count" / Int64sb,
    "left" / Int64sb,
    "oldest" / Int64sb,
    "floor" / Bytes(ENTRY_SIZE),
)
_slot_file = fixed(SLOT_FILE)

CHECKPOINT: Final = Struct(
    "magic" / Const(b"SMARTGOT"),
    "queue_offset" / Int64sb,
    "position" / Int64sb,
    "next_number" / Int64sb,
    "recalls" / Int64sb,
    "taken" / Bytes(ENTRY_SIZE),
    "near" / Prefixed(Int32ub, GreedyBytes),
    "masked" / Prefixed(Int32ub, GreedyBytes),
    "files" / Prefixed(Int32ub, GreedyBytes),
)


PEER_PROGRESS: Final = Struct(
    "last_read_ms" / Int64sb,
    "flushed" / Int64sb,
    "queue_offset" / Int64sb,
    "master_queue_offset" / Int64sb,
    "state_version" / Int64sb,
    "timestamp" / Int64sb,
    "counter" / Int64sb,
)
"""The body of the answer to GET_TIMER_CHECK_POINT (60), 56 bytes; C{flushed} is of RocketMQ's own timer log."""
peer_progress_struct: Final = fixed(PEER_PROGRESS)


class SlotFileRow(NamedTuple):
    """
    One slot file, as a checkpoint has it.

    @ivar count: entries in the file; what follows them does not count.
    @ivar left: how many of them are above C{floor}, and wait in the file.
    @ivar oldest: lowest physical offset of any of its entries.
    @ivar floor: entries up to this one were taken into memory.
    """

    slot: int
    number: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    left: int
    oldest: int
    floor: bytes


class TimerCheckpoint(NamedTuple):
    """
    All that waits, as of one moment.

    @ivar queue_offset: logical offset in the timer topic: the messages below it were taken into the timer log.
    @ivar position: physical offset: what was delivered below it is no more in the timer log.
    @ivar next_number: of the next slot file.
    @ivar recalls: entries that are recalls.
    @ivar taken: the entries up to this one that wait are in C{near}.
    @ivar near: entries that wait in memory.
    @ivar masked: physical offsets of records that are delivered, though their entries are above the floor of a file.
    """

    queue_offset: int
    position: int
    next_number: int
    recalls: int
    taken: bytes
    near: list[bytes]
    masked: list[int]
    files: list[SlotFileRow]

    def pack(self) -> bytes:
        """Return the content of the checkpoint file."""
        data: bytes = CHECKPOINT.build(
            {
                "queue_offset": self.queue_offset,
                "position": self.position,
                "next_number": self.next_number,
                "recalls": self.recalls,
                "taken": self.taken,
                "near": b"".join(self.near),
                "masked": b"".join([one.to_bytes(8, "big") for one in self.masked]),
                "files": b"".join([_slot_file.pack(*row) for row in self.files]),
            }
        )
        return data + crc32(data).to_bytes(4, "big")

    @classmethod
    def unpack(cls, data: bytes) -> TimerCheckpoint:
        """Read the content of the checkpoint file. @raise BadRecord: it is damaged."""
        if len(data) < 4 or crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
            raise BadRecord("the checkpoint of the timer log is damaged")
        try:
            found = CHECKPOINT.parse(data[:-4])
        except ConstructError as error:
            raise BadRecord(f"the checkpoint of the timer log is damaged: {error}") from None
        masked = found.masked
        return cls(
            found.queue_offset,
            found.position,
            found.next_number,
            found.recalls,
            found.taken,
            split_entries(found.near),
            [int.from_bytes(masked[at : at + 8], "big") for at in range(0, len(masked), 8)],
            list(_rows(found.files)),
        )


def _rows(data: bytes) -> Iterator[SlotFileRow]:
    return map(SlotFileRow._make, _slot_file.iter_unpack(data))
