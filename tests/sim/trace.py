"""The trace of a simulation, and its hash."""

from __future__ import annotations

import hashlib


class Trace:
    """
    The lines of a simulation, hashed as they come.

    @ivar lines: the lines, if they are kept.
    """

    def __init__(self, keep: bool = False) -> None:
        """@param keep: keep the lines, for a person to read."""
        self._keep = keep
        self._hash = hashlib.sha256()
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a line."""
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The hash of all lines: equal for two runs of one seed, in hexadecimal digits."""
        return self._hash.hexdigest()
