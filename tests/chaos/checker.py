"""
The judge of a run (reliability T9, T10): names every promise that the history shows broken.

Required are the sends that were answered with code 0; forbidden is any value that nobody ever sent. A send whose answer
is unknown, or which was stored with a weaker code, is neither. A run in which nothing was acknowledged, a fault did not
happen, or the final read is incomplete, has no verdict: C{unknown} is never taken for C{valid}.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos.consumption import out_of_order, undelivered
from tests.chaos.delays import early
from tests.chaos.excuses import excuse
from tests.chaos.history import (
    TURNS,
    Commit,
    Event,
    Final,
    History,
    Invoke,
    Ok,
    Place,
    Plan,
    Read,
    broker_of,
)
from tests.chaos.judgement import Anomaly, Judgement, Kind


def check(history: Iterable[Event]) -> Judgement:
    """Judge a run; the order of the events does not matter, their moments do."""
    run = History(history)
    judgement = Judgement()
    judgement.counts.update(run.outcomes)
    judgement.counts["read"] = len(run.reads)
    judgement.counts["read at the end"] = sum(map(len, run.finals.values()))
    judgement.unknown.extend(_unknown(run))
    excuses, anomalies = excuse(run, judgement)
    judgement.anomalies.extend(anomalies)
    for found in (
        _lost(run, judgement),
        _foreign(run),
        _duplicates(run, judgement),
        _places(run),
        _holes(run),
        _backwards(run, judgement),
        _order(run),
        _stale(run),
        early(run, excuses.given),
        _aborted(run),
        _replicas(run),
        _batches(run),
        _ids(run),
        undelivered(run, excuses),
        out_of_order(run, excuses),
        (Anomaly(Kind.NOT_LIVE, stuck.text) for stuck in run.stuck),
    ):
        judgement.anomalies.extend(found)
    return judgement


def _unknown(run: History) -> Iterator[str]:
    yield from run.missing
    if not any(ok.code == 0 for ok in run.acked.values()):
        yield "nothing was acknowledged with code 0"
    planned = {queue for plan in run.plans for queue in plan.queues}
    if not run.plans:
        yield "there was no final read"
    for queue in sorted({ok.queue for ok in run.acked.values() if ok.queue} - planned):
        yield f"the final read left out {queue}"
    for plan in run.plans:
        for queue in plan.queues:
            for turn in TURNS:
                if (plan.replica, turn, queue) not in run.bounds:
                    yield f"the final read, turn {turn}, did not get to the end of {queue} at {plan.replica}"
    ended = {(fault.name, fault.target) for fault in run.faults if not fault.on}
    for fault in run.faults:
        if not fault.on and fault.count < 1:
            yield f"the fault never happened: {fault.name} of {fault.target}"
        elif fault.on and (fault.name, fault.target) not in ended:
            yield f"nobody saw the end of the fault: {fault.name} of {fault.target}"


def _lost(run: History, judgement: Judgement) -> Iterator[Anomaly]:
    """
    Look for what was acknowledged and is not there, or not there where it was acknowledged to be.

    Where messages are lost, the loss's shape is told: the time between the first acknowledgement lost and the last, and
    how many acknowledged after the first are there all the same. A torn tail has no survivors.
    """
    for plan in run.plans:
        where: dict[str, set[Place]] = defaultdict(set)
        for queue in plan.queues:
            for turn in TURNS:
                for final in run.finals[plan.replica, turn, queue]:
                    where[final.value].add((queue, final.offset))
        brokers = {broker_of(queue) for queue in plan.queues}
        acked = [ok for ok in run.required if (ok.queue in plan.queues if ok.queue else ok.broker in ("", *brokers))]
        acked.sort(key=lambda ok: ok.t)
        begun = min((ok.t for ok in acked if (ok.queue, ok.offset) in where.get(ok.value, ())), default=0.0)
        lost: list[Ok] = []
        found: list[Ok] = []
        for ok in acked:
            if not _must_have(run, plan, ok, begun):
                continue
            places = where.get(ok.value)
            if not places:
                lost.append(ok)
                continue
            found.append(ok)
            if ok.queue and (ok.queue, ok.offset) not in places:
                at = ", ".join(f"{queue} {offset}" for queue, offset in sorted(places))
                yield Anomaly(
                    Kind.MOVED,
                    f"{ok.value} was acknowledged at {ok.queue} {ok.offset} and is at {at} of {plan.replica}",
                )
        if lost:
            window = (lost[-1].t - lost[0].t) * 1000
            after = sum(ok.t > lost[0].t for ok in found)
            judgement.counts[f"lost at {plan.replica}"] = len(lost)
            judgement.counts[f"survivors behind the first lost at {plan.replica}"] = after
            for ok in lost:
                place = f"{ok.queue} {ok.offset}" if ok.queue else "a place not told"
                yield Anomaly(
                    Kind.LOST,
                    f"{ok.value}, acknowledged at {place} after {ok.t:.3f} s, is not at {plan.replica}"
                    f" (in all {len(lost)} within {window:.0f} ms, {after} survivors behind the first)",
                )


def _must_have(run: History, plan: Plan, ok: Ok, begun: float) -> bool:
    """
    Return whether a replica must have an acknowledged message: it was read, and not from behind that place on.

    A replica that may begin later lacks a queue whose messages all lie before its log begins.

    @param begun: when the first message that the replica has was acknowledged; 0 where it has none.
    """
    queues = [ok.queue] if ok.queue else plan.queues
    bounds = [run.bounds.get((plan.replica, turn, queue)) for queue in queues for turn in TURNS]
    if ok.queue and all(each is not None and not each.whole and each.end == 0 for each in bounds):
        return ok.t > begun
    return all(each is not None and (each.whole or ok.offset >= each.begin) for each in bounds)


def _foreign(run: History) -> Iterator[Anomaly]:
    told: set[tuple[str, int, str, int]] = set()
    for message in run.seen:
        case = (message.queue, message.offset, message.value, message.digest)
        if case in told:
            continue
        invoked = run.invoked.get(message.value)
        if invoked is None:
            told.add(case)
            yield Anomaly(Kind.PHANTOM, f"nobody sent {message.value!r}, which is at {message.queue} {message.offset}")
        elif invoked.digest != message.digest:
            told.add(case)
            yield Anomaly(
                Kind.CORRUPT_BODY,
                f"{message.value} at {message.queue} {message.offset} has a body of CRC {message.digest:08x},"
                f" it was sent with {invoked.digest:08x}",
            )


def _duplicates(run: History, judgement: Judgement) -> Iterator[Anomaly]:
    """
    Look for more copies of a message than requests can have been made of it.

    A delayed message may be delivered once more after each crash (reliability D10).
    """
    for plan in run.plans:
        places: dict[str, set[Place]] = defaultdict(set)
        for queue in plan.queues:
            for final in run.finals[plan.replica, TURNS[0], queue]:
                places[final.value].add((queue, final.offset))
        for value, copies in places.items():
            if len(copies) == 1 or value not in run.invoked:
                continue
            judgement.counts[f"copies at {plan.replica}"] += len(copies) - 1
            attempts = run.invoked[value].attempts * (1 + _crashes(run, value))
            if len(copies) > attempts:
                at = ", ".join(f"{queue} {offset}" for queue, offset in sorted(copies))
                said = f"{value} is at {at} of {plan.replica}, but was requested at most {attempts} times"
                yield Anomaly(Kind.DUPLICATE, said)


def _crashes(run: History, value: str) -> int:
    """Return how many crashes may have had a delayed message delivered again; 0 for one that is not delayed."""
    invoked = run.invoked[value]
    if not invoked.delay:
        return 0
    ok = run.acked.get(value)
    broker = "" if ok is None else ok.broker or broker_of(ok.queue)
    return sum(crash.t >= invoked.t and crash.broker in (broker, broker or crash.broker) for crash in run.crashes)


def _places(run: History) -> Iterator[Anomaly]:
    """Look for places that were claimed by two messages: in an acknowledgement, to a consumer or in the end."""
    holders: dict[Place, str] = {}  # the first message of each place
    claims: dict[Place, dict[str, str]] = {}  # of places with more than one: who claims them, and where
    placed: list[Ok | Read | Final] = [ok for ok in run.acked.values() if ok.queue]
    placed += run.seen
    for message in placed:
        place = (message.queue, message.offset)
        if holders.setdefault(place, message.value) != message.value:
            claims[place] = {}
    if not claims:
        return
    for message in placed:
        values = claims.get((message.queue, message.offset))
        if values is not None:
            values.setdefault(message.value, _where(message))
    for queue, offset in holders:
        values = claims.get((queue, offset))
        if values is not None:
            said = ", ".join(f"{value} ({what})" for value, what in values.items())
            yield Anomaly(Kind.INCONSISTENT_OFFSET, f"{queue} {offset}: {said}")


def _where(message: Ok | Read | Final) -> str:
    """Return in words where a message was seen to have a place."""
    if isinstance(message, Ok):
        return "acknowledged"
    return f"read at {message.replica}" if isinstance(message, Final) else f"read by {message.who}"


def _holes(run: History) -> Iterator[Anomaly]:
    for (replica, turn, queue), bounds in run.bounds.items():
        offsets = {final.offset for final in run.finals.get((replica, turn, queue), ())}
        absent = [offset for offset in range(bounds.begin, bounds.end) if offset not in offsets]
        if absent:
            yield Anomaly(Kind.HOLE, f"{queue} of {replica} has nothing at {_ranges(absent)}; it goes to {bounds.end}")


def _ranges(numbers: list[int]) -> str:
    """Write ascending numbers as ranges, the first few of them."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} places more" if len(texts) > 5 else "")


