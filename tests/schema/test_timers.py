"""Delivery times, entries of the timer log and its checkpoint."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadRecord, MessageIllegal
from smartgo.schema import properties as names
from smartgo.schema import timers
from smartgo.schema.timers import (
    ENTRY,
    ENTRY_SIZE,
    MESSAGE_ENTRY,
    RECALL_ENTRY,
    SLOT_MS,
    SlotFileRow,
    TimerCheckpoint,
    TimerEntry,
    asked_due_ms,
    due_of,
    is_recall,
    mark_of,
    offset_of,
    original_of,
    slot_end,
    slot_of,
    split_entries,
    waiting_due_ms,
    wheel_ms,
)

__doctests__ = [timers]


class EntryTests(SynchronousTestCase):
    """Entries."""

    def test_schema(self) -> None:
        """The packer, and each function that reads a packed entry, agree with the schema."""
        random = Random(1)
        for _ in range(200):
            due_ms, kind = random.randrange(1 << 45), random.randrange(2)
            entry = TimerEntry(due_ms, kind, random.randrange(1 << 50), random.randrange(1 << 24))
            data = entry.pack()
            parsed = ENTRY.parse(data)
            self.assertEqual((parsed.due_ms, parsed.kind, parsed.commitlog_offset, parsed.size), entry)
            self.assertEqual(TimerEntry.unpack(data), entry)
            self.assertEqual(
                (due_of(data), offset_of(data), is_recall(data)), (entry[0], entry[2], entry[1] == RECALL_ENTRY)
            )
            self.assertEqual(slot_of(data), entry.due_ms // SLOT_MS)

    def test_order(self) -> None:
        """As bytes entries sort by time, recalls before messages, then by place; a slot's end behind all of it."""
        random = Random(2)
        times = [random.randrange(5) * SLOT_MS // 2 for _ in range(500)]
        entries = [TimerEntry(due_ms, random.randrange(2), random.randrange(300), 9) for due_ms in times]
        self.assertEqual(sorted(entry.pack() for entry in entries), [entry.pack() for entry in sorted(entries)])
        last = TimerEntry(2 * SLOT_MS - 1, MESSAGE_ENTRY, 1 << 60, 1 << 30).pack()
        first = TimerEntry(2 * SLOT_MS, RECALL_ENTRY, 0, 0).pack()
        self.assertLess(last, slot_end(1))
        self.assertLess(slot_end(1), first)

    def test_split(self) -> None:
        """An incomplete entry at the end is left out."""
        entries = [TimerEntry(number, MESSAGE_ENTRY, number, 1).pack() for number in range(5)]
        data = b"".join(entries)
        for size in range(len(data) + 1):
            self.assertEqual(split_entries(data[:size]), entries[: size // ENTRY_SIZE])

    def test_marks(self) -> None:
        """The mark of a copy is negative, for the first byte of the log too, and leads back."""
        for offset in (0, 1, 1 << 40):
            self.assertLess(mark_of(offset), 0)
            self.assertEqual(original_of(mark_of(offset)), offset)


class DueTests(SynchronousTestCase):
    """Delivery times."""

    def test_asked(self) -> None:
        """The first property counts that is there."""
        asked = {
            names.TIMER_DELAY_SEC: "3",
            names.TIMER_DELAY_MS: "40",
            names.TIMER_DELIVER_MS: "500",
            names.START_DELIVER_TIME: "600",
        }
        for name, expected in zip(list(asked), (13_000, 10_040, 500, 600), strict=True):
            self.assertEqual(asked_due_ms(asked, 10_000), expected)
            del asked[name]
        self.assertIsNone(asked_due_ms({names.TAGS: "a"}, 1))

    def test_numbers(self) -> None:
        """Numbers are read as in Java, and nothing else is taken for one."""
        self.assertEqual(asked_due_ms({names.TIMER_DELIVER_MS: "+5"}, 1), 5)
        self.assertEqual(asked_due_ms({names.TIMER_DELAY_MS: "-5"}, 1), -4)
        for text in ("", "x", "1.0", " 1", "1_0", "\u0661", "9" * 19, "+-1"):
            self.assertRaises(MessageIllegal, asked_due_ms, {names.TIMER_DELIVER_MS: text}, 1)

    def test_waiting(self) -> None:
        """The exact time is taken; of what was rolled, or has the wheel's alone, the end of the wheel's second."""
        self.assertEqual(waiting_due_ms({names.TIMER_DELIVER_MS: "1234", names.TIMER_OUT_MS: "1000"}, 9), 1234)
        self.assertEqual(waiting_due_ms({names.TIMER_DELAY_SEC: "1", names.TIMER_OUT_MS: "1000"}, 900), 1900)
        rolled = {names.TIMER_DELAY_SEC: "1", names.TIMER_OUT_MS: "1000", names.TIMER_ROLL_TIMES: "1"}
        self.assertEqual(waiting_due_ms(rolled, 90_000), 2000)
        self.assertEqual(waiting_due_ms({names.TIMER_OUT_MS: "1000"}, 9), 2000)
        self.assertEqual(waiting_due_ms({**rolled, names.TIMER_DELIVER_MS: "1"}, 9), 2000)
        for bad in ({}, {names.TIMER_OUT_MS: "x"}, {names.TIMER_DELAY_SEC: "x", names.TIMER_OUT_MS: "1"}):
            self.assertRaises(BadRecord, waiting_due_ms, bad, 1)

    def test_wheel(self) -> None:
        """The wheel's time is the whole second before, as HookUtils.java of RocketMQ 5.3 computes it."""
        for due in (*range(1, 5003), 1_700_000_000_000, 1_700_000_000_001):
            java = due - 1000 if due % 1000 == 0 else due // 1000 * 1000
            self.assertEqual(wheel_ms(due), java)


class CheckpointTests(SynchronousTestCase):
    """Checkpoints."""

    def test_round_trip(self) -> None:
        """What is packed is read again; any byte that differs, or is missing, is noticed."""
        entries = [TimerEntry(number, MESSAGE_ENTRY, number, 1).pack() for number in range(3)]
        rows = [SlotFileRow(5, 1, 10, 4, 77, entries[1]), SlotFileRow(6, 2, 1, 1, 3, bytes(ENTRY_SIZE))]
        saved = TimerCheckpoint(9, 1 << 40, 3, 1, entries[2], entries, [5, 1 << 41], rows)
        data = saved.pack()
        self.assertEqual(TimerCheckpoint.unpack(data), saved)
        for at in range(len(data)):
            damaged = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
            self.assertRaises(BadRecord, TimerCheckpoint.unpack, damaged)
            self.assertRaises(BadRecord, TimerCheckpoint.unpack, data[:at])
