"""A part of one CommitLog file that one task of Spark reads."""

from __future__ import annotations

from dataclasses import dataclass

from smartgo.schema.regions import Region


@dataclass(frozen=True)
class LogRange:
    """
    A range of one CommitLog file; all offsets are physical.

    @ivar store: root directory.
    @ivar path: the file.
    @ivar base: offset of the file's first byte.
    @ivar begin: offset from which on records may start; C{end} before which they do.
    @ivar limit: offset from which on nothing is looked at; the file's end, or the end of what was written.
    @ivar is_aligned: a record starts at C{begin}; else the first after it is searched for.
    @ivar is_last: the log may end in this file, torn or not; else what cannot be read is damage.
    @ivar known: damaged regions of the file that the store knows of, in order.
    @ivar looks_on: see to it that what follows the last record is valid; not where nobody asked for what follows.
    @ivar is_short: the file is shorter than it was.
    @ivar promised: offset up to which the ConsumeQueues name records, 0 where they do not tell: the log cannot have
        ended before, torn or not.
    """

    store: str
    path: str
    base: int
    begin: int
    end: int
    limit: int
    is_aligned: bool
    is_last: bool
    known: tuple[Region, ...] = ()
    looks_on: bool = True
    is_short: bool = False
    promised: int = 0
