"""Long loops in slices, between which the reactor does what else there is to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IClock

T = TypeVar("T")

SLICE: Final = 500
"""Items of one slice: some milliseconds."""


async def in_slices(clock: IClock, items: Sequence[T], act: Callable[[T], object]) -> None:
    """Call C{act} with each item; what it raises ends the loop."""
    for begin in range(0, len(items), SLICE):
        if begin:
            turn: Deferred[None] = Deferred()
            clock.callLater(0, turn.callback, None)
            await turn
        for item in items[begin : begin + SLICE]:
            act(item)
