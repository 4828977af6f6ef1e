"""
The ends of log and queues: what every append changes, and nothing else of them.

L{CommitLog<smartgo.store.commitlog.CommitLog>} and L{ConsumeQueue<smartgo.store.queues.file.ConsumeQueue>} inherit
these. They stand alone so that a run of sends can be appended by compiled code, which has these very fields in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smartgo.core import choose


class PureLogTail:
    """
    The end of a log, and the mapped file that it lies in.

    @ivar end: physical offset after the last record; the next one goes there, or into the next file.
    @ivar torn: bytes before C{end} of a record that is still coming; of a master's log 0.
    @ivar stored_ms: store timestamp of the last record.
    @ivar now_ms: the wall clock when the present run began; 0 between runs.
    @ivar base: physical offset of the first byte of the file written to.
    @ivar limit: no record may end beyond this physical offset; -1 without a file.
    @ivar view: the content of that file; empty without one. The file stays mapped while it is here.
    """

    def __init__(self) -> None:
        """Make the tail of an empty log."""
        self.end = self.torn = self.stored_ms = self.now_ms = self.base = 0
        self.limit = -1
        self.view = memoryview(b"")

    def read_clock(self) -> int:
        """Begin a run: set C{now_ms}, and return it."""
        raise NotImplementedError


class PureQueueTail:
    """
    The end of a queue.

    @ivar queue_id: its number.
    @ivar topic_part: length and name of the topic, as they stand in a record.
    @ivar overhead: bytes of a record that are neither body nor properties, with IPv4 hosts.
    @ivar next_offset: what the next appended message gets.
    @ivar reserved: up to here units have blocks on the disk; a logical offset.
    @ivar pending: packed units, of one append each, that are not written yet, and in C{codes} their third fields, one
        a unit.
    @ivar stored_ms: store timestamp of the newest of them.
    @ivar staged: where a queue enters itself when it gets the first of them.
    @ivar delay_ms: for a queue of SCHEDULE_TOPIC the delay of its level, C{None} for others.
    @ivar dropped: the queue was deleted; what still holds it must not write.
    """

    __slots__ = (
        "codes", "delay_ms", "dropped", "next_offset", "overhead", "pending", "queue_id", "reserved", "staged",
        "stored_ms", "topic_part",
    )  # fmt: skip

    def __init__(self) -> None:
        """Make the tail of an empty queue."""
        self.queue_id = self.overhead = self.next_offset = self.reserved = self.stored_ms = 0
        self.topic_part = b""
        self.pending: list[bytes] = []
        self.codes: list[int] = []
        self.staged: list[Any] = []
        self.delay_ms: int | None = None
        self.dropped = False


if TYPE_CHECKING:
    LogTail = PureLogTail
    QueueTail = PureQueueTail
else:
    LogTail = choose("LogTail", PureLogTail)
    QueueTail = choose("QueueTail", PureQueueTail)
