"""The shape of a loss by power: what was acknowledged before the power was cut and is not there afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos.checker import TURNS
from tests.chaos.history import Event, Fault, History, Info, Ok, Read


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

    @param name: of the fault, as its events have it.
    @raise ValueError: there was no such fault.
    """
    run = History(events)
    begun, ended = _moments(run.faults, name)
    there = _there(run)
    whole = {(queue, turn) for (_, turn, queue) in run.bounds}
    acked = sorted((ok for ok in run.required if ok.t <= ended), key=lambda ok: ok.t)
    read = [ok for ok in acked if all((ok.queue, turn) in whole for turn in TURNS)]
    lost = [ok for ok in read if ok.value not in there]
    if not lost:
        return Loss()
    first = lost[0].t
    survivors = sum(ok.t > first for ok in read if ok.value in there)
    return Loss(tuple(ok.value for ok in lost), max(begun, lost[-1].t) - first, survivors)


def forgiven(events: Iterable[Event], name: str, seen: bool = True) -> list[Event]:
    """
    Return a history in which nobody knows what became of the messages that a fault took: what was acknowledged with
    whatever code before its end and is not there. Their places are free again. The checker judges all else.

    @param name: of the fault, as its events have it.
    @param seen: whether consumers may have been shown what is not there: never under SYNC_FLUSH (reliability D6).
    @raise ValueError: there was no such fault.
    """
    events = list(events)
    run = History(events)
    _, ended = _moments(run.faults, name)
    there = _there(run)
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Ok | Read) and event.t <= ended and event.value not in there:
            if isinstance(event, Ok):
                kept.append(Info(t=event.t, who=event.who, value=event.value, why=f"lost by a {name}"))
            elif not seen:
                kept.append(event)
        else:
            kept.append(event)
    return kept


def _there(run: History) -> set[str]:
    return {final.value for finals in run.finals.values() for final in finals}


def _moments(faults: Iterable[Fault], name: str) -> tuple[float, float]:
    """Return the begin and the end of the last fault of some name."""
    moments = {fault.on: fault.t for fault in faults if fault.name == name}
    if len(moments) < 2:
        raise ValueError(f"no fault named {name} has begun and ended")
    return moments[True], moments[False]
