"""
From the end of a run of appends to the queues, and to those who wait for messages.

The units of a run are written with one join and one slice assignment a queue, and listeners hear of each queue once.
Where readers may see flushed messages only (reliability D6), a run's units wait here for the flush that covers them.

Units that cannot be written, such as for want of a descriptor to open their file, end the store (D4): their offsets
were given out, so nothing may take their place. The log has them, and the next start makes them from it, as no
checkpoint goes beyond them.

What else is made from the log, such as the index, follows it at its own pace: L{Follower}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, NoSuchMessage
from smartgo.schema.record import BLANK_MAGICS, BLANK_SIZE, decode, start_struct
from smartgo.store.commitlog import CommitLog
from smartgo.store.interfaces import IArrivalListener, IDispatcher
from smartgo.store.queues.file import ConsumeQueue

_SLICE: Final = 256  # records that a follower takes before it lets others run


class UnflushedRun(NamedTuple):
    """What one run appended to one queue, waiting for its flush."""

    queue: ConsumeQueue
    units: list[bytes]
    codes: list[int]
    stored_ms: int
    end: int


class QueueDispatch:
    """
    Publishes what was appended.

    @ivar end: physical offset; what lies below is in the queues.
    @ivar stored_ms: store timestamp of the last record below it.
    @ivar run_end: physical offset up to which the last run went; of a slave it may lie inside a record.
    """

    _log = Logger()

    def __init__(
        self,
        log: CommitLog,
        staged: list[ConsumeQueue],
        after_flush: bool,
        durable: Callable[[], int],
        listeners: Sequence[IArrivalListener],
        failed: Callable[[OSError], None],
    ) -> None:
        """
        @param staged: the queues with units of the present run; emptied at its end.
        @param after_flush: publish what is flushed only; L{flushed} tells.
        @param durable: returns the physical offset below which the log is durable.
        @param listeners: told of arrivals; more may be added to it.
        @param failed: called when units could not be written; nothing may be appended from then on.
        """
        self._commitlog = log
        self._staged = staged
        self._after_flush = after_flush
        self._durable = durable
        self._listeners = listeners
        self._failed = failed
        self._waiting: deque[UnflushedRun] = deque()
        self._ends: deque[tuple[int, int]] = deque()  # runs that wait: log's end and timestamp after each
        self.end = 0
        self.run_end = 0
        self.stored_ms = 0

    def begin_at(self, end: int, stored_ms: int) -> None:
        """All below C{end} is in the queues."""
        self.end = self.run_end = end
        self.stored_ms = stored_ms

    def end_run(self) -> None:
        """Publish the present run, or let it wait for its flush."""
        log = self._commitlog
        log.end_run()
        staged = self._staged[:]
        self._staged.clear()
        end = log.whole
        self.run_end = log.end
        stored_ms = log.stored_ms
        told: list[tuple[ConsumeQueue, list[int], int]] = []
        failure: OSError | None = None
        for queue in staged:
            units, codes = queue.pending, queue.codes
            if self._after_flush:
                self._waiting.append(UnflushedRun(queue, units, codes, queue.stored_ms, end))
            elif not queue.dropped:
                try:
                    queue.write(b"".join(units), len(codes))
                except OSError as error:
                    failure = error
                    continue
                told.append((queue, codes, queue.stored_ms))
            queue.pending = []
            queue.codes = []
        if self._after_flush:
            self._ends.append((end, stored_ms))
            durable = self._durable()
            if end <= durable:  # a flush covered the run before its end; none may follow
                self.flushed(durable)
            return
        if failure is None:
            self.end = end
            self.stored_ms = stored_ms
        else:
            self._failed(failure)
        if self._listeners:
            for queue, codes, queue_ms in told:
                self._tell(queue, codes, queue_ms)

    def flushed(self, position: int) -> None:
        """The log is durable below C{position}: publish the runs that waited for that."""
        told: list[UnflushedRun] = []
        while self._waiting and self._waiting[0].end <= position:
            run = self._waiting[0]
            if not run.queue.dropped:
                try:
                    run.queue.write(b"".join(run.units), len(run.codes))
                except OSError as error:
                    position = run.end - 1  # all of the runs before it is in the queues
                    self._failed(error)
                    break
                told.append(run)
            del self._waiting[0]
        while self._ends and self._ends[0][0] <= position:
            self.end, self.stored_ms = self._ends.popleft()
        for run in told:
            self._tell(run.queue, run.codes, run.stored_ms)

    def _tell(self, queue: ConsumeQueue, codes: Sequence[int], stored_ms: int) -> None:
        for listener in self._listeners:
            try:
                listener.arrived(queue.topic, queue.queue_id, queue.visible, codes, stored_ms)
            except Exception:  # a listener's bug must not keep others from their messages
                self._log.failure("a listener failed on messages of {topic}", topic=queue.topic)


class Follower:
    """Shows the log's records to one L{IDispatcher}, a slice at a time, so that a slow one delays no send."""

    _log = Logger()

    def __init__(
        self, clock: IClock, log: CommitLog, dispatcher: IDispatcher, position: int, end: Callable[[], int]
    ) -> None:
        """
        @param position: physical offset of the first record that C{dispatcher} has not seen for certain.
        @param end: tells up to where records may be shown.
        """
        self._clock = clock
        self._commitlog = log
        self._dispatcher = dispatcher
        self._end = end
        self._call: IDelayedCall | None = None
        self.position = position

    def advance(self) -> None:
        """There may be more records; they are shown from the next turn of the reactor on."""
        if self._call is None and self.position < self._end():
            self._call = self._clock.callLater(0, self._go_on)

    def stop(self) -> None:
        """Show no more; the dispatcher is shown the rest when it is attached the next time."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _go_on(self) -> None:
        self._call = None
        end = self._end()
        for _ in range(_SLICE):
            if self.position >= end:
                return
            try:
                self._show(self.position)
            except (BadRecord, NoSuchMessage):
                self._log.failure("the record at {offset} cannot be dispatched", offset=self.position)
                self.position = end
        self.advance()

    def _show(self, position: int) -> None:
        size, magic = start_struct.unpack(self._commitlog.slice(position, BLANK_SIZE))
        if magic in BLANK_MAGICS:
            self.position = position + size
            return
        entry = decode(self._commitlog.slice(position, size))
        self.position = position + entry.size
        self._dispatcher.dispatch(entry)
