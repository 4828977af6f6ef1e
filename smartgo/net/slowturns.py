"""Slow turns: requests and timers that held the reactor up, counted by name, and logged once a minute each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, Final, TypeVar

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

T = TypeVar("T")

LIMIT: Final = 0.05
"""Seconds; a part of a reactor turn that takes longer is counted."""
OTHER: Final = "other"
"""The name of all that is counted after L{_NAMES} names are there."""

_NAMES: Final = 64
_EVERY: Final = 60.0  # seconds between two log lines about one name


class SlowTurns:
    """
    The turns of one process that took longer than L{LIMIT}.

    Timers call requests, and so on: what was counted within is not counted again for what is around it.

    @ivar counts: how often, by name.
    @ivar seconds: how long all of them together took.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}  # when last, and the count then
        self._recent: deque[tuple[float, float]] = deque(maxlen=_NAMES)  # when counted, and how long it took
        self.counts: dict[str, int] = {}
        self.seconds = 0.0

    def note(self, name: str, seconds: float, detail: str = "") -> None:
        """
        Count something that took long.

        @param name: one of a few, such as C{request 310}.
        @param detail: more of it, for the log.
        """
        self.seconds += seconds
        if name not in self.counts and len(self.counts) >= _NAMES:
            name = OTHER
        count = self.counts[name] = self.counts.get(name, 0) + 1
        now = self._clock.seconds()
        self._recent.append((now, seconds))
        last, before = self._logged.get(name, (-_EVERY, 0))
        if now - last >= _EVERY:
            self._logged[name] = now, count
            self._log.info(  # a stall is a warning; this is for who looks for its cause
                "{name} held up the reactor for {seconds:.3f} s ({detail}), {count} times since this was last logged",
                name=name,
                seconds=seconds,
                detail=detail or "no more is known",
                count=count - before,
            )

    def since(self, begun: float) -> float:
        """Return the seconds from a time on that were not counted yet: what took long by itself."""
        now = self._clock.seconds()
        return now - begun - sum(seconds for at, seconds in self._recent if at > begun)

    def timed(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call what a timer is to call, and count it where it takes long by itself."""
        begun = self._clock.seconds()
        try:
            function(*args, **kwargs)
        finally:
            if self._clock.seconds() - begun >= LIMIT:
                self._note_alone(f"timer {_name(function)}", begun)

    def delivered(self, lane: str, deliver: Callable[[], object]) -> None:
        """Deliver the result of a thread, and count it where what it leads to takes long by itself."""
        begun = self._clock.seconds()
        try:
            deliver()
        finally:
            if self._clock.seconds() - begun >= LIMIT:
                self._note_alone(f"result of thread {lane}", begun)

    @coroutine
    def steps(self, name: str, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """
        Run a coroutine, and count each step, from one wait to the next, that takes long by itself.

        @param name: one of a few, such as C{request GET /topics}.
        """
        resume: Callable[[], Any] = partial(work.send, None)
        while True:
            begun = self._clock.seconds()
            try:
                waits_for = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                if self._clock.seconds() - begun >= LIMIT:
                    self._note_alone(name, begun)
            try:
                resume = partial(work.send, (yield waits_for))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # thrown in where it waits: for the coroutine to catch
                resume = partial(work.throw, error)

    def _note_alone(self, name: str, begun: float) -> None:
        alone = self.since(begun)
        if alone >= LIMIT:
            self.note(name, alone)


def _name(function: Any) -> str:
    """Return the name of a function; of a looping call's its function's."""
    inner = getattr(function, "f", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__))
