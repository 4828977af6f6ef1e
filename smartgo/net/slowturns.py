"""Slow turns: requests and timers that held the reactor up, counted by name, and logged once a minute each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

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
        last, before = self._logged.get(name, (-_EVERY, 0))
        if now - last >= _EVERY:
            self._logged[name] = now, count
            self._log.info(  # a stall is a warning; this is for who looks for its cause
                "{name} held up the reactor for {seconds:.3f} s ({detail}), {count} times since this was last said",
                name=name,
                seconds=seconds,
                detail=detail or "no more is known",
                count=count - before,
            )

    def timed(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call what a timer is to call, and count it where it takes long by itself."""
        begun, counted = self._clock.seconds(), self.seconds
        try:
            function(*args, **kwargs)
        finally:
            took = self._clock.seconds() - begun
            if took >= LIMIT:
                alone = took - (self.seconds - counted)
                if alone >= LIMIT:
                    self.note(f"timer {_name(function)}", alone)


def _name(function: Any) -> str:
    """Return the name of a function; of a looping call's its function's."""
    inner = getattr(function, "f", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__))
