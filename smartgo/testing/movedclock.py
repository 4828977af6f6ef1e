"""
A wall clock that a test moves forward, and the environment of a broker that has it.

Only the wall clock is moved, as if somebody had set it: due times, time stamps and ages are read from it. The monotonic
clock stays, because leases, time-outs and the expiry of silent clients are measured with it
(docs/spec/reliability#H8), and the other side of these measures with a clock that nobody moves. Timers that are set
come earlier by the same time, so that a part that waits for a due time looks at the wall clock at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from smartgo.env.interfaces import IClock, IEnvironment


@implementer(IClock)
class MovedClock:
    """
    A clock whose wall clock is ahead of another one's.

    @ivar ahead: the seconds by which it is ahead.
    """

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._timers: WeakSet[Any] = WeakSet()
        self.ahead = 0.0

    def seconds(self) -> float:
        """Seconds of a clock that is never set, nor moved."""
        seconds: float = self._clock.seconds()
        return seconds

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object) -> IDelayedCall:
        """Call once, C{delay} seconds from now, or earlier if the clock is moved meanwhile."""
        timer = self._clock.callLater(delay, callable, *args, **kwargs)
        self._timers.add(timer)
        return timer

    def getDelayedCalls(self) -> Any:
        """Return the timers that are set."""
        return self._clock.getDelayedCalls()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, those that the clock was moved by included."""
        wall_ms: int = self._clock.wall_ms()
        return wall_ms + round(self.ahead * 1000)

    def utc_offset(self) -> float:
        """Return the offset from UTC by the system's time zone."""
        offset: float = self._clock.utc_offset()
        return offset

    def advance(self, seconds: float) -> None:
        """
        Move the wall clock forward, and all timers that are set with it.

        @raise ValueError: C{seconds} is negative: a broker's time goes forward.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock is moved forward, not by {seconds} s")
        self.ahead += seconds
        now = self.seconds()
        for timer in [one for one in self._timers if one.active()]:
            timer.reset(max(0.0, timer.getTime() - now - seconds))


@implementer(IEnvironment)
class MovedEnvironment:
    """Another environment with a clock of its own."""

    def __init__(self, env: IEnvironment, clock: IClock) -> None:
        self.clock = clock
        self.network = env.network
        self.threads = env.threads
        self.files = env.files
        self.random = env.random
        self.host = env.host
        self.buggify = env.buggify
