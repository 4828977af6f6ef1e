"""
The events of a run: written as JSON lines while it runs, and judged afterwards.

An operation that may or may not have had an effect is an L{Invoke} and at most one of L{Ok}, L{Fail} and L{Info}. A
queue is named by one text, C{topic@broker:number}, such as C{Orders@broker-a:3}. Moments are seconds since the
run began, taken from one monotonic clock of the machine, so that all processes of a run share it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TypeAlias, Union
from typing import Final as Constant

import msgspec


class _Event(msgspec.Struct, frozen=True, tag_field="event", tag=str.lower, kw_only=True, omit_defaults=True):
    """
    Something that happened.

    @ivar t: when, in seconds since the run began.
    @ivar who: which client, by its name.
    """

    t: float = 0.0
    who: str = ""


class Invoke(_Event, frozen=True, kw_only=True):
    """
    A send begins.

    @ivar value: names the message in the whole run, and stands in its body.
    @ivar digest: CRC-32 of the body.
    @ivar attempts: how many requests the client may make of it; each of them may be stored.
    @ivar delay: seconds before which it must not be delivered.
    @ivar timed: it is to be delivered at a time, not after a delay level: it is late by as much as the wall clock of
        its broker is set back.
    @ivar half: it is to be seen only when committed.
    @ivar batch: names the batch that it is sent in; empty for none.
    @ivar part: its place in that batch, from 0.
    @ivar wait: it is to be answered only when it is as durable as the broker's settings ask.
    """

    value: str
    digest: int = 0
    attempts: int = 1
    delay: float = 0.0
    timed: bool = False
    half: bool = False
    batch: str = ""
    part: int = 0
    wait: bool = True


class Ok(_Event, frozen=True, kw_only=True):
    """
    A send was answered as stored.

    @ivar code: 0, or 10, 11, 12: stored more weakly than asked for.
    @ivar queue: where; the empty text where the place is not told (delayed and half messages).
    @ivar broker: who answered, where the place is not told.
    """

    value: str
    code: int = 0
    queue: str = ""
    offset: int = -1
    broker: str = ""


class Fail(_Event, frozen=True, kw_only=True):
    """A send was refused."""

    value: str
    why: str = ""


class Info(_Event, frozen=True, kw_only=True):
    """Nobody knows what became of a send."""

    value: str
    why: str = ""


class Decided(_Event, frozen=True, kw_only=True):
    """The verdict on a half message was acknowledged."""

    value: str
    commit: bool


class Read(_Event, frozen=True, kw_only=True):
    """
    A consumer was given a message.

    @ivar value: as the body says; empty where the body says nothing that could be a value.
    @ivar session: what reads on from offset to offset; a new one may begin anywhere. Empty: it may come again.
    @ivar group: the group of a push consumer, which a L{Group} announces; empty for none.
    @ivar failed: the consumer refuses it, so that it must come again.
    @ivar id: the unique id that its producer's client generated; empty where it is not told.
    """

    queue: str
    offset: int
    value: str
    digest: int = 0
    session: str = ""
    group: str = ""
    failed: bool = False
    id: str = ""


class Group(_Event, frozen=True, kw_only=True):
    """
    A group of push consumers that is to get every message of some topics.

    @ivar orderly: each queue in its order, none before the one in front of it was consumed.
    """

    group: str
    topics: list[str]
    orderly: bool = False


class Commit(_Event, frozen=True, kw_only=True):
    """A group's position was sent to the broker."""

    group: str
    queue: str
    offset: int


class Stored(_Event, frozen=True, kw_only=True):
    """The broker said which position it has of a group."""

    group: str
    queue: str
    offset: int


class Plan(_Event, frozen=True, kw_only=True):
    """The final read begins: these queues are to be read from this replica, twice."""

    replica: str
    queues: list[str]


class Bounds(_Event, frozen=True, kw_only=True):
    """
    One queue of one replica was read from its begin to its end.

    @ivar turn: 1 or 2.
    @ivar whole: the replica is to have the queue from its first message on; else it may begin later, as a slave
        does that had an empty log while its master had more than one file.
    """

    replica: str
    turn: int
    queue: str
    begin: int
    end: int
    whole: bool = True


