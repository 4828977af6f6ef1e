"""
The model of a broker: a plain dict of all sent messages, and the rules for their fate.

A message is owed once it was answered with code 0. One that was refused must never be seen; one whose answer never
came, or said that it is stored weaker than asked, may be there or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tests.histories.history import Violation
from tests.histories.storemodel import Key

TICK: Final = 0.1
"""Seconds that a delayed message may be early by (reliability D10)."""


class State(Enum):
    """The known state of a message."""

    UNKNOWN = "there or not"
    OWED = "must be there"
    DOUBTFUL = "there, or gone for good"  # its topic was deleted, and nobody was told that this is done
    GONE = "must not be there"


@dataclass
class Sent:
    """
    One message that a client sent.

    @ivar key: where it is to be read, once it is due.
    @ivar delay: seconds; 0 for one that is not delayed.
    @ivar physical, offset: where its answer says that it lies; -1 for unknown. Of a delayed one C{physical} only.
    @ivar below: physical offset that a log must reach so that it holds the message.
    @ivar batch: the number of the first message of its batch.
    @ivar crashes: how many crashes there were before it.
    @ivar hidden: its queue was taken from its topic on purpose.
    @ivar excused: its destination was deleted before it was delivered; it may come, or not.
    @ivar copies: how many copies there were when the positions of delivered messages were saved; -1 before.
    @ivar confirmed: a slave was said to have it.
    """

    number: int
    key: Key
    body: bytes
    at: float
    wall_ms: int
    batch: int
    crashes: int
    delay: float = 0.0
    state: State = State.UNKNOWN
    physical: int = -1
    offset: int = -1
    below: int = -1
    hidden: bool = False
    excused: bool = False
    copies: int = -1
    confirmed: bool = False


class Seen(NamedTuple):
    """One message as a consumer gets it."""

    offset: int
    physical: int
    body: bytes
    stored_ms: int
    at: float
    """When it was seen for the first time at the latest, in seconds."""


@dataclass
class BrokerModel:
    """
    Everything that clients sent to one broker.

    @ivar required: physical offset below which a power cut may take nothing.
    @ivar crashes: how many times the broker has died.
    @ivar retries: copies for the retry topic of a group, apart from what was sent there: they have equal bodies.
    """

    sent: dict[int, Sent] = field(default_factory=dict)
    retries: dict[int, Sent] = field(default_factory=dict)
    required: int = 0
    crashes: int = 0
    first: int = 0  # physical offset at which the log begins
    retry_key: Key = ("%RETRY%readers", 0)

    def everything(self) -> list[Sent]:
        """All messages, retries included."""
        return [*self.sent.values(), *self.retries.values()]

    @property
    def promised(self) -> int:
        """Physical offset below which the log has every message that must be there."""
        return max((one.below for one in self.everything() if one.state is State.OWED), default=0)

    def of_topic(self, topic: str) -> list[Sent]:
        """The messages that are to be read in a topic."""
        return [one for one in self.everything() if one.key[0] == topic]

    # -- what happens --------------------------------------------------------------------------------------------

    def answered(self, one: Sent, code: int, physical: int, offset: int, below: int) -> None:
        """
        A send was answered.

        @param physical, offset: from the answer; -1 where it does not say.
        """
        one.physical, one.below = physical, below
        if not one.delay:
            one.offset = offset
        if one.state in (State.GONE, State.DOUBTFUL):  # its topic was deleted meanwhile
            return
        if code == 0:
            one.state = State.OWED
        elif code not in (10, 11, 12):
            one.state = State.GONE

    def deleted(self, topic: str, numbers: Collection[int], certain: bool) -> None:
        """
        A topic was deleted.

        @param numbers: of the messages that had been sent before its deletion was asked for, answered or not.
        @param certain: the deletion was answered with code 0.
        """
        for one in self.of_topic(topic):
            if one.delay:
                one.excused = True
            elif one.number in numbers and one.state is not State.GONE:
                one.state = State.GONE if certain else State.DOUBTFUL

    def resized(self, topic: str, queues: int) -> None:
        """A topic got another number of queues, or was to get it."""
        for one in self.of_topic(topic):
            if one.key[1] >= queues:
                one.hidden = True

    def forgotten(self, topic: str, queues: int) -> None:
        """A power cut took the last settings of a topic: delayed messages to queues that it had may find none."""
        for one in self.of_topic(topic):
            if one.delay and one.key[1] >= queues:
                one.excused = True

    def saved(self) -> None:
        """All positions of delivered messages have been saved: what was delivered will not be delivered again."""
        for one in self.everything():
            if one.delay and one.state is State.OWED:
                one.copies = max(one.copies, 0)

    # -- crashes -------------------------------------------------------------------------------------------------

    def cut(self, end: int, power: bool) -> None:
        """
        The broker died, and its log now has this end.

        @raise Violation: the log has lost what it must have.
        """
        self.crashes += 1
        if power and end < self.required:
            raise Violation("lost", f"the log ends at {end}, and everything below {self.required} was durable")
        for one in self.everything():
            if one.below < 0 or end >= one.below or one.state is State.GONE:
                continue
            if not power and one.state is State.OWED:
                raise Violation("lost", f"message {one.number}, which is below {one.below}: the log ends at {end}")
            one.state = State.GONE if one.physical >= end else State.UNKNOWN
            one.physical = one.offset = one.below = -1
        self.required = min(self.required, end)

    def promoted(self, first: int, end: int, deleted: Collection[str] = ()) -> None:
        """
        A slave's log, from C{first} to C{end}, is the broker's from now on.

        @param deleted: topics of whose deletion the slave may not have heard.
        @raise Violation: it lacks what it is said to have confirmed.
        """
        self.crashes += 1
        for one in self.everything():
            one.copies = -1  # the slave may have an older copy of the positions
            is_there = one.physical < 0 or first <= one.physical < end  # unknown where nobody was answered
            if one.state is State.GONE and one.key[0] in deleted and is_there:
                one.state = State.DOUBTFUL
            if one.state is State.GONE or (0 <= one.below <= end and one.physical >= first):
                continue
            if one.confirmed and one.state is State.OWED:
                raise Violation("lost", f"message {one.number} at {one.physical}: the slave has {first} to {end}")
            gone = one.physical >= end or (0 <= one.physical < first and not one.delay)
            one.state = State.GONE if gone else State.UNKNOWN
            one.physical = one.offset = one.below = -1
            one.excused = True
        self.first = first
        self.required = min(self.required, end)

    # -- what is found -------------------------------------------------------------------------------------------

    def check(
        self,
        found: dict[Key, list[Seen]],
        readable: Callable[[Key], bool],
        quiet: bool,
        now: float,
    ) -> None:
        """
        Compare everything that consumers find with what was sent.

        @param found: the messages of every queue, from its first to its last.
        @param readable: whether a queue belongs to its topic as the broker says.
        @param quiet: everything was done that can be done: what is due was delivered, what is unknown has been decided.
        @raise Violation: a promise was broken.
        """
        places: dict[int, list[tuple[Key, Seen]]] = defaultdict(list)
        copies: dict[int, list[tuple[Key, Seen]]] = defaultdict(list)
        for key, messages in found.items():
            self._check_offsets(key, messages)
            for one in messages:
                number = _number(one.body, key)
                (copies if key[0] == self.retry_key[0] else places)[number].append((key, one))
        for table, seen in (self.sent, places), (self.retries, copies):
            for number, where in seen.items():
                if number not in table:
                    raise Violation("phantom", f"nobody sent message {number}, found in {where[0][0]}")
                self._check_found(table[number], where)
            for number, sent in table.items():
                if number not in seen:
                    self._check_missing(sent, readable, quiet, now)
                if quiet:
                    self._decide(sent, seen.get(number, []), readable)
        self._check_batches(places, found)

    def _check_offsets(self, key: Key, messages: Sequence[Seen]) -> None:
        offsets = [one.offset for one in messages]
        if offsets and offsets != list(range(offsets[0], offsets[0] + len(offsets))):
            raise Violation("hole", f"{key} has the offsets {offsets}")
        if offsets and offsets[0] and not self.first:
            raise Violation("hole", f"{key} begins at {offsets[0]}")
        if [one.physical for one in messages] != sorted(one.physical for one in messages):
            raise Violation("order", f"{key}: {[one.physical for one in messages]}")

    def _check_found(self, sent: Sent, where: Sequence[tuple[Key, Seen]]) -> None:
        name = f"message {sent.number}"
        for key, one in where:
            if one.body != sent.body:
                raise Violation("wrong body", f"{name} in {key}: {one.body[:40]!r} instead of {sent.body[:40]!r}")
            if key != sent.key:
                raise Violation("wrong queue", f"{name} in {key} instead of {sent.key}")
            if sent.state is State.GONE:
                raise Violation("deleted message", f"{name} in {key} at {one.offset}, physical {one.physical}")
            if not sent.delay and sent.offset >= 0 and (one.offset, one.physical) != (sent.offset, sent.physical):
                told = f"{sent.offset}, physical {sent.physical}"
                raise Violation("moved", f"{name} in {key}: at {one.offset}, physical {one.physical}, not {told}")
            early = one.at < sent.at + sent.delay - TICK
            if sent.delay and early and one.stored_ms < sent.wall_ms + (sent.delay - TICK) * 1000:
                raise Violation("early", f"{name} after {one.at - sent.at:.1f} s instead of {sent.delay:.1f} s")
        allowed = 1
        if sent.delay:
            allowed = sent.copies if sent.copies > 0 else 1 + self.crashes - sent.crashes
        if len(where) > allowed:
            raise Violation("twice", f"{name} is there {len(where)} times in {sent.key}, {allowed} allowed")

    def _check_missing(self, sent: Sent, readable: Callable[[Key], bool], quiet: bool, now: float) -> None:
        if sent.state is not State.OWED or sent.excused or (sent.hidden and not readable(sent.key)):
            return
        if sent.delay and not quiet and sent.copies <= 0:
            return  # whether it is late is asked when all is quiet
        what = "delayed " if sent.delay else ""
        raise Violation(
            "late" if sent.delay and sent.copies <= 0 else "lost",
            f"{what}message {sent.number} of {sent.key}, answered at {sent.offset}, physical {sent.physical},"
            f" sent {now - sent.at:.1f} s ago",
        )

    def _decide(self, sent: Sent, where: Sequence[tuple[Key, Seen]], readable: Callable[[Key], bool]) -> None:
        """Take over what is seen when all is quiet: nothing of it may change any more."""
        if where:
            if not sent.delay:
                _, one = where[0]
                sent.offset, sent.physical = one.offset, one.physical
                sent.below = max(sent.below, one.physical + 1)
            if sent.state is not State.OWED:
                sent.excused = sent.excused or bool(sent.delay)
                sent.state = State.OWED
        elif readable(sent.key) and (
            sent.state is State.DOUBTFUL or (sent.state is State.UNKNOWN and not sent.delay and not sent.hidden)
        ):
            sent.state = State.GONE
        if sent.delay and sent.copies >= 0:
            sent.copies = len(where)

    def _check_batches(self, places: dict[int, list[tuple[Key, Seen]]], found: dict[Key, list[Seen]]) -> None:
        batches: dict[int, list[int]] = defaultdict(list)
        for one in self.sent.values():
            batches[one.batch].append(one.number)
        for numbers in batches.values():
            there = [number in places for number in numbers]
            if any(there) and not all(there) and self.sent[numbers[0]].key in found:
                raise Violation("half a batch", f"messages {numbers}: {there}")


def _number(body: bytes, key: Key) -> int:
    head = body.partition(b":")[0]
    if not head.isdigit():
        raise Violation("wrong body", f"{key}: {body[:40]!r}")
    return int(head)
