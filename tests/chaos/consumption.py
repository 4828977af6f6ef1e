"""What groups of push consumers are promised: every message, and to orderly ones in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final as Constant

from tests.chaos.excuses import Excuses
from tests.chaos.history import TURNS, Final, Group, History, Read, topic_of
from tests.chaos.judgement import Anomaly, Kind

_GIVEN_BACK: Constant = 10.0  # seconds in which a client has given a refused message back: two calls of 5 s at most


def undelivered(run: History, excuses: Excuses) -> Iterator[Anomaly]:
    """
    Look for messages that a group never consumed, although they are in its topics.

    One that a consumer refused must come again, unless a crash may have lost the copy that the consumer gave back.
    """
    for group in run.groups:
        consumed: set[str] = set()
        refused: set[str] = set()
        for read in excuses.given:
            if read.group == group.group:
                (refused if read.failed and not _copy_lost(run, read) else consumed).add(read.value)
        for final in _messages(run, group):
            if final.value in consumed or excuses.retaken(final.queue, final.offset):
                continue
            what = "given to it, refused, and not given again" if final.value in refused else "never given to it"
            yield Anomaly(Kind.UNDELIVERED, f"{group.group}: {final.value} at {final.queue} {final.offset} was {what}")


def _copy_lost(run: History, read: Read) -> bool:
    """
    Return whether a crash may have lost the copy of a refused message that its consumer gave back.

    Its own broker takes the copy or, where that does not answer, any other. None waits until the copy is flushed or
    replicated (they have C{WAIT=false}, as RocketMQ's have).
    """
    return any(crash.window and read.t < crash.t < read.t + _GIVEN_BACK + crash.window for crash in run.crashes)


def out_of_order(run: History, excuses: Excuses) -> Iterator[Anomaly]:
    """Look for messages that an orderly group was given before the one in front of them was consumed."""
    for group in run.groups:
        if not group.orderly:
            continue
        queues: dict[str, list[int]] = defaultdict(list)
        for final in _messages(run, group):
            if not excuses.retaken(final.queue, final.offset):
                queues[final.queue].append(final.offset)
        reads: dict[str, list[Read]] = defaultdict(list)
        for read in run.reads:
            if read.group == group.group:
                reads[read.queue].append(read)
        for queue, offsets in queues.items():
            offsets.sort()
            indexes = {offset: index for index, offset in enumerate(offsets)}
            done = 0
            for read in reads[queue]:
                index = indexes.get(read.offset)
                if index is None:
                    continue
                if index > done:
                    yield Anomaly(
                        Kind.ORDER,
                        f"{group.group} was given {read.value} at {queue} {read.offset} after {read.t:.3f} s, before"
                        f" offset {offsets[done]} was consumed",
                    )
                    done = index
                if index == done and not read.failed:
                    done += 1


def _messages(run: History, group: Group) -> Iterator[Final]:
    """Yield the messages of a group's topics, from the first replica whose queues were read."""
    seen: set[str] = set()
    for plan in run.plans:
        for queue in plan.queues:
            if queue not in seen and topic_of(queue) in group.topics:
                seen.add(queue)
                yield from run.finals[plan.replica, TURNS[0], queue]
