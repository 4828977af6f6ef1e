"""
The times of delayed messages: none comes early, and one that is not due by its broker's clock need not be there.

A broker's master delivers them when its wall clock shows their time. Where that clock is set meanwhile they come so
much sooner or later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from smartgo.schema.topics import RETRY_PREFIX
from tests.chaos.history import History, Read, broker_of, topic_of
from tests.chaos.judgement import Anomaly, Kind

DELAY_TICK: Final = 0.1
"""Seconds that a delayed message may be early by (reliability D10)."""

_LATE: Final = 5.0  # seconds that the delivery of a delayed message may take


def early(run: History, given: Iterable[Read]) -> Iterator[Anomaly]:
    """
    Look for delayed messages that came early.

    The copy that a consumer gave back comes from the group's retry topic, at any broker. It is not judged: the group
    had the message before, and that delivery is judged.

    @param given: all that consumers were given, in order.
    """
    refused: set[tuple[str, str]] = set()  # by group
    for read in given:
        if topic_of(read.queue) == RETRY_PREFIX + read.group and (read.group, read.value) in refused:
            continue
        if read.failed:
            refused.add((read.group, read.value))
        invoked = run.invoked.get(read.value)
        if invoked is None or not invoked.delay:
            continue
        due = invoked.t + invoked.delay - DELAY_TICK
        if read.t < due and read.t < due - _set_forward(run, broker_of(read.queue), invoked.t, read.t):
            yield Anomaly(
                Kind.EARLY_DELAY,
                f"{read.value} came {read.t - invoked.t:.3f} s after it was sent, not {invoked.delay:g} s",
            )


def _set_forward(run: History, broker: str, begin: float, end: float) -> float:
    """Return by how many seconds the clock of a broker's master was set forward at most between any two moments."""
    most = forward = 0.0
    for jump in run.jumps:
        if begin <= jump.t <= end and jump.sets_master_of(broker):
            forward = max(forward + jump.by, 0.0)
            most = max(most, forward)
    return most


def leave_out_not_due(run: History) -> None:
    """
    Take out messages with a delivery time that is not due when the final read begins.

    They are due by the wall clock of their broker's master, which delivers them: where it is set back before, they are
    late by as much. Delay levels are not: brokers hold them to the monotonic clock.
    """
    if not run.jumps or not run.plans:
        return
    end = run.plans[0].t - _LATE
    for ok in list(run.acked.values()):
        invoked = run.invoked.get(ok.value)
        if invoked is None or not invoked.timed or not ok.broker:
            continue
        after = [jump.by for jump in run.jumps if jump.t > invoked.t and jump.sets_master_of(ok.broker)]
        if end + sum(after) < invoked.t + invoked.delay:
            del run.acked[ok.value]
