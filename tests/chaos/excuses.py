"""
What a run's crashes and deletions excuse: taken out of the history before promises are looked at.

A master that loses its power may lose the end of its log, as far as its flush mode says (reliability, durability
contract): what was acknowledged within the window before the crash. What it lost must be a suffix of what it had
acknowledged: nothing behind the first lost message may survive. The places of lost messages are taken anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.chaos.delays import leave_out_not_due
from tests.chaos.history import TURNS, Crash, Dropped, History, Ok, Place, Read, broker_of, topic_of
from tests.chaos.judgement import Anomaly, Judgement, Kind


@dataclass
class Excuses:
    """
    What was excused.

    @ivar lost: by crash, what was acknowledged and is gone.
    @ivar given: all that consumers were given, also what a crash may have taken since.
    @ivar rewound: (queue, crash) -> the places, from the first to the last, that the crash gave back and that may have
        been taken anew: a consumer that stood behind them never sees who took them.
    """

    lost: dict[Crash, list[Ok]] = field(default_factory=lambda: defaultdict(list))
    given: list[Read] = field(default_factory=list)
    rewound: dict[tuple[str, Crash], range] = field(default_factory=dict)

    def rewind(self, queue: str, offset: int, crash: Crash) -> None:
        """Note that a crash gave a place back, and with that all between this place and those noted before."""
        places = self.rewound.get((queue, crash), range(offset, offset + 1))
        self.rewound[queue, crash] = range(min(places.start, offset), max(places.stop, offset + 1))

    def retaken(self, queue: str, offset: int) -> bool:
        """Return whether a place may have been taken anew after a crash."""
        return any(where == queue and offset in places for (where, _), places in self.rewound.items())


def excuse(run: History, judgement: Judgement) -> tuple[Excuses, list[Anomaly]]:
    """
    Take out of a history what crashes and deletions excuse.

    @return: what was excused; and where more is gone than a crash excuses, or a deleted topic has messages.
    """
    excuses = Excuses(given=run.reads)
    anomalies = list(_deleted(run))
    leave_out_not_due(run)
    if any(crash.window for crash in run.crashes):
        there = _there(run)
        first = _first_claims(run)
        for ok in list(run.acked.values()):
            crash = _excused(run, ok.value, first.get((ok.queue, ok.offset, ok.value), ok.t), ok.queue, ok)
            if crash is not None and _gone(run, there, ok):
                del run.acked[ok.value]
                excuses.lost[crash].append(ok)
                if ok.queue:
                    excuses.rewind(ok.queue, ok.offset, crash)
        kept = []
        given: dict[tuple[str, int, str], float] = {}  # when consumers were first given each message
        for read in run.reads:
            claim = (read.queue, read.offset, read.value)
            given[claim] = min(read.t, given.get(claim, read.t))
        for read in run.reads:
            place = (read.queue, read.offset)
            since = first[read.queue, read.offset, read.value]
            taken_by = None
            if read.value not in there.get(place, ()):
                taken_by = _excused(
                    run, read.value, since, read.queue, given=given[read.queue, read.offset, read.value]
                )
            if taken_by is None:
                kept.append(read)
            else:
                excuses.rewind(*place, taken_by)
        run.reads = kept
        anomalies += _survivors(run, excuses)
        for crash, lost in excuses.lost.items():
            judgement.counts[f"lost with the power of {crash.broker}"] += len(lost)
    return excuses, anomalies


def _there(run: History) -> dict[Place, set[str]]:
    """Return the values at each place that every replica that was read to the end has."""
    found: dict[Place, set[str]] = {}
    for plan in run.plans:
        for queue in plan.queues:
            bounds = run.bounds.get((plan.replica, TURNS[0], queue))
            if bounds is None:
                continue
            here: dict[Place, set[str]] = defaultdict(set)
            for final in run.finals[plan.replica, TURNS[0], queue]:
                here[queue, final.offset].add(final.value)
            for offset in range(bounds.begin if not bounds.whole else 0, bounds.end):
                place = (queue, offset)
                found[place] = found[place] & here[place] if place in found else set(here[place])
    return found


def _first_claims(run: History) -> dict[tuple[str, int, str], float]:
    """Return when each message was first known to be at a place."""
    first: dict[tuple[str, int, str], float] = {}
    for ok in run.acked.values():
        first[ok.queue, ok.offset, ok.value] = ok.t
    for read in run.reads:
        claim = (read.queue, read.offset, read.value)
        first[claim] = min(read.t, first.get(claim, read.t))
    return first


def _excused(
    run: History, value: str, since: float, queue: str, ok: Ok | None = None, given: float = 0.0
) -> Crash | None:
    """
    Return the crash that may have taken a message; C{None} for none.

    @param since: when it was first known to be stored.
    @param ok: its acknowledgement; C{None} where it was delivered.
    @param given: when it was first delivered; after the crash that can only be by the slave, which may have more.
    """
    invoked = run.invoked.get(value)
    if invoked is None:
        return None
    broker = broker_of(queue) if queue or ok is None else ok.broker
    for crash in run.crashes:
        safe = crash.flushes and given < crash.t
        if ok is not None:
            safe = (crash.flushes or crash.replicates) and invoked.wait and ok.code == 0
        if crash.broker == broker and invoked.t < crash.t < since + crash.window and not safe:
            return crash
    return None


def _gone(run: History, there: dict[Place, set[str]], ok: Ok) -> bool:
    """
    Return whether an acknowledged message is gone from the broker that acknowledged it.

    Where the answer told no place, a copy at another broker, of a request before, is not what was acknowledged.
    """
    if ok.queue:
        return any(ok.queue in plan.queues for plan in run.plans) and ok.value not in there.get(
            (ok.queue, ok.offset), ()
        )
    return not any(ok.value in values for (queue, _), values in there.items() if ok.broker in ("", broker_of(queue)))


def _survivors(run: History, excuses: Excuses) -> Iterator[Anomaly]:
    """Look for what was acknowledged behind a message that a crash took, before the crash, and is there."""
    for crash, lost in excuses.lost.items():
        sure = [ok for ok in lost if ok.queue and ok.code == 0]
        if not sure:
            continue
        first = min(sure, key=lambda ok: ok.t)
        lowest: dict[str, Ok] = {}
        for ok in sure:
            if ok.queue not in lowest or ok.offset < lowest[ok.queue].offset:
                lowest[ok.queue] = ok
        for ok in run.acked.values():
            if not ok.queue or ok.t >= crash.t or broker_of(ok.queue) != crash.broker:
                continue
            if crash.replicates and ok.t < crash.t - crash.window:  # lost is what was stored in place of the slave's
                continue
            before = lowest.get(ok.queue)
            if before is None or ok.offset < before.offset:
                before = first if ok.value in run.invoked and run.invoked[ok.value].t > first.t else None
            if before is not None:
                yield Anomaly(
                    Kind.LOST,
                    f"{before.value}, acknowledged at {before.queue} {before.offset} after {before.t:.3f} s, was lost"
                    f" with the power of {crash.broker} at {crash.t:.3f} s, but {ok.value}, stored behind it at"
                    f" {ok.queue} {ok.offset}, was not: the loss is no suffix",
                )


def _deleted(run: History) -> Iterator[Anomaly]:
    """Take out what was acknowledged in topics that were deleted; none of it may be read in the end."""
    topics = {dropped.topic: dropped for dropped in run.dropped}
    if not topics:
        return
    gone: dict[str, float] = {}
    for ok in list(run.acked.values()):
        dropped = topics.get(topic_of(ok.queue))
        if dropped is not None:
            del run.acked[ok.value]
            if dropped.certain and ok.t < dropped.begun and not _forgettable(run, dropped, broker_of(ok.queue)):
                gone[ok.value] = dropped.t
    for finals in run.finals.values():
        for final in finals:
            if final.value in gone:
                yield Anomaly(
                    Kind.PHANTOM,
                    f"{final.value} is at {final.queue} {final.offset} of {final.replica}; its topic was deleted after"
                    f" {gone[final.value]:.3f} s",
                )


def _forgettable(run: History, dropped: Dropped, broker: str) -> bool:
    """Return whether a crash of a broker may have undone a deletion, as it was not durable yet (reliability D15)."""
    return any(
        crash.broker == broker
        and crash.window
        and not crash.flushes
        and dropped.begun < crash.t < dropped.t + crash.window
        for crash in run.crashes
    )
