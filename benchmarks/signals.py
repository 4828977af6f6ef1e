"""Signals that end a benchmark: what it started is to end with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """
    Let SIGINT, SIGTERM and SIGHUP leave the block by C{SystemExit}, so that whatever is cleared up at its end is.

    The status is 128 and the signal's number, as a shell has it. A signal after the first does not disturb the
    clearing up. One that is ignored, as SIGINT is in the background of a script and SIGHUP under C{nohup}, stays so.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    try:
        for number in heard:
            signal.signal(number, end)
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
