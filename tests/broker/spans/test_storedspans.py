"""Tests of L{smartgo.broker.spans.storedspans}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.spans.storedspans import DELAY, FURTHEST, RECORDS, StoredSpans
from smartgo.broker.spans.tracedmessages import TracedMessage
from smartgo.errors import NoSuchMessage
from smartgo.schema.record import encode_blank
from tests.broker.spans.test_tracedmessages import SAMPLED, record
from tests.fakes import FakeClock


class KeptSpans:
    """
    A sink that keeps what it is told.

    @ivar offsets: the queue offsets of stored messages.
    """

    exported = lost = skipped = 0

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def stored(self, message: TracedMessage) -> None:
        """Keep it."""
        self.offsets.append(message.queue_offset)

    def delivered(self, group: str, message: TracedMessage) -> None:
        """Fail: nothing is delivered here."""
        raise AssertionError("delivered")

    def stop(self) -> Deferred[None]:
        """Stop at once."""
        return succeed(None)


class FakeLog:
    """
    A log in memory, of which pieces end at the ends of files.

    @ivar data: all of it.
    @ivar size: of a file.
    @ivar asked: the offsets of pieces.
    @ivar cold: whether all of it would have to be read from the disk.
    """

    def __init__(self, size: int = 1 << 20) -> None:
        self.data = b""
        self.size = size
        self.base = 0
        self.cold = False
        self.asked: list[int] = []
        self._listeners: list[Callable[[int], None]] = []

    def log_bounds(self) -> tuple[int, int]:
        """All of it."""
        return self.base, self.base + len(self.data)

    def follow(self, listener: Callable[[int], None]) -> None:
        """Remember it."""
        self._listeners.append(listener)

    def append(self, *parts: bytes) -> None:
        """Append records in a run."""
        self.data += b"".join(parts)
        for listener in self._listeners:
            listener(self.log_bounds()[1])

    def piece(self, offset: int, limit: int) -> memoryview | None:
        """A piece."""
        self.asked.append(offset)
        if not self.base <= offset < self.base + len(self.data):
            raise NoSuchMessage("gone")
        if self.cold:
            return None
        end = min(offset + limit, offset - offset % self.size + self.size) - self.base
        return memoryview(self.data)[offset - self.base : end]


class StoredSpansTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A log with a message from before."""
        self.clock = FakeClock()
        self.log = FakeLog()
        self.log.append(record(0, traceparent=SAMPLED))
        self.sink = KeptSpans()
        self.spans = StoredSpans(self.clock, cast(Any, self.log), self.sink)

    def test_follows(self) -> None:
        """What is appended after the start is read a tenth of a second later; nothing is left to do then."""
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.log.append(record(1, traceparent=SAMPLED), record(2))
        self.log.append(record(3, traceparent=SAMPLED))
        self.assertEqual(self.sink.offsets, [])
        self.clock.advance(DELAY)
        self.assertEqual(self.sink.offsets, [1, 3])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.spans.position, self.log.log_bounds()[1])

    def test_many(self) -> None:
        """A turn of the reactor reads a limited number of records; the next turns read the others."""
        self.log.append(*(record(at, traceparent=SAMPLED) for at in range(2 * RECORDS + 1)))
        self.clock.advance(DELAY)  # all turns: the delay between two of them is 0
        self.assertEqual(self.sink.offsets, list(range(2 * RECORDS + 1)))
        size = len(record(0, traceparent=SAMPLED))
        first = self.log.asked[0]
        self.assertEqual(self.log.asked, [first, first + RECORDS * size, first + 2 * RECORDS * size])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_files(self) -> None:
        """It goes on behind the blank at the end of a log file."""
        room = self.log.size - len(self.log.data)
        long = record(1, b"b" * (room - 200), traceparent=SAMPLED)
        left = room - len(long)
        self.log.append(long, encode_blank(left), bytes(left - 8), record(2, traceparent=SAMPLED))
        for _ in range(4):
            self.clock.advance(DELAY)
        self.assertEqual(self.sink.offsets, [1, 2])
        self.assertEqual(self.sink.skipped, 0)

    def test_skips(self) -> None:
        """What only the disk has, what was removed, what is no record and what is too much is left out, and counted."""
        with capturedLogs() as events:
            self.log.cold = True
            self.log.append(record(1, traceparent=SAMPLED))
            self.clock.advance(DELAY)
            self.log.cold = False
            skipped = self.sink.skipped
            self.assertEqual(skipped, len(record(1, traceparent=SAMPLED)))
            self.log.append(b"no record at all", record(2, traceparent=SAMPLED))
            self.clock.advance(DELAY)
            self.assertGreater(self.sink.skipped, skipped)
            self.log.append(record(3, traceparent=SAMPLED))
            self.log.data, self.log.base = self.log.data[-10:], len(self.log.data) - 10
            self.clock.advance(DELAY)
            self.log.append(bytes(FURTHEST + 1))
            self.clock.advance(DELAY)
        self.assertEqual(self.sink.offsets, [])
        self.assertEqual(len([one for one in events if "have no spans" in one["log_format"]]), 1)
        self.log.append(record(4, traceparent=SAMPLED))
        self.clock.advance(DELAY)
        self.assertEqual(self.sink.offsets, [4])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """A stop reads what was appended last, and nothing that comes later."""
        self.log.append(record(1, traceparent=SAMPLED))
        self.spans.stop()
        self.log.append(record(2, traceparent=SAMPLED))
        self.assertEqual(self.sink.offsets, [1])
        self.assertEqual(self.clock.getDelayedCalls(), [])
