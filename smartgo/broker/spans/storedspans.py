"""
Spans of messages that were stored: the log is read once more behind its end, so that no send waits for it.

It reads as the index does (L{smartgo.store.index.messageindex}), a tenth of a second after an append and some records
in a turn of the reactor, but only what is in memory. Where it falls far behind it leaves out a piece of the log.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.broker.spans.sink import SpanSink
from smartgo.broker.spans.tracedmessages import traced_messages
from smartgo.env.interfaces import IClock
from smartgo.errors import NoSuchMessage
from smartgo.schema.indexkeys import record_starts
from smartgo.schema.record import BLANK_MAGICS, BLANK_SIZE, MESSAGE_MAGICS, SIZE_LIMIT, start_struct
from smartgo.store.replicatedlog import IReplicatedLog

DELAY: Final = 0.1  # seconds after an append
RECORDS: Final = 128  # in a turn of the reactor: each may have a span, of some 50 microseconds
FURTHEST: Final = 64 << 20  # bytes of log that may wait to be read

_SLICE: Final = 256 << 10  # bytes in a turn


class StoredSpans:
    """
    Follows a master's log from its end on, and has a span made of each message with a sampled trace context.

    @ivar position: physical offset up to which the log was read.
    """

    _log = Logger()

    def __init__(self, clock: IClock, log: IReplicatedLog, sink: SpanSink) -> None:
        self._clock = clock
        self._commitlog = log
        self._sink = sink
        self._call: IDelayedCall | None = None
        self._stopped = False
        self._wanted = _SLICE
        self.position = self._end = log.log_bounds()[1]
        log.follow(self._appended)

    def stop(self) -> None:
        """Read what is left, as far as that is one turn's work, and nothing more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
            self._take()
        self._stopped = True

    def _appended(self, end: int) -> None:
        self._end = end
        self._soon(DELAY)

    def _soon(self, delay: float) -> None:
        if self._call is None and not self._stopped:
            self._call = self._clock.callLater(delay, self._go_on)

    def _go_on(self) -> None:
        self._call = None
        self._take()
        if self.position < self._end:
            self._soon(0.0)

    def _take(self) -> None:
        """Have spans made of the next records."""
        if self._end - self.position > FURTHEST:
            self._skip()
            return
        view = None
        if self.position < self._end:
            try:
                view = self._commitlog.piece(self.position, min(self._wanted, self._end - self.position))
            except NoSuchMessage:
                pass  # it was removed meanwhile
        if view is None:  # only the disk has it
            self._skip()
            return
        starts, end = record_starts(view, 0, RECORDS)
        if starts:
            for message in traced_messages(view, starts, end):
                self._sink.stored(message)
            self.position += end
            self._wanted = _SLICE
        else:
            self._pass(view)
        view.release()

    def _pass(self, view: memoryview) -> None:
        """Go on behind a blank, or ask for all of a long record."""
        size, magic = start_struct.unpack_from(view) if len(view) >= BLANK_SIZE else (0, 0)
        if magic in BLANK_MAGICS and BLANK_SIZE <= size <= self._end - self.position:
            self.position += size
            self._wanted = _SLICE
        elif magic in MESSAGE_MAGICS and self._wanted < size <= min(SIZE_LIMIT, self._end - self.position):
            self._wanted = size
        else:
            self._skip()

    def _skip(self) -> None:
        """Leave out what is left of the log."""
        if self._end > self.position:
            if not self._sink.skipped:
                self._log.warn("some stored messages have no spans: they came too fast, or could not be read in memory")
            self._sink.skipped += self._end - self.position
        self.position = self._end
        self._wanted = _SLICE
