"""
What a read is cut into: ranges of log files, one task each.

A record belongs to the range in which it starts, wherever it ends. No index is needed to begin in the middle: a record
states its own physical offset, see L{smartgo.spark.walk}.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogRange:
    """
    A piece of one CommitLog file.

    @ivar store: root directory, as given by the user.
    @ivar path: the file.
    @ivar base: physical offset of the file's first byte.
    @ivar begin: physical offset from which on records may start; C{end} before which they do.
    @ivar is_last: no file follows, so the log may end in this one, torn or not.
    """

    store: str
    path: str
    base: int
    begin: int
    end: int
    is_last: bool
