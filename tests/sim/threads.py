"""The threads of a simulated process: a call is an event with a drawn duration."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IThreads
from tests.sim.kernel import Kernel, Life

T = TypeVar("T")


class Pace(Protocol):
    """What makes the threads of a process slow: its machine."""

    call: float
    """Seconds that a call takes at most, where they are not slow."""
    slowness: float
    """By how much calls take longer than usual; 1 for not at all."""
    slowed: int
    """How many calls took longer."""


@implementer(IThreads)
class SimThreads:
    """
    Lanes of work, first in, first out each.

    A call is made at some moment of its duration, and told when that is over: what it did may survive a process that
    never hears of it.
    """

    def __init__(self, kernel: Kernel, life: Life, chance: random.Random, pace: Pace) -> None:
        self._kernel = kernel
        self._life = life
        self._chance = chance
        self._pace = pace
        self._free: dict[str, float] = {}  # lane -> when its last call is over
        self._running: dict[Deferred[Any], None] = {}

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Make a call in the thread of a lane, after those before it."""
        kernel, chance = self._kernel, self._chance
        result: Deferred[T] = Deferred()
        self._running[result] = None
        begin = max(kernel.now, self._free.get(lane, 0.0))
        duration = self._pace.call * chance.random() * self._pace.slowness
        self._pace.slowed += self._pace.slowness > 1
        self._free[lane] = begin + duration
        made = duration * chance.random()
        kernel.later(
            begin - kernel.now + made, self._make, lane, begin + duration, result, function, args, life=self._life
        )
        return result

    def _make(
        self, lane: str, end: float, result: Deferred[Any], function: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        outcome: object
        try:
            outcome = function(*args)
        except Exception:
            outcome = Failure()
        self._kernel.later(max(0.0, end - self._kernel.now), self._tell, lane, result, outcome, life=self._life)

    def _tell(self, lane: str, result: Deferred[Any], outcome: object) -> None:
        del self._running[result]
        self._kernel.trace("thread", lane)
        if not result.called:
            result.callback(outcome)

    def stop(self) -> Deferred[None]:
        """Fire when all calls that were asked for are over."""
        waits: list[Deferred[None]] = []
        for running in list(self._running):
            wait: Deferred[None] = Deferred()
            running.addBoth(_pass_on, wait)
            waits.append(wait)
        return DeferredList(waits).addCallback(lambda _: None)


def _pass_on(value: Any, wait: Deferred[None]) -> Any:
    wait.callback(None)
    return value
