"""
The kernel of a simulation: virtual time, and a heap of calls ordered by time and number.

Between two calls no time passes; to wait costs nothing. Two calls of the same moment run in the order in which they
were asked for, so that a run depends on nothing but its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.sim.trace import Trace


class Life:
    """
    The life of one simulated process: the calls of one that is dead are never made.

    @ivar alive: whether it lives.
    @ivar paused_until: virtual time until which the process is stopped, as by C{SIGSTOP}; its clock goes on.
    """

    __slots__ = ("alive", "paused_until", "rate", "since")

    def __init__(self, rate: float = 1.0, since: float = 0.0) -> None:
        """
        @param rate: seconds of its monotonic clock that pass in one second of virtual time.
        @param since: what its monotonic clock says when virtual time is 0.
        """
        self.alive = True
        self.paused_until = 0.0
        self.rate = rate
        self.since = since


@implementer(IDelayedCall)
class Timer:
    """A call that the kernel will make."""

    __slots__ = ("_cancelled", "_kernel", "args", "at", "function", "kwargs", "life")

    def __init__(
        self,
        kernel: Kernel,
        life: Life,
        at: float,
        function: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """@param at: virtual time of the call."""
        self._kernel = kernel
        self._cancelled = False
        self.life = life
        self.at = at
        self.function: Callable[..., object] | None = function
        self.args = args
        self.kwargs = kwargs

    def getTime(self) -> float:
        """Return when it will be called, in seconds of the process's clock."""
        return self.life.since + self.at * self.life.rate

    def active(self) -> bool:
        """Tell whether it is still to be called."""
        return self.function is not None

    def cancel(self) -> None:
        """Call it never."""
        self._check()
        self._cancelled = True
        self.function = None
        self.args = ()
        self.kwargs = {}

    def reset(self, seconds: float) -> None:
        """Call it so many seconds from now instead."""
        self._check()
        self._move(self._kernel.now + seconds / self.life.rate)

    def delay(self, seconds: float) -> None:
        """Call it so many seconds later."""
        self._check()
        self._move(self.at + seconds / self.life.rate)

    def _move(self, at: float) -> None:
        earlier = at < self.at
        self.at = at
        if earlier:  # the entry in the heap comes too late; one that comes too early is put back there
            self._kernel.push(self)

    def _check(self) -> None:
        if self._cancelled:
            raise AlreadyCancelled
        if self.function is None:
            raise AlreadyCalled


class Kernel:
    """
    Virtual time and the calls to come.

    @ivar now: virtual time, in seconds.
    @ivar bugs: what calls raised.
    @ivar stopped: set by L{stop}.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self._trace = Trace() if trace is None else trace
        self._heap: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._life = Life()
        self.now = 0.0
        self.calls = 0
        self.bugs: list[Failure] = []
        self.stopped = False

    def trace(self, *words: object) -> None:
        """Add a line to the trace, after the time."""
        self.trace_text(" ".join(map(str, words)))

    def trace_text(self, text: str) -> None:
        """Add a line to the trace, after the time; for what happens often."""
        self._trace.add(f"{self.now:.6f} {text}")

    def push(self, timer: Timer) -> None:
        """Put a timer into the heap by its time."""
        self._number += 1
        heappush(self._heap, (timer.at, self._number, timer))

    def later(self, delay: float, function: Callable[..., object], *args: Any, life: Life | None = None) -> Timer:
        """
        Call C{function(*args)} once.

        @param delay: seconds from now.
        @param life: the process that makes the call, if it lives then; C{None}: the simulation itself.
        """
        at = self.now + delay
        timer = Timer(self, life or self._life, at, function, args, {})
        self._number += 1
        heappush(self._heap, (at, self._number, timer))
        return timer

    def run(self, seconds: float) -> None:
        """Let time pass, and make all calls that are due until then, or until L{stop}."""
        end = self.now + seconds
        heap = self._heap
        self.stopped = False
        while heap and heap[0][0] <= end:
            at, _, timer = heappop(heap)
            function = timer.function
            if function is None or not timer.life.alive:
                continue
            if timer.at > at:
                self.push(timer)
                continue
            if timer.life.paused_until > at:
                timer.at = timer.life.paused_until
                self.push(timer)
                continue
            if at > self.now:
                self.now = at
            timer.function = None
            self.calls += 1
            try:
                if timer.kwargs:
                    function(*timer.args, **timer.kwargs)
                else:
                    function(*timer.args)
            except Exception:
                self.bugs.append(Failure())
            if self.stopped:
                return
        self.now = end

    def stop(self) -> None:
        """Return from L{run} after the call that is being made."""
        self.stopped = True

    def wait(self, deferred: Deferred[Any], seconds: float) -> bool:
        """Let time pass until a Deferred fires, at most so long; return whether it has fired. Its result stays."""
        fired = False

        def note(result: Any) -> Any:
            nonlocal fired
            fired = True
            self.stop()
            return result

        end = self.now + seconds
        deferred.addBoth(note)
        while not fired and self.now < end:
            self.run(end - self.now)
        return fired

    def waiting(self, life: Life) -> list[IDelayedCall]:
        """Return the calls of a process that are still to come."""
        found = [timer for _, _, timer in self._heap if timer.life is life and timer.active()]
        return list(dict.fromkeys(found))
