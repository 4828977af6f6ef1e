"""Times in a history: how soon after a fault sends succeed again, and how long no request was answered."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos.history import Event, Fault, History, Ok


@dataclass(frozen=True)
class Effect:
    """
    One fault, and what clients saw of it. All in seconds; C{None} where it never came.

    @ivar begin: since the run's begin, as C{end}.
    @ivar count: how often the fault was seen to happen.
    @ivar sent_after: from the fault's end to the first send that began after it and was taken.
    @ivar safe_after: the same, to the first that was taken with code 0.
    @ivar silence: the longest time without an acknowledgement between the fault's begin and the send after its end.
    """

    name: str
    target: str
    begin: float
    end: float
    count: int
    sent_after: float | None
    safe_after: float | None
    silence: float | None


def effects(events: Iterable[Event]) -> list[Effect]:
    """Return what each fault of a run did, in order."""
    run = History(events)
    oks = sorted(run.acked.values(), key=lambda ok: ok.t)
    begun: dict[tuple[str, str], Fault] = {}
    found = []
    for fault in run.faults:
        if fault.on:
            begun[fault.name, fault.target] = fault
            continue
        first = begun.pop((fault.name, fault.target), fault)
        later = [ok for ok in oks if ok.t > fault.t and run.invoked[ok.value].t >= fault.t]
        back = later[0] if later else None
        safe = next((ok for ok in later if ok.code == 0), None)
        found.append(
            Effect(
                fault.name,
                fault.target,
                first.t,
                fault.t,
                fault.count,
                None if back is None else back.t - fault.t,
                None if safe is None else safe.t - fault.t,
                None if back is None else _silence(oks, first.t, back.t),
            )
        )
    return found


def _silence(oks: list[Ok], begin: float, end: float) -> float:
    moments = [begin, *(ok.t for ok in oks if begin <= ok.t <= end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(moments))
