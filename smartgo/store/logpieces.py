"""Pieces of the log's files, for reads that a thread does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smartgo.env.interfaces import IFiles
from smartgo.store.commitlog import CommitLog

Piece = tuple[str, int, int]
"""Path, position in the file, bytes; without a path there is nothing to read."""


class LogPieces:
    """Finds the pieces of files that records lie in, and reads them."""

    def __init__(self, log: CommitLog, files: IFiles) -> None:
        self._commitlog = log
        self._files = files

    def of(self, records: Iterable[tuple[int, int, int]]) -> list[Piece]:
        """
        Return the piece of each record; on the reactor thread.

        @param records: logical offset, physical offset and size of each.
        """
        places = []
        for _, physical, size in records:
            file = self._commitlog.files.find(physical)
            if file is None or not 0 < size <= file.end - physical:
                places.append(("", 0, 0))
            else:
                places.append((file.path, physical - file.base, size))
        return places

    def fetch(self, pieces: Sequence[Piece]) -> list[bytes]:
        """Read pieces, empty ones where a file is gone; blocking."""
        found = []
        for path, at, size in pieces:
            try:
                found.append(self._files.read_at(path, at, size) if path else b"")
            except FileNotFoundError:
                found.append(b"")
        return found
