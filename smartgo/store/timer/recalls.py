"""The recalls among the entries that wait, counted by the messages that they recall."""

from __future__ import annotations

from typing import Final

KNOWN_LIMIT: Final = 16_384
"""Recalls of which it is kept in memory what they recall, about 400 B each."""


class WaitingRecalls:
    """
    The recalls that wait.

    Two recalls of one message recall one message. What a recall is of is known of those that came since the start, and
    of so many at most; every other one counts as one of a message of its own.
    """

    def __init__(self, limit: int = KNOWN_LIMIT) -> None:
        self._limit = limit
        self._unknown = 0
        self._of: dict[int, set[bytes]] = {}  # what is recalled -> its recalls
        self._keys: dict[bytes, int] = {}

    @property
    def count(self) -> int:
        """The number of recalls."""
        return self._unknown + len(self._keys)

    @property
    def recalled(self) -> int:
        """The number of messages that they recall."""
        return self._unknown + len(self._of)

    def restore(self, count: int) -> None:
        """Begin with some recalls of which it is not known what they recall."""
        self._unknown = count

    def add(self, entry: bytes, key: int | None) -> None:
        """
        Add one.

        @param key: a number for the message that is recalled; C{None}: not known.
        """
        if key is None or len(self._keys) >= self._limit:
            self._unknown += 1
        else:
            self._of.setdefault(key, set()).add(entry)
            self._keys[entry] = key

    def remove(self, entry: bytes) -> None:
        """Remove one."""
        key = self._keys.pop(entry, None)
        if key is None:
            self._unknown -= 1
            return
        same = self._of[key]
        same.discard(entry)
        if not same:
            del self._of[key]
