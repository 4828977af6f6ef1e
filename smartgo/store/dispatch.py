"""
From the end of a run of appends to the queues, and to those who wait for messages.

The units of a run are written with one join and one slice assignment a queue, and listeners hear of each queue once.
Where readers may see flushed messages only (reliability D6), a run's units wait here for the flush that covers them.

Units that cannot be written, such as for want of a descriptor to open their file, end the store (D4): their offsets
were given out, so nothing may take their place. The log has them, and the next start makes them from it, as no
checkpoint goes beyond them.

What else is made from the log, such as the index, is told of what can be read: L{IDispatcher}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.logger import Logger

from smartgo.store.commitlog import CommitLog
from smartgo.store.interfaces import IArrivalListener, IDispatcher
from smartgo.store.queues.file import ConsumeQueue


class UnflushedRun(NamedTuple):
    """The units that one run appended to one queue, waiting for the flush."""

    queue: ConsumeQueue
    units: list[bytes]
    codes: list[int]
    stored_ms: int
    end: int


class QueueDispatch:
    """
    Makes the units of each run readable, and tells listeners and dispatchers.

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
        dispatchers: Sequence[IDispatcher],
        failed: Callable[[OSError], None],
    ) -> None:
        """
        @param staged: the queues with units of the present run; emptied at its end.
        @param after_flush: publish what is flushed only; L{flushed} tells.
        @param durable: returns the physical offset below which the log is durable.
        @param listeners: told of arrivals; more may be added to it.
        @param dispatchers: told of what can be read.
        @param failed: called when units could not be written; nothing may be appended from then on.
        """
        self._commitlog = log
        self._staged = staged
        self._after_flush = after_flush
        self._durable = durable
        self._listeners = listeners
        self._dispatchers = dispatchers
        self._failed = failed
        self._waiting: deque[UnflushedRun] = deque()
        self._ends: deque[tuple[int, int]] = deque()  # runs that wait: log's end and timestamp after each
        self.end = self.run_end = log.end
        self.stored_ms = log.stored_ms

    def restart(self, position: int) -> None:
        """Go on at a physical offset: the log, which was empty, begins there."""
        self.end = self.run_end = position
        self.stored_ms = 0
        for dispatcher in self._dispatchers:
            dispatcher.recover(position)

    def retreat(self, end: int) -> None:
        """Set the published end back to C{end}: the records behind it are published once more."""
        self.end = self.run_end = end
        self._tell_dispatchers()

    def end_run(self) -> None:
        """Publish the units of the present run, or keep them until the flush."""
        log = self._commitlog
        end = log.end_run()
        staged = self._staged[:]
        self._staged.clear()
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
        if failure is None:
            self._tell_dispatchers()

    def flushed(self, position: int) -> None:
        """Publish the runs that waited for the flush: the log is durable below C{position}."""
        told: list[UnflushedRun] = []
        before = self.end
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
        if self.end != before:
            self._tell_dispatchers()

    def _tell_dispatchers(self) -> None:
        for dispatcher in self._dispatchers:
            try:
                dispatcher.dispatch(self.end)
            except Exception:  # what is derived from the log must not keep the log from going on
                self._log.failure("{name} failed at {position}", name=dispatcher.name, position=self.end)

    def _tell(self, queue: ConsumeQueue, codes: Sequence[int], stored_ms: int) -> None:
        for listener in self._listeners:
            try:
                listener.arrived(queue.topic, queue.queue_id, queue.visible, codes, stored_ms)
            except Exception:  # a listener's bug must not keep others from their messages
                self._log.failure("a listener failed on messages of {topic}", topic=queue.topic)
