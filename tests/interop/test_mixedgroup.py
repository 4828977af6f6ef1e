"""
A group with members of RocketMQ's Java clients, 4.9 and 5.3, and of our own client, of which some are killed and others
join all the time: nothing is lost, and where messages are consumed in order their order is kept.

Each member is a process of its own that joins two groups of one topic, one that consumes concurrently and one that
consumes in order. A message that was acknowledged has to be consumed by both groups; it may be so twice. In the orderly
group the first deliveries of a queue have to be in the order of its offsets, none left out, over all members.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from tests.interop.case import LONG, InteropCase, driver
from tests.interop.driver import Call, Driver, Event
from tests.interop.process import Process, wait_for_moment

SECONDS: Final = 600 if LONG else 60
"""For which members are killed and join."""
CHANGES: Final = 40 if LONG else 4
"""Kills and joins, at least."""

_QUEUES: Final = 12
_MEMBERS: Final = 3
_CHUNK: Final = 20  # messages of one send
_BETWEEN: Final = (4.0, 12.0)  # seconds between two changes
_PATIENCE: Final = 240  # seconds until all is consumed: the lock of a killed member lasts for 60 s
_ROOT: Final = str(Path(__file__).resolve().parents[2])


class Groups(NamedTuple):
    """The names that members need."""

    registry: str
    topic: str
    concurrent: str
    orderly: str


class Member(ABC):
    """One process that is a member of both groups."""

    kind: ClassVar[str]
    process: Process

    @abstractmethod
    def events(self, group: str) -> list[Event]:
        """Return the messages that it consumed of one group so far."""


class JavaMember(Member):
    """A JVM with RocketMQ's client."""

    def __init__(self, home: str, groups: Groups) -> None:
        os.makedirs(home)
        self._driver = Driver(self.kind, home)
        self.process = self._driver.process
        self._calls = {
            group: self._join(groups, group, orderly)
            for group, orderly in ((groups.concurrent, False), (groups.orderly, True))
        }

    def _join(self, groups: Groups, group: str, orderly: bool) -> Call:
        return self._driver.start(
            "push", name=group, group=group, topics={groups.topic: "*"}, orderly=orderly, namesrv=groups.registry
        )

    def events(self, group: str) -> list[Event]:
        """Return the messages that it consumed of one group so far."""
        return self._calls[group].of("message")


class OldJavaMember(JavaMember):
    """A member with the client of RocketMQ 4.9."""

    kind = "4.9"


class NewJavaMember(JavaMember):
    """A member with the client of RocketMQ 5.3."""

    kind = "5.3"


class PythonMember(Member):
    """A process with our own client."""

    kind = "python"

    def __init__(self, home: str, groups: Groups) -> None:
        self._events: list[Event] = []
        command = [sys.executable, "-m", "tests.interop.member", *groups, os.path.basename(home)]
        environment = {"PYTHONPATH": _ROOT}
        self.process = Process("python-member", command, home, environment, on_line=self._line)

    def _line(self, line: bytes) -> None:
        event: Event = json.loads(line)
        if event["event"] == "message":
            self._events.append(event)

    def events(self, group: str) -> list[Event]:
        """Return the messages that it consumed of one group so far."""
        return [event for event in list(self._events) if event["group"] == group]


_KINDS: Final = (OldJavaMember, NewJavaMember, PythonMember)


