"""The trace of a simulation, and its hash."""

from __future__ import annotations

import hashlib
from typing import Final

_TOGETHER: Final = 1000  # lines that are hashed at once


class Trace:
    """
    The lines of a simulation, hashed as they come.

    @ivar lines: the lines, if they are kept.
    """

    def __init__(self, keep: bool = False) -> None:
        """@param keep: keep the lines, for a person to read."""
        self._keep = keep
        self._hash = hashlib.sha256()
        self._waiting: list[str] = []  # lines that are not hashed yet
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a line."""
        self._waiting.append(line)
        if len(self._waiting) >= _TOGETHER:
            self._hash_waiting()
        if self._keep:
            self.lines.append(line)

    def _hash_waiting(self) -> None:
        self._hash.update("".join([f"{line}\n" for line in self._waiting]).encode())
        self._waiting.clear()

    @property
    def digest(self) -> str:
        """The hash of all lines: equal for two runs of one seed, in hexadecimal digits."""
        self._hash_waiting()
        return self._hash.hexdigest()