class Final(_Event, frozen=True, kw_only=True):
    """One message of the final read; its fields are as those of L{Read}."""

    replica: str
    turn: int
    queue: str
    offset: int
    value: str
    digest: int = 0
    id: str = ""


class Logs(_Event, frozen=True, kw_only=True):
    """
    The commit logs of two replicas were compared, byte by byte.

    @ivar begin: the first physical offset that both have; C{end} behind the last that either has.
    @ivar differs: the first physical offset at which they differ; -1 for nowhere.
    """

    one: str
    other: str
    begin: int
    end: int
    differs: int = -1


class Fault(_Event, frozen=True, kw_only=True):
    """
    A fault begins (C{on}) or is over.

    @ivar target: what it hits.
    @ivar count: at the end, how often it was seen to happen: packets dropped, processes killed. 0: it never happened.
    """

    name: str
    target: str
    on: bool
    count: int = 0


class Crash(_Event, frozen=True, kw_only=True):
    """
    The master of a broker died; no clean stop is one.

    @ivar broker: its name, as queues have it behind C{@}.
    @ivar window: seconds; what was acknowledged so long before the crash, or later, may be gone: its power failed, or
        its disk lost pages of a flush that failed. 0: what was appended is kept, as when a process is killed.
    @ivar flushes: the broker flushes before it acknowledges, and before it delivers: of what was acknowledged with code
        0 only sends that did not wait may be gone.
    @ivar replicates: its slave had what was acknowledged with code 0, and takes the place of what was lost.
    """

    broker: str
    window: float = 0.0
    flushes: bool = False
    replicates: bool = False
    cause: str = "killed"


class Dropped(_Event, frozen=True, kw_only=True):
    """
    A topic was deleted; it does not come back.

    @ivar begun: when the deletion was asked for, in seconds since the run began.
    @ivar certain: all brokers have answered that it is done, and none of them can have lost it.
    """

    topic: str
    begun: float
    certain: bool = True


class Jump(_Event, frozen=True, kw_only=True):
    """
    The wall clock of a machine was set.

    @ivar target: the machine; one that runs a broker has the broker's name and id, with a dash.
    @ivar by: seconds, below 0 for back.
    """

    target: str
    by: float

    def sets_master_of(self, broker: str) -> bool:
        """Return whether a broker's delayed messages are due by this clock: its master's, whose id is 0."""
        return self.target == f"{broker}-0"


class Stuck(_Event, frozen=True, kw_only=True):
    """Something that must go on when all faults are over did not, within the time that it has (reliability T3)."""

    text: str


class Note(_Event, frozen=True, kw_only=True):
    """Something that a reader of the report wants to know; C{missing} where it leaves the run without a verdict."""

    text: str
    missing: bool = False


Event: TypeAlias = Union[  # noqa: UP007  msgspec wants the union as a value
    Invoke, Ok, Fail, Info, Decided, Read, Group, Commit, Stored, Plan, Bounds, Final, Logs, Fault, Crash, Dropped,
    Jump, Stuck, Note,
]  # fmt: skip

TURNS: Constant = (1, 2)
"""The two turns of a final read."""

Place: TypeAlias = tuple[str, int]  # queue, offset

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def topic_of(queue: str) -> str:
    """Return the topic in the name of a queue."""
    return queue.partition("@")[0]


def broker_of(queue: str) -> str:
    """Return the broker in the name of a queue."""
    return queue.partition("@")[2].rpartition(":")[0]


