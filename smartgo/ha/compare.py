"""The question before the stream: do the two logs agree where ours ends (reliability H3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.errors import CallFailed
from smartgo.ha.interfaces import IMasterTail
from smartgo.schema.hatransfer import TAIL_LIMIT
from smartgo.store.checkpoint import UNMARKED
from smartgo.store.replicatedlog import FoundDamage, IReplicatedLog

T = TypeVar("T")


class Verdict(NamedTuple):
    """The result of comparing two logs."""

    difference: str
    """One sentence; empty where the logs agree, or nobody can say."""
    master_end: int | None
    """How far the master's log goes; C{None} for unknown."""
    ticket: bytes = b""
    """With what the stream has to begin; empty for nothing."""
    master_minimum: int = 0
    """Where the master's log begins; 0 for unknown, too."""
    is_too_old: bool = False
    """Our log ends before the master's begins."""
    marked_from: int = UNMARKED
    """Physical offset from which on the master marks the records of batches."""


async def compare(log: IReplicatedLog, tail: IMasterTail, master: str) -> Verdict:
    """
    Compare the last 64 KiB of our log with the same range of the master's. Where the end of our log is in doubt, these
    are the last before that: the stream begins there, and compares the rest.

    An empty log is compared with nothing; the question is asked all the same, as a master may want to know who it is
    that will follow it (reliability X6).

    @param master: C{host:port} of its main port.
    @raise CallFailed: it cannot be asked, or does not answer the question.
    @raise smartgo.errors.NoSuchMessage: our own log has lost the range meanwhile.
    """
    minimum, end = log.log_bounds()
    sure = log.doubtful_from
    begin = max(minimum, sure - TAIL_LIMIT)
    while True:
        answer = await tail.ask(master, begin, sure, follow=True, check=True)
        if answer is None:
            return Verdict("", None)
        marked = UNMARKED if answer.marked_from is None else answer.marked_from
        difference = ""
        is_too_old = 0 < end < answer.minimum
        if end > answer.end:
            difference = f"our log goes to {end}, the master's only to {answer.end}"
        elif is_too_old:
            difference = f"our log ends at {end}, and the master has nothing before {answer.minimum} any more"
        elif max(begin, answer.minimum) < sure:
            if answer.crc is None and begin < answer.minimum:  # it has removed its oldest file
                begin = answer.minimum
                continue
            if answer.crc is None and not answer.damaged:
                raise CallFailed(
                    f"{master} does not say what its log has from {begin} to {sure}: its own log tells whether its disk"
                    " cannot read that"
                )
            same = answer.crc == await uncancelled(log.crc(begin, sure))
            oldest = max(minimum, answer.minimum)
            if not same and not await _same_but_for_damage(log, tail, master, (begin, sure), answer.damaged, oldest):
                difference = f"our log and the master's differ between {begin} and {sure}"
        return Verdict(difference, answer.end, answer.ticket, answer.minimum, is_too_old, marked)


async def _same_but_for_damage(
    log: IReplicatedLog,
    tail: IMasterTail,
    master: str,
    bounds: tuple[int, int],
    theirs: Sequence[FoundDamage],
    oldest: int,
) -> bool:
    """
    Tell whether a range of our log and the same of the master's differ in damaged regions alone.

    Where nothing is left beside these, the 64 KiB before them are compared, and so on. Where nothing is left at all,
    nobody can say that the logs are the same, unless all that we have is damaged in both.

    @param theirs: what is damaged in the master's.
    @param oldest: physical offset of the first byte that both logs have.
    """
    begin, end = bounds
    has_nothing = oldest == log.log_bounds()[0]
    while True:
        ours = await uncancelled(log.find_damage(begin, end))
        damaged = sorted([*theirs, *ours])
        if not damaged:
            return False
        at, compared = begin, 0
        for one in [*damaged, FoundDamage(end, 0)]:
            if at < one.offset:
                answer = await tail.ask(master, at, min(one.offset, end))
                if answer is None or answer.crc != await uncancelled(log.crc(at, min(one.offset, end))):
                    return False
                compared += min(one.offset, end) - at
            at = max(at, one.end)
        first = damaged[0].offset
        if compared:
            return True
        start = max(first, oldest)
        has_nothing = has_nothing and _covers(ours, start, end) and _covers(theirs, start, end)
        if first <= oldest:
            return has_nothing
        begin, end = max(oldest, first - TAIL_LIMIT), first
        before = await tail.ask(master, begin, end, check=True)
        if before is None:
            return False
        if before.crc is not None and before.crc == await uncancelled(log.crc(begin, end)):
            return True
        theirs = before.damaged


def _covers(damaged: Sequence[FoundDamage], begin: int, end: int) -> bool:
    """Tell whether damaged regions, in order, leave no byte between two physical offsets."""
    for one in damaged:
        if one.offset > begin:
            break
        begin = max(begin, one.end)
    return begin >= end


def uncancelled(work: Deferred[T]) -> Deferred[T]:
    """Whoever waits for work in a thread may leave; the work may not be cancelled (L{IThreads.run})."""
    told: Deferred[T] = Deferred()

    def tell(result: T | Failure) -> None:
        if not told.called:
            told.callback(result)

    work.addBoth(tell)
    return told
