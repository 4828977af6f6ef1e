"""
Faults of disks against stores in memory, by the thousand: power failures (F4) and flipped bits (F6).

A case is made from its number alone. C{python -m tests.store.faults flips 2000} runs that many cases and prints a
line of what was found; L{tests.store.test_faults} runs a few.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from twisted.internet.defer import Deferred

from smartgo.schema.index import Geometry
from smartgo.schema.message import StoredMessage
from smartgo.store.interfaces import ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ALL, ROOT, killed, message, records, small

T = TypeVar("T")
MessageKey = tuple[str, int, int]
"""Topic, queue id, queue offset."""

_FILES = re.compile(f"{ROOT}/(commitlog|consumequeue|index|checkpoint|smartgo\\.checkpoint|smartgo\\.queues)")
_SIZES = (512, 4096)  # bytes of a sector and of a page


@dataclass
class FaultResult:
    """
    The result of many cases.

    @ivar cases: how many were run.
    @ivar missing: cases by how many messages were missing after the start.
    @ivar wrong: what was delivered and never stored; and whatever else must not be.
    """

    cases: int = 0
    missing: Counter[int] = field(default_factory=Counter)
    by_file: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def _now(waiting: Deferred[T]) -> T:
    """Return the result of a Deferred that has fired, or raise its failure."""
    found: list[T] = []
    failures: list[BaseException] = []
    waiting.addCallbacks(found.append, lambda failure: failures.append(failure.value))
    if failures:
        raise failures[0]
    return found[0]


def started(env: FakeEnvironment, sync: bool = False) -> OpenStore:
    """Return the open store of a machine."""
    return _now(open_store(env, ROOT, small(index=True, index_geometry=Geometry(50, 400), sync_flush=sync)))


def contents(store: OpenStore) -> dict[MessageKey, StoredMessage]:
    """Return all messages that a store delivers, by pulls of a few."""
    found: dict[MessageKey, StoredMessage] = {}
    for topic, queue_id in store.queues():
        offset = store.bounds(topic, queue_id)[0]
        while True:
            result = store.read(topic, queue_id, offset, ALL, None)
            if result.status is ReadStatus.COLD:
                result = _now(store.read_cold(topic, queue_id, offset, ALL, None))
            if result.next_offset <= offset:
                break
            for one in records(result):
                found[topic, queue_id, one.queue_offset] = one
            offset = result.next_offset
    return found


def _filled(random: Random) -> tuple[FakeEnvironment, OpenStore, dict[MessageKey, bytes]]:
    """Return a machine with a store whose files are written to, all flushed, and the bodies in it."""
    env = FakeEnvironment()
    store = started(env)
    bodies: dict[MessageKey, bytes] = {}
    for _ in range(random.randrange(20, 90)):
        topic, queue_id = random.choice(("T", "Other")), random.randrange(2)
        batch = [random.randbytes(random.randrange(120)) for _ in range(random.choice((1, 1, 1, 3)))]
        appended = store.append([message(topic, queue_id, body) for body in batch])
        for number, body in enumerate(batch):
            bodies[topic, queue_id, appended.queue_offset + number] = body
        if random.random() < 0.5:
            store.end_run()
    store.end_run()
    env.clock.advance(2)
    env.clock.advance(2)
    return env, store, bodies


def flipped_bit(number: int, result: FaultResult) -> None:
    """Flip one bit of one file between two starts: at most one message may be missing, and none wrong (F6)."""
    random = Random(number)
    env, store, bodies = _filled(random)
    clean = random.random() < 0.5
    if clean:
        _now(store.close())
    after = killed(env)
    paths = [path for path, file in after.files.files.items() if _FILES.match(path) and any(file.data)]
    log = [path for path in paths if "/commitlog/" in path]
    path = random.choice(log if random.random() < 0.5 else paths)
    data = after.files.files[path].data
    at = random.randrange(len(data.rstrip(b"\0")))
    data[at] ^= 1 << random.randrange(8)
    what = f"case {number}: bit in byte {at} of {path}, {'closed' if clean else 'killed'}"
    result.by_file[path.removeprefix(f"{ROOT}/").partition("/")[0]] += 1
    try:
        reopened = started(after)
        found = contents(reopened)
    except Exception as error:
        result.wrong.append(f"{what}: {error!r}")
        return
    _compare(what, found, bodies, result)
    missing = len(bodies.keys() - found.keys())
    result.missing[missing] += 1
    if missing > 1:
        result.wrong.append(f"{what}: {missing} are missing")
    appended = reopened.append([message("T", 0, b"new")])
    reopened.end_run()
    if ("T", 0, appended.queue_offset) in bodies:
        result.wrong.append(f"{what}: offset {appended.queue_offset} is given again")
    for one in (reopened, *(() if clean else (store,))):
        _now(one.close())


def _compare(
    what: str, found: dict[MessageKey, StoredMessage], bodies: dict[MessageKey, bytes], result: FaultResult
) -> None:
    for key, one in found.items():
        if key not in bodies:
            result.wrong.append(f"{what}: {key} was never stored")
        elif bytes(one.body) != bodies[key] or (one.topic, one.queue_id) != key[:2]:
            result.wrong.append(f"{what}: {key} is another message")


def power_failure(number: int, result: FaultResult) -> None:
    """Keep a random part of the unflushed sectors or pages: what was flushed is there, nothing torn is (F4)."""
    random = Random(number)
    env = FakeEnvironment()
    store = started(env, number % 2 == 0)
    bodies: dict[MessageKey, bytes] = {}
    ends: dict[MessageKey, int] = {}
    for _ in range(random.randrange(1, 50)):
        queue_id = random.randrange(3)
        batch = [random.randbytes(random.randrange(150)) for _ in range(random.choice((1, 1, 1, 2, 5)))]
        appended = store.append([message(queue_id=queue_id, body=body) for body in batch])
        for one, body in enumerate(batch):
            bodies["T", queue_id, appended.queue_offset + one] = body
            ends["T", queue_id, appended.queue_offset + one] = appended.end
        if random.random() < 0.5:
            store.end_run()
        if random.random() < 0.3:
            env.clock.advance(random.choice((0.1, 0.5, 1.0)))
        if random.random() < 0.1:
            env.threads.held.symmetric_difference_update({random.choice(("flush", "checkpoint"))})
    flushed = store.flushed
    after = killed(env)
    size, share = random.choice(_SIZES), random.random()
    for file in after.files.files.values():
        synced = file.synced.ljust(len(file.data), b"\0")
        for at in range(0, len(synced), size):
            if random.random() > share:
                file.data[at : at + size] = synced[at : at + size]
        file.synced = bytes(file.data)
    what = f"case {number}"
    try:
        reopened = started(after)
        found = contents(reopened)
    except Exception as error:
        result.wrong.append(f"{what}: {error!r}")
        return
    _compare(what, found, bodies, result)
    end = reopened.log_bounds()[1]
    expected = {key for key, one in ends.items() if one <= end}
    if end < flushed or found.keys() != expected:
        result.wrong.append(
            f"{what}: the log was flushed to {flushed} and ends at {end}, {len(found)} messages are there"
        )
    if reopened.damage.regions:
        result.wrong.append(f"{what}: a power failure was taken for damage")
    result.missing[len(bodies) - len(found)] += 1
    env.threads.held.clear()
    for lane in ("flush", "checkpoint"):
        env.threads.release(lane)
    for store_ in (reopened, store):
        _now(store_.close())


FAULTS: dict[str, Callable[[int, FaultResult], None]] = {"flips": flipped_bit, "power": power_failure}


def run(kind: str, count: int, first: int = 0) -> FaultResult:
    """Run cases of one kind."""
    result = FaultResult()
    for number in range(first, first + count):
        FAULTS[kind](number, result)
        result.cases += 1
    return result


def main() -> None:
    """Run what the command line asks for, and print what was found."""
    kind, count = sys.argv[1], int(sys.argv[2])
    result = run(kind, count)
    lines = [f"{kind}: asked {count}, ran {result.cases}, wrong {len(result.wrong)}"]
    if kind == "flips":
        lines.append(f"messages missing: {dict(sorted(result.missing.items()))}; files: {dict(result.by_file)}")
    sys.stdout.write("\n".join([*lines, *result.wrong[:20], ""]))
    sys.exit(bool(result.wrong))


if __name__ == "__main__":
    main()