def _backwards(run: History, judgement: Judgement) -> Iterator[Anomaly]:
    """
    Look for a session that was led back, and for messages that the second final read no longer shows.

    Reads without a session are a push consumer's: whatever it has not confirmed may come again.
    """
    reached: dict[tuple[str, str, str], int] = {}
    delivered: set[tuple[str, str, int]] = set()
    for read in run.reads:
        delivery = (read.who, read.queue, read.offset)
        if delivery in delivered:
            judgement.counts["delivered again"] += 1
        delivered.add(delivery)
        if not read.session:
            continue
        session = (read.who, read.session, read.queue)
        before = reached.get(session, -1)
        if read.offset <= before:
            yield Anomaly(
                Kind.NONMONOTONIC_READ,
                f"{read.who} was given {read.queue} {read.offset} after {before} of the same queue",
            )
        reached[session] = max(read.offset, before)
    for plan in run.plans:
        for queue in plan.queues:
            once, again = ({final.offset for final in run.finals[plan.replica, turn, queue]} for turn in TURNS)
            if (plan.replica, TURNS[1], queue) in run.bounds and once - again:
                yield Anomaly(
                    Kind.NONMONOTONIC_READ,
                    f"the second read of {queue} at {plan.replica} lacks {_ranges(sorted(once - again))}",
                )


