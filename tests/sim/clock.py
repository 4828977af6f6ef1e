"""The clocks of a simulated process: a monotonic one with a drift, and the wall clock of its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from tests.sim.kernel import Kernel, Life, Timer


class WallClock(Protocol):
    """What has a wall clock that can be set: a machine."""

    wall_offset_ms: int


def after(clock: ProcessClock, seconds: float) -> Deferred[None]:
    """Return what fires so many seconds from now; C{deferLater} with less around it, as clients wait often."""
    done: Deferred[None] = Deferred()
    clock.callLater(seconds, done.callback, None)
    return done


@implementer(IClock)
class ProcessClock:
    """The virtual time as one process sees it."""

    def __init__(self, kernel: Kernel, life: Life, machine: WallClock) -> None:
        self._kernel = kernel
        self._life = life
        self._machine = machine

    def seconds(self) -> float:
        """Return the monotonic time."""
        return self._life.since + self._kernel.now * self._life.rate

    def wall_ms(self) -> int:
        """Return the machine's wall clock, in milliseconds since the epoch."""
        return self._machine.wall_offset_ms + int(self._kernel.now * self._life.rate * 1000)

    def utc_offset(self) -> float:
        """Return no offset: all machines are at Greenwich."""
        return 0.0

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object) -> IDelayedCall:
        """Call later, if the process lives then."""
        kernel = self._kernel
        timer = Timer(kernel, self._life, kernel.now + delay / self._life.rate, callable, args, kwargs)
        kernel.push(timer)
        return timer

    def getDelayedCalls(self) -> list[IDelayedCall]:
        """Return the calls of this process that are still to come."""
        return self._kernel.waiting(self._life)
