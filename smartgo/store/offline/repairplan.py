"""The plan of a repair: its steps for people, and the ranges, queues and tables that it concerns."""

from __future__ import annotations

import msgspec

from smartgo.store.queues.file import QueueKey


class RepairStep(msgspec.Struct, frozen=True):
    """
    One thing that a repair does.

    @ivar kind: C{log}, C{queue}, C{index}, C{timers}, C{checkpoint}, C{table}, or C{left}: it cannot be repaired.
    @ivar where: the file or the queue.
    """

    kind: str
    where: str
    what: str


class LogPiece(msgspec.Struct, frozen=True):
    """
    A damaged range of one log file.

    @ivar begin: physical offset; C{end}: after the last byte.
    @ivar donated: another directory has valid records there.
    @ivar is_tail: no valid record follows.
    """

    path: str
    base: int
    begin: int
    end: int
    to_file_end: bool
    is_tail: bool
    reason: str
    stored_ms: int
    donated: bool = False


class RepairPlan(msgspec.Struct, kw_only=True):
    """
    The steps and the ranges of one repair.

    @ivar steps: for people, in order.
    @ivar grown: log files that get their length: path and bytes that are missing.
    @ivar made: missing log files, by the physical offset of their first byte.
    @ivar queues: those that are made anew; C{index}: the index is; C{timers}: the timer log is.
    @ivar tables: names of tables that are replaced by their previous content.
    """

    steps: list[RepairStep] = []
    grown: list[tuple[str, int]] = []
    made: list[int] = []
    pieces: list[LogPiece] = []
    queues: list[QueueKey] = []
    index: bool = False
    timers: bool = False
    tables: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is to be done."""
        return not any(step.kind != "left" for step in self.steps)
