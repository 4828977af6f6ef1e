"""One flipped bit in the store of a stopped broker (F6): ours, and the real one beside it with the same flips."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.schema.record import HEAD
from smartgo.schema.recordscan import scan
from tests.chaos.case import SEED, TOPIC, ChaosCase, times
from tests.chaos.diskcase import add_peer, restore
from tests.chaos.pulls import Delivered, QueueUnread, read_queue
from tests.chaos.rounds import Round
from tests.chaos.values import body_of
from tests.interop.peers import ROCKETMQ, SMARTGO, Node, Peer
from tests.interop.process import ProcessFailed

_QUEUES = 4
_COUNT = 1200  # messages
_SIZE = 512  # bytes of a body
_HOST_SIZE = 8  # bytes of an IPv4 host in a record
_LOG = {"mappedFileSizeCommitLog": str(128 << 10), "mappedFileSizeConsumeQueue": "20000"}


@dataclass
class Flips:
    """
    What became of stores with a flipped bit.

    @ivar missing: cases by how many messages were missing.
    @ivar worst: the most that were missing, and where the bit was.
    @ivar wrong: where the bit was when a wrong body was delivered, or a message at a wrong place.
    @ivar refused: where it was when the broker did not start, or a queue could not be read.
    """

    cases: int = 0
    missing: Counter[int] = field(default_factory=Counter)
    worst: tuple[int, str] = (0, "none")
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def told(self) -> str:
        """Return all of it in a line."""
        missing = ", ".join(f"{count} of them missing {number}" for number, count in sorted(self.missing.items()))
        return (
            f"{self.cases} flips: {missing}; most missing {self.worst[0]} ({self.worst[1]}); wrong bodies in"
            f" {len(self.wrong)}; not started or not readable in {len(self.refused)}"
        )


@dataclass(frozen=True)
class Target:
    """Bytes of a file, and what they are."""

    what: str
    path: str
    begin: int
    end: int


class FlipTests(ChaosCase):
    """Of a log of several files one bit is flipped, in the middle; the broker is started and everything is read."""

    def filled(self, peer: Peer) -> tuple[Round, Node, str]:
        """Return a round whose broker was filled and stopped, and a copy of its store."""
        run = self.round(f"flips-{peer.name}")
        run.registry()
        node = add_peer(run, peer, _LOG)
        self.addCleanup(node.end)
        run.start()
        run.topic(TOPIC, _QUEUES)
        run.load(TOPIC, producers=8, rate=0, size=_SIZE, limit=_COUNT).wait(120)
        node.stop()
        copy = os.path.join(run.home, "copy")
        shutil.copytree(node.plan.store, copy)
        return run, node, copy

    def flipped(self, run: Round, node: Node, copy: str, count: int) -> Flips:
        """Start the broker on so many copies, each with a bit of its own flipped, and read everything."""
        restore(copy, node)
        before, refused = self.read(node)
        self.assertIsNone(refused)
        self.assertEqual({one.body for one in before}, {body_of(f"m-{number}", _SIZE) for number in range(_COUNT)})
        bodies = {(one.queue, one.offset): one.body for one in before}
        found = Flips()
        for number in range(count):
            random = Random(SEED * 1_000_000 + number)
            targets = list(targets_of(copy, random))
            target = targets[number % len(targets)]
            self.judge_flip(node, copy, target, random, bodies, found)
        run.figure(f"{node.kind}", "at most 1 missing, none wrong", found.told())
        for where in found.wrong + found.refused:
            run.recorder.note(where)
        return found

    def judge_flip(
        self,
        node: Node,
        copy: str,
        target: Target,
        random: Random,
        bodies: dict[tuple[int, int], bytes],
        found: Flips,
    ) -> None:
        """Flip a bit of a target in a fresh copy, start, read and compare."""
        restore(copy, node)
        path = os.path.join(node.plan.store, target.path)
        at = random.randrange(target.begin, target.end)
        bit = 1 << random.randrange(8)
        flip(path, at, bit)
        where = f"{target.what}: bit {bit:#04x} of byte {at} of {target.path}"
        delivered, refused = self.read(node)
        found.cases += 1
        if refused is not None:
            found.refused.append(f"{where}: {refused}")
            return
        for one in delivered:
            if bodies.get((one.queue, one.offset)) != one.body:
                found.wrong.append(f"{where}: queue {one.queue}, offset {one.offset}")
                break
        missing = len(bodies.keys() - {(one.queue, one.offset) for one in delivered})
        found.missing[missing] += 1
        found.worst = max(found.worst, (missing, where))

    def read(self, node: Node) -> tuple[list[Delivered], str | None]:
        """Start a broker, read all queues, kill it; return what it delivered, and why not all could be read."""
        try:
            node.start()
            found = [one for queue in range(_QUEUES) for one in read_queue(node, TOPIC, queue)]
        except (ProcessFailed, QueueUnread) as error:
            return [], str(error)[-300:]
        finally:
            node.end()
        return found, None

    def test_smartgo(self) -> None:
        """At most one message is missing, no body is wrong, and the broker starts."""
        found = self.flipped(*self.filled(SMARTGO), times(22, 440))
        self.assertEqual((found.wrong, found.refused), ([], []))
        self.assertLessEqual(found.worst[0], 1, found.worst[1])
        self.assertGreater(found.missing[1], 0, "no flip hit a message")

    def test_rocketmq(self) -> None:
        """The real broker with the same flips, for comparison: its figures stand in the report beside ours."""
        self.needs_java()
        found = self.flipped(*self.filled(ROCKETMQ), times(6, 44))
        self.assertEqual(sum(found.missing.values()) + len(found.refused), found.cases)


def targets_of(store: str, random: Random) -> Iterator[Target]:
    """Yield each field of a record in the middle of the log, a unit of its queue, the index and the checkpoint."""
    files = sorted(path for path in Path(store, "commitlog").iterdir() if path.name.isdigit())
    middle = files[1 : len(files) // 2 + 1]
    path = random.choice(middle)
    data = path.read_bytes()
    record = random.choice([one for one in scan(data, 0, int(path.name)) if one.topic == TOPIC])
    name = f"commitlog/{path.name}"
    begin = at = record.physical_offset - int(path.name)
    for part in HEAD.subcons:
        size = _HOST_SIZE if part.name.endswith("host") else part.sizeof()
        yield Target(f"{part.name} of a record", name, at, at + size)
        at += size
    yield Target("body of a record", name, at, at + len(record.body))
    at += len(record.body)
    yield Target("topic length of a record", name, at, at + 1)
    yield Target("topic of a record", name, at + 1, at + 1 + len(record.topic))
    at += 1 + len(record.topic)
    yield Target("properties length of a record", name, at, at + 2)
    yield Target("properties of a record", name, at + 2, begin + record.size)
    queue = f"consumequeue/{TOPIC}/{record.queue_id}/{0:020d}"
    unit = record.queue_offset * UNIT_SIZE
    if unit + UNIT_SIZE <= os.path.getsize(os.path.join(store, queue)):
        yield Target("unit of a queue", queue, unit, unit + UNIT_SIZE)
    for index in sorted(Path(store, "index").iterdir())[:1]:
        written = len(index.read_bytes().rstrip(b"\0"))
        if written:
            yield Target("index", f"index/{index.name}", 0, written)
    yield Target("checkpoint", "checkpoint", 0, 24)


def flip(path: str, at: int, bit: int) -> None:
    """Flip a bit of a file, and make sure that it is another now (reliability T15)."""
    with open(path, "r+b") as file:
        file.seek(at)
        (was,) = file.read(1)
        file.seek(at)
        file.write(bytes([was ^ bit]))
        file.seek(at)
        assert file.read(1)[0] == was ^ bit
