"""The question before the stream: do the two logs agree where ours ends (reliability H3)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.errors import CallFailed
from smartgo.ha.interfaces import IMasterTail
from smartgo.schema.hatransfer import TAIL_LIMIT
from smartgo.store.checkpoint import UNMARKED
from smartgo.store.replicatedlog import IReplicatedLog

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
            if answer.crc is None:
                raise CallFailed(f"{master} does not say what its log has from {begin} to {sure}")
            same = answer.crc == await uncancelled(log.crc(begin, sure))
            if not same and not await _same_but_for_damage(log, tail, master, (begin, sure), answer.damaged):
                difference = f"our log and the master's differ between {begin} and {sure}"
        return Verdict(difference, answer.end, answer.ticket, answer.minimum, is_too_old, marked)


async def _same_but_for_damage(
    log: IReplicatedLog, tail: IMasterTail, master: str, bounds: tuple[int, int], theirs: tuple[tuple[int, int], ...]
) -> bool:
    """
    Tell whether a range of our log and the same of the master's differ in damaged regions alone.

    Where nothing is left beside these, nobody can say that the logs are the same.

    @param theirs: what is damaged in the master's.
    """
    begin, end = bounds
    damaged = sorted([*theirs, *await uncancelled(log.find_damage(begin, end))])
    if not damaged:
        return False
    compared = 0
    for offset, length in [*damaged, (end, 0)]:
        if begin < offset:
            answer = await tail.ask(master, begin, min(offset, end))
            if answer is None or answer.crc != await uncancelled(log.crc(begin, min(offset, end))):
                return False
            compared += min(offset, end) - begin
        begin = max(begin, offset + length)
    return compared > 0


def uncancelled(work: Deferred[T]) -> Deferred[T]:
    """Whoever waits for work in a thread may leave; the work may not be cancelled (L{IThreads.run})."""
    told: Deferred[T] = Deferred()

    def tell(result: T | Failure) -> None:
        if not told.called:
            told.callback(result)

    work.addBoth(tell)
    return told