def _order(run: History) -> Iterator[Anomaly]:
    """Look at each producer's sends to each queue: one begun after another's answer must lie behind it."""
    by_queue: dict[tuple[str, str], list[tuple[Invoke, Ok]]] = defaultdict(list)
    for ok in run.acked.values():
        invoked = run.invoked.get(ok.value)
        if ok.queue and invoked is not None:
            by_queue[invoked.who, ok.queue].append((invoked, ok))
    for (who, queue), sends in by_queue.items():
        answered = sorted(sends, key=lambda send: send[1].t)
        done = 0
        highest: Ok | None = None
        for invoked, ok in sorted(sends, key=lambda send: send[0].t):
            while done < len(answered) and answered[done][1].t < invoked.t:
                each = answered[done][1]
                highest = each if highest is None or each.offset > highest.offset else highest
                done += 1
            if highest is not None and ok.offset <= highest.offset:
                yield Anomaly(
                    Kind.ORDER,
                    f"{who} sent {ok.value} after the answer to {highest.value}, yet in {queue} it is at {ok.offset},"
                    f" not behind {highest.offset}",
                )


def _stale(run: History) -> Iterator[Anomaly]:
    """Look for stored positions ahead of every one that had been sent; older ones mean redelivery and are allowed."""
    highest: dict[tuple[str, str], int] = {}
    for event in run.commits:
        place = (event.group, event.queue)
        if isinstance(event, Commit):
            highest[place] = max(event.offset, highest.get(place, 0))
        elif event.offset > (sent := highest.get(place, 0)):
            said = f"{event.group} is said to be at {event.offset} of {event.queue}, but sent at most {sent}"
            yield Anomaly(Kind.STALE_COMMIT, said)