def encode(event: Event) -> bytes:
    """Return one event as a JSON line."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> Event:
    """
    Read one JSON line.

    @raise msgspec.ValidationError: it is no event.
    @raise msgspec.DecodeError: it is no JSON, such as the line of a process that was killed while it wrote.
    """
    return _decoder.decode(line)


def load(lines: Iterable[bytes]) -> Iterator[Event]:
    """Read a recorded run; raises as L{decode} does."""
    return map(decode, lines)


class History:
    """
    The events of a whole run, sorted by what they are about and by their moments.

    @ivar missing: notes that leave the run without a verdict.
    @ivar outcomes: how many sends ended how.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.invoked: dict[str, Invoke] = {}
        self.acked: dict[str, Ok] = {}
        self.outcomes: Counter[str] = Counter()
        self.rolled_back: set[str] = set()
        self.committed: set[str] = set()
        self.reads: list[Read] = []
        self.commits: list[Commit | Stored] = []
        self.plans: list[Plan] = []
        self.bounds: dict[tuple[str, int, str], Bounds] = {}
        self.finals: dict[tuple[str, int, str], list[Final]] = defaultdict(list)
        self.logs: list[Logs] = []
        self.faults: list[Fault] = []
        self.groups: list[Group] = []
        self.crashes: list[Crash] = []
        self.dropped: list[Dropped] = []
        self.jumps: list[Jump] = []
        self.stuck: list[Stuck] = []
        self.missing: list[str] = []
        for event in sorted(events, key=lambda event: event.t):
            self._add(event)

    def _add(self, event: Event) -> None:
        match event:
            case Invoke():
                self.invoked[event.value] = event
            case Ok():
                self.acked[event.value] = event
                self.outcomes["ok" if event.code == 0 else f"ok with code {event.code}"] += 1
            case Fail():
                self.outcomes["fail"] += 1
            case Info():
                self.outcomes["info"] += 1
            case Decided():
                (self.committed if event.commit else self.rolled_back).add(event.value)
            case Read():
                self.reads.append(event)
                if event.group:  # which may commit it from now on
                    after = event.offset + 1
                    self.commits.append(Commit(t=event.t, group=event.group, queue=event.queue, offset=after))
            case Commit() | Stored():
                self.commits.append(event)
            case Plan():
                self.plans.append(event)
            case Bounds():
                self.bounds[event.replica, event.turn, event.queue] = event
            case Final():
                self.finals[event.replica, event.turn, event.queue].append(event)
            case Logs():
                self.logs.append(event)
            case Fault():
                self.faults.append(event)
            case Group():
                self.groups.append(event)
            case Crash():
                self.crashes.append(event)
            case Dropped():
                self.dropped.append(event)
            case Jump():
                self.jumps.append(event)
            case Stuck():
                self.stuck.append(event)
            case Note(missing=True):
                self.missing.append(event.text)

    @property
    def required(self) -> Iterator[Ok]:
        """Sends answered with code 0 that must be found; half messages only once committed."""
        for value, ok in self.acked.items():
            half = value in self.invoked and self.invoked[value].half
            if ok.code == 0 and (not half or value in self.committed):
                yield ok

    @property
    def seen(self) -> Iterator[Read | Final]:
        """Every message that anybody was shown."""
        yield from self.reads
        for finals in self.finals.values():
            yield from finals


class Recorder:
    """
    Keeps the events of a run, in memory and as JSON lines in a file.

    @ivar events: in the order in which they were recorded.
    @ivar counts: how many there are of each kind.
    """

    def __init__(self, file: IO[bytes], clock: Callable[[], float]) -> None:
        """
        @param clock: seconds of a monotonic clock; the run begins now.
        """
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self.begun = clock()
        self.events: list[Event] = []
        self.counts: Counter[type[Event]] = Counter()

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self.begun

    def add(self, event: Event) -> Event:
        """Keep an event, from any thread; one without a moment happens now."""
        if not event.t:
            event = msgspec.structs.replace(event, t=round(self.now, 6))
        line = encode(event)
        with self._lock:
            self.events.append(event)
            self.counts[type(event)] += 1
            self._file.write(line)
        return event

    def note(self, text: str, missing: bool = False) -> None:
        """Keep a sentence for the report."""
        self.add(Note(text=text, missing=missing))

    def flush(self) -> None:
        """Write out what there is so far."""
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        """Write out everything; no event may follow."""
        self._file.close()
