"""The position at which the writer of a CommitLog continues."""

from __future__ import annotations

from typing import NamedTuple

from smartgo.store.mappedfile import MappedFile


class LogPosition(NamedTuple):
    """
    The end of a log.

    @ivar end: physical offset after the last record.
    @ivar file: the file that holds C{end}, mapped and pinned, with blocks up to its end; C{None} where there is none
        yet, or no room for its blocks: the next append asks for it.
    @ivar stored_ms: store timestamp of the last record, as far as known.
    """

    end: int
    file: MappedFile | None
    stored_ms: int