def _aborted(run: History) -> Iterator[Anomaly]:
    visible: dict[str, Read | Final] = {}
    for message in run.seen:
        if message.value in run.rolled_back:
            visible.setdefault(message.value, message)
    for value, message in visible.items():
        yield Anomaly(Kind.ABORTED_VISIBLE, f"{value} was rolled back and is at {message.queue} {message.offset}")


def _replicas(run: History) -> Iterator[Anomaly]:
    """Look for queues that end elsewhere, or hold something else, at another replica; and for logs that differ."""
    first: dict[str, str] = {}
    for plan in run.plans:
        for queue in plan.queues:
            bounds = run.bounds.get((plan.replica, TURNS[1], queue))
            if bounds is None:
                continue
            model = first.setdefault(queue, plan.replica)
            if model == plan.replica:
                continue
            end = run.bounds[model, TURNS[1], queue].end
            absent = bounds.end == 0 and not bounds.whole  # its log may begin behind the queue's last message
            if end != bounds.end and not absent:
                yield Anomaly(
                    Kind.REPLICA_DIFFERS, f"{queue} ends at {end} at {model}, at {bounds.end} at {plan.replica}"
                )
            theirs = {final.offset: final for final in run.finals[model, TURNS[1], queue]}
            for final in run.finals[plan.replica, TURNS[1], queue]:
                other = theirs.get(final.offset, final)
                if (other.value, other.digest) != (final.value, final.digest):
                    yield Anomaly(
                        Kind.REPLICA_DIFFERS,
                        f"{queue} {final.offset} is {other.value} at {model}, {final.value} at {plan.replica}",
                    )
    for logs in run.logs:
        if logs.differs >= 0:
            compared = f"{logs.begin} to {logs.end} were compared"
            said = f"the logs of {logs.one} and {logs.other} differ at {logs.differs}; {compared}"
            yield Anomaly(Kind.REPLICA_DIFFERS, said)


def _batches(run: History) -> Iterator[Anomaly]:
    """Look for batches of which a part is there, or whose messages do not lie side by side (reliability D12)."""
    batches: dict[str, dict[str, int]] = defaultdict(dict)
    for invoked in run.invoked.values():
        if invoked.batch:
            batches[invoked.batch][invoked.value] = invoked.part
    if not batches:
        return
    for plan in run.plans:
        if any((plan.replica, TURNS[0], queue) not in run.bounds for queue in plan.queues):
            continue
        starts: dict[str, set[Place]] = defaultdict(set)  # where the batch of each value would begin
        for queue in plan.queues:
            if not run.bounds[plan.replica, TURNS[0], queue].whole:
                continue
            for final in run.finals[plan.replica, TURNS[0], queue]:
                sent = run.invoked.get(final.value)
                if sent is not None and sent.batch:
                    starts[final.value].add((queue, final.offset - sent.part))
        for batch, values in batches.items():
            for queue, start in sorted(set().union(*(starts[value] for value in values))):
                absent = [value for value in values if (queue, start) not in starts[value]]
                if absent:
                    yield Anomaly(
                        Kind.HALF_BATCH,
                        f"batch {batch}, at {queue} from {start} of {plan.replica}, lacks {', '.join(absent)}"
                        f" of {len(values)}",
                    )


def _ids(run: History) -> Iterator[Anomaly]:
    """Look for messages that share an id, and for copies of one send that do not: they cannot be told."""
    values: dict[str, set[str]] = defaultdict(set)
    ids: dict[str, set[str]] = defaultdict(set)
    for message in run.seen:
        if message.id and message.value in run.invoked:
            values[message.id].add(message.value)
            ids[message.value].add(message.id)
    for value, its in ids.items():
        if len(its) > 1:
            yield Anomaly(Kind.DUPLICATE, f"the copies of {value} have the ids {', '.join(sorted(its))}")
    for one, named in values.items():
        if len(named) > 1:
            yield Anomaly(Kind.DUPLICATE, f"{', '.join(sorted(named))} have the same id, {one}")
