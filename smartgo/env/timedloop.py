"""A loop of calls on a given clock."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall


class TimedLoop(LoopingCall):
    """A C{LoopingCall} on a given clock, which does not install a reactor as Twisted's constructor does."""

    def __init__(self, clock: IReactorTime, function: Callable[[], object]) -> None:
        self.f = function
        self.a = ()
        self.kw = {}
        self.clock = clock