class MixedGroupTests(InteropCase):
    """Java and Python members in one group."""

    def setUp(self) -> None:
        """Start a cluster with the topic of both groups."""
        super().setUp()
        self.random = random.Random(int(os.environ.get("SMARTGO_INTEROP_SEED", "1")))
        cluster = self.cluster()
        cluster.start()
        topic = self.name("mixed")
        self.groups = Groups(cluster.namesrv, topic, f"{topic}-concurrent", f"{topic}-orderly")
        self.sender = driver("4.9")
        self.sender.ask("topic", topic=topic, queues=_QUEUES, address=cluster.broker.address, namesrv=cluster.namesrv)
        self.folder = self.home
        self.all: list[Member] = []
        self.running: list[Member] = []
        self.kills = self.joins = 0
        self.addCleanup(self._end)

    def _end(self) -> None:
        for one in self.all:
            one.process.kill()

    def join(self) -> None:
        """Let a member of the kind join of which the fewest run."""
        running = [one.kind for one in self.running]
        kind = min(_KINDS, key=lambda one: (running.count(one.kind), self.random.random()))
        member: Member = kind(os.path.join(self.folder, f"member-{len(self.all)}"), self.groups)
        self.all.append(member)
        self.running.append(member)
        self.joins += 1

    def change(self) -> None:
        """Kill a member, or let one join."""
        if len(self.running) < _MEMBERS or (len(self.running) == _MEMBERS and self.random.random() < 0.3):
            self.join()
        else:
            self.running.pop(self.random.randrange(len(self.running))).process.kill()
            self.kills += 1

    def send(self, first: int) -> list[Event]:
        """Send some messages, each to the queue of its key; return what was acknowledged."""
        call = self.sender.start(
            "send",
            topic=self.groups.topic,
            count=_CHUNK,
            first=first,
            how="ordered",
            orderKeys=_QUEUES,
            namesrv=self.groups.registry,
        )
        return call.all_of("sent")

    def consumed(self, group: str) -> Iterator[tuple[Member, Event]]:
        """Yield what was consumed of a group: members by the order of joining, each one's in the order of its own."""
        for member in self.all:
            for event in member.events(group):
                yield member, event

    def texts(self, group: str) -> set[str]:
        """Return the bodies of what was consumed of a group."""
        return {event["text"] for _, event in self.consumed(group)}

    def assert_in_order(self) -> None:
        """Fail unless the first deliveries of each queue are in the order of its offsets, none left out."""
        deliveries = [event for _, event in self.consumed(self.groups.orderly)]
        deliveries.sort(key=lambda event: int(event["nowMs"]))  # stable: a member's own order stays
        seen: dict[int, int] = {}
        for event in deliveries:
            queue, offset = event["queueId"], event["queueOffset"]
            last = seen.get(queue, -1)
            self.assertLessEqual(offset, last + 1, f"queue {queue}: {offset} was consumed before {last + 1}")
            seen[queue] = max(last, offset)
        self.assertEqual(len(seen), _QUEUES)

    def test_members_killed(self) -> None:
        """While members are killed and join, nothing that was acknowledged is lost, and order is kept."""
        for _ in range(_MEMBERS):
            self.join()
        sent: list[Event] = []
        begin = time.monotonic()
        due = begin + self.random.uniform(*_BETWEEN)
        while (now := time.monotonic()) < begin + SECONDS:
            sent += self.send(len(sent))
            if now >= due:
                self.change()
                due = now + self.random.uniform(*_BETWEEN)
            wait_for_moment(time.time() + 0.4)
        while len(self.running) < _MEMBERS:
            self.join()
        wanted = {event["sha256"]: event for event in sent}
        self.assertEqual(len(wanted), len(sent))
        names = {f"{self.groups.topic}-{event['n']}" for event in sent}
        last = self.running[-1].process
        both = (self.groups.concurrent, self.groups.orderly)
        last.wait_until(lambda: all(names <= self.texts(one) for one in both), _PATIENCE, "all messages", recheck=2.0)
        self.assert_in_order()
        figures = self.figures(len(sent), time.monotonic() - begin)
        with open(os.path.join(self.folder, "figures.json"), "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
        self.assertGreaterEqual(self.kills + self.joins - _MEMBERS, CHANGES, figures)
        for kind in _KINDS:
            for group in both:
                self.assertTrue([one for one, _ in self.consumed(group) if one.kind == kind.kind], (kind.kind, group))

    def figures(self, sent: int, seconds: float) -> dict[str, object]:
        """Return what happened, in numbers."""
        found: dict[str, object] = {"seconds": round(seconds), "sent": sent, "kills": self.kills, "joins": self.joins}
        for name, group in (("concurrent", self.groups.concurrent), ("orderly", self.groups.orderly)):
            kinds = [member.kind for member, _ in self.consumed(group)]
            by_kind = {kind.kind: kinds.count(kind.kind) for kind in _KINDS}
            found[name] = {"deliveries": len(kinds), "distinct": len(self.texts(group)), "by": by_kind}
        return found
