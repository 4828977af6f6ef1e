"""Threads of a history: work is done at one moment and told at another, both in an order that chance decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IThreads

T = TypeVar("T")

_ENOUGH: Final = 10_000  # pieces of work after which it seems that there will always be another


@implementer(IThreads)
class Lanes:
    """
    Lanes of work, first in, first out each.

    @ivar at_once: do everything when it is asked for.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._waiting: dict[str, list[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]]] = {}
        self._done: list[tuple[Deferred[Any], object]] = []
        self.at_once = False

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Queue work."""
        if self.at_once:
            return maybeDeferred(function, *args)
        result: Deferred[T] = Deferred()
        self._waiting.setdefault(lane, []).append((result, function, args))
        return result

    def stop(self) -> Deferred[None]:
        """Do what waits."""
        self.drain()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def step(self) -> bool:
        """Do one piece of work, or tell of one that is done; false where there is neither."""
        ready = [lane for lane, queue in self._waiting.items() if queue]
        if self._done and (not ready or self._chance.random() < 0.5):
            self._tell()
        elif ready:
            self._execute(self._chance.choice(ready))
        else:
            return False
        return True

    def drain(self) -> None:
        """Work until nothing is left. @raise AssertionError: that never happens."""
        for _ in range(_ENOUGH):
            if not self.step():
                return
        raise AssertionError("the threads are never without work")

    def _execute(self, lane: str) -> None:
        result, function, args = self._waiting[lane].pop(0)
        outcome: object
        try:
            outcome = function(*args)
        except Exception:
            outcome = Failure()
        self._done.append((result, outcome))

    def _tell(self) -> None:
        result, outcome = self._done.pop(0)
        if not result.called:
            result.callback(outcome)
