"""
Reactor stalls: counted, and logged with the stack that blocked the reactor (reliability S4).

A reactor that was waiting for events when the alarm went off was not blocked: the machine did not run the process. That
is logged, and no stall.

A timer of the reactor sets an alarm ten times a second. If the reactor is blocked for a quarter of a second longer than
that, the alarm goes off, and the code that runs at that moment is what blocks it.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IClock

INTERVAL: Final = 0.1
"""Seconds between two timer calls."""
STALL: Final = 0.25
"""Seconds of blocking that count as a stall."""

_FRAMES: Final = 12
_EVERY: Final = 60.0  # seconds between two stacks that end at the same place, and between two lines about stalls
_PLACES: Final = 64  # whose stacks are remembered as shown
_WAITS: Final = frozenset({"doPoll", "doSelect", "doIteration"})  # where Twisted's reactors wait for something to do


class StallWatch(Service):
    """
    Watches the reactor thread for stalls.

    @ivar count: the number of stalls.
    @ivar longest: seconds of the longest.
    """

    _log = Logger()

    def __init__(self, clock: IClock, wind: Callable[[float], object] | None = None) -> None:
        """
        @param wind: sets the alarm to go off in so many seconds, 0 for never; the process's real-time alarm if C{None}.
        """
        self._clock = clock
        self._wind = wind or (lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds))
        self._call: IDelayedCall | None = None
        self._due = 0.0
        self._shown: dict[tuple[str, int], float] = {}  # file and line -> when their stack was logged last
        self._said_at = -_EVERY
        self._said = 0  # the count then
        self._waiting = False  # whether the last alarm found the reactor waiting for events
        self._not_run_said_at = -_EVERY
        self.count = 0
        self.longest = 0.0

    def startService(self) -> None:
        """Start to watch; in the main thread, the only one that gets alarms."""
        super().startService()
        signal.signal(signal.SIGALRM, self.alarm)
        self._next()

    def stopService(self) -> None:
        """Stop watching."""
        super().stopService()
        self._wind(0.0)
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _next(self) -> None:
        self._waiting = False
        self._due = self._clock.seconds() + INTERVAL
        self._call = self._clock.callLater(INTERVAL, self._round)
        self._wind(INTERVAL + STALL)

    def _round(self) -> None:
        late = self._clock.seconds() - self._due
        if late >= STALL and self._waiting:
            self._say_not_run(late)
        elif late >= STALL:
            self.count += 1
            self.longest = max(self.longest, late)
            self._say(late)
        self._next()

    def _say(self, late: float) -> None:
        """Log a stall, at most once a minute, with the number of stalls since then."""
        now = self._clock.seconds()
        if now - self._said_at < _EVERY:
            return
        self._log.warn(
            "the reactor was blocked for {seconds:.3f} s, stall {count} since this was last logged",
            seconds=late,
            count=self.count - self._said,
        )
        self._said_at, self._said = now, self.count

    def _say_not_run(self, late: float) -> None:
        """Log that the process was idle and did not run, at most once a minute."""
        now = self._clock.seconds()
        if now - self._not_run_said_at >= _EVERY:
            self._not_run_said_at = now
            self._log.warn(
                "the machine did not run this process for {seconds:.3f} s: it was busy, suspended or short of memory",
                seconds=late,
            )

    def alarm(self, number: int, frame: FrameType | None) -> None:
        """Log the running code, once a minute for each place; if the reactor waits for events, only note that."""
        if frame is None:
            return
        if _is_waiting(frame):
            self._waiting = True
            return
        place = frame.f_code.co_filename, frame.f_lineno
        now = self._clock.seconds()
        if now - self._shown.get(place, -_EVERY) < _EVERY:
            return
        if len(self._shown) >= _PLACES:
            self._shown.clear()
        self._shown[place] = now
        stack = "".join(traceback.format_stack(frame, _FRAMES))
        self._log.warn("the reactor is blocked in:\n{stack}", stack=stack)


def _is_waiting(frame: FrameType) -> bool:
    """Return whether a reactor waits for events in this frame."""
    return frame.f_code.co_name in _WAITS and frame.f_globals.get("__name__", "").startswith("twisted.internet.")
