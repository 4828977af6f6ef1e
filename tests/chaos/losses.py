"""
The shape of a loss by power: what was acknowledged before the power was cut and is not there afterwards.

These are figures for a report; the checker judges the same loss by L{tests.chaos.excuses}.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos.history import TURNS, Event, History


@dataclass(frozen=True)
class Loss:
    """
    The acknowledged messages that a power cut took.

    @ivar values: of the messages, in the order of their acknowledgements; sent with code 0 before the cut.
    @ivar window: seconds from the first acknowledgement of them to the cut; 0 where there are none.
    @ivar survivors: messages that were acknowledged later than the first of them, but before the cut, and are there.
    """

    values: tuple[str, ...] = ()
    window: float = 0.0
    survivors: int = 0


def power_loss(events: Iterable[Event], name: str) -> Loss:
    """
    Return what the last fault of some name took, as the final read of all replicas shows it.

    @param name: of the fault, as its events have it; within it lies the L{Crash} that ends the acknowledgements.
    @raise ValueError: there was no such fault, or no crash within it.
    """
    run = History(events)
    moments = {fault.on: fault.t for fault in run.faults if fault.name == name}
    crashes = [crash.t for crash in run.crashes if moments.get(True, crash.t) <= crash.t <= moments.get(False, 0)]
    if not crashes:
        raise ValueError(f"no crash within a fault named {name}")
    there = {final.value for finals in run.finals.values() for final in finals}
    whole = {(queue, turn) for (_, turn, queue) in run.bounds}
    acked = sorted((ok for ok in run.required if ok.t <= crashes[-1]), key=lambda ok: ok.t)
    read = [ok for ok in acked if all((ok.queue, turn) in whole for turn in TURNS)]
    lost = [ok for ok in read if ok.value not in there]
    if not lost:
        return Loss()
    first = lost[0].t
    survivors = sum(ok.t > first for ok in read if ok.value in there)
    return Loss(tuple(ok.value for ok in lost), max(moments[True], lost[-1].t) - first, survivors)
