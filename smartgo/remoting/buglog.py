"""Bugs met while answering a request: the peer gets a number, the log has the stack under the same number (B1)."""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger
from twisted.python.failure import Failure

_TEXT = 256  # characters of an exception that a peer is shown
_REMEMBERED: Final = 256


class BugLog:
    """
    Numbers bugs. The same exception class from the same lines is the same bug, and its stack is logged once.

    @ivar met: how many times one was met.
    """

    _log = Logger()

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._last = 0
        self.met = 0

    def remark(self, failure: Failure) -> str:
        """Return what the peer is told: class and text of the exception, cut, and the number of the bug."""
        self.met += 1
        kind = failure.value.__class__
        key = (kind, *((place[1], place[2]) for place in failure.frames))
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= _REMEMBERED:
                del self._numbers[next(iter(self._numbers))]
            self._last += 1
            number = self._numbers[key] = self._last
            self._log.failure("a request failed (ref {ref})", failure=failure, ref=number)
        try:
            text = str(failure.value)
        except Exception:  # an exception that cannot even say what it is
            text = "?"
        return f"{f'{kind.__name__}: {text}'[:_TEXT]} ref {number}"
