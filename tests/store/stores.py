"""Stores for tests: small ones in memory, and a golden one unpacked there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.record import decode
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.fakes import FakeEnvironment, FakeFile

T = TypeVar("T")

ROOT = "/store"
LOG_SIZE = 4096
QUEUE_SIZE = 400  # 20 units
ALL = ReadLimit(10_000, 1 << 30)


def small(**changes: Any) -> StoreSettings:
    """Settings of a store whose files are soon full."""
    values: dict[str, Any] = {
        "log_file_size": LOG_SIZE,
        "queue_file_size": QUEUE_SIZE,
        "memory_count": 10_000,
        "memory_size": 1 << 30,
    }
    return StoreSettings(**{**values, **changes})


def message(topic: str = "T", queue_id: int = 0, body: bytes | memoryview = b"body", **changes: Any) -> NewMessage:
    """A message as the broker makes it."""
    values: dict[str, Any] = {"properties": b"UNIQ_KEY\x01x", "born_ms": 1, "store_host": b"\x7f\0\0\1\0\0\x2a\x9f"}
    return NewMessage(topic, queue_id, body, **{**values, **changes})


def power_off(env: FakeEnvironment) -> FakeEnvironment:
    """The machine after a power failure: what was synced, in full length."""
    after = killed(env)
    for file in after.files.files.values():
        file.data = bytearray(file.synced.ljust(len(file.data), b"\0"))
    return after


def killed(env: FakeEnvironment) -> FakeEnvironment:
    """The machine after the process was killed: all that was written."""
    after = FakeEnvironment()
    after.clock.advance(env.clock.seconds() + 1)
    after.files.directories = set(env.files.directories)
    for path, file in env.files.files.items():
        copy = FakeFile(bytes(file.data), file.modified_ms)
        copy.synced = file.synced
        copy.holes = set(file.holes)
        after.files.files[path] = copy
    return after


def with_golden(name: str) -> FakeEnvironment:
    """A machine with a golden store at L{ROOT}."""
    env = FakeEnvironment()
    for path, data in golden_store.read(name).files.items():
        place = posixpath.join(ROOT, path)
        env.files.make_directories(posixpath.dirname(place))
        env.files.files[place] = FakeFile(data, 0)
    for directory in ("commitlog", "consumequeue", "index"):
        env.files.make_directories(posixpath.join(ROOT, directory))
    return env


def content(env: FakeEnvironment, *below: str) -> dict[str, bytes]:
    """The files in some directories of a store."""
    places = tuple(posixpath.join(ROOT, one) + "/" for one in below)
    return {path: bytes(file.data) for path, file in env.files.files.items() if path.startswith(places)}


class StoreTestCase(SynchronousTestCase):
    """Tests of stores."""

    def opened(self, env: FakeEnvironment, settings: StoreSettings | None = None) -> OpenStore:
        """An open store; it is stopped after the test if it was not before."""
        return self.successResultOf(open_store(env, ROOT, small() if settings is None else settings))

    def stopped(self, store: OpenStore) -> None:
        """Stop a store."""
        self.successResultOf(store.close())

    def now(self, waiting: Deferred[T]) -> T:
        """The result of a Deferred that has fired."""
        return self.successResultOf(waiting)

    def same(self, found: Mapping[str, bytes], expected: Mapping[str, bytes], what: object = "") -> None:
        """Files are the same; names those that are not."""
        paths = sorted(found.keys() | expected.keys())
        differing = [path for path in paths if found.get(path) != expected.get(path)]
        if differing:
            self.fail(f"{what} {differing}")

    def send(self, store: OpenStore, *messages: NewMessage) -> list[int]:
        """Append messages one by one in one run; return their physical offsets."""
        offsets = [store.append([one]).offset for one in messages]
        store.end_run()
        return offsets

    def fill(self, store: OpenStore, count: int, topic: str = "T", queues: int = 1) -> list[bytes]:
        """Append C{count} messages of different lengths over some queues, a run each; return the bodies."""
        bodies = [b"%d-" % number + b"." * (number * 7 % 61) for number in range(count)]
        for number, body in enumerate(bodies):
            self.send(store, message(topic, number % queues, body))
        return bodies

    def read_all(
        self, store: OpenStore, topic: str = "T", queue_id: int = 0, filter: IMessageFilter | None = None
    ) -> list[StoredMessage]:
        """All messages of a queue, in order."""
        found: list[StoredMessage] = []
        offset = store.bounds(topic, queue_id)[0]
        while True:
            result = self.read_now(store, topic, queue_id, offset, ALL, filter)
            if result.status not in (ReadStatus.FOUND, ReadStatus.NO_MATCHED_MESSAGE):
                return found
            found += records(result)
            self.assertGreater(result.next_offset, offset)
            offset = result.next_offset

    def read_now(
        self,
        store: OpenStore,
        topic: str,
        queue_id: int,
        offset: int,
        limit: ReadLimit = ALL,
        filter: IMessageFilter | None = None,
    ) -> ReadResult:
        """Read as the pull processor does: by the lane what is far back, or was not checked yet."""
        result = store.read(topic, queue_id, offset, limit, filter)
        if result.status is not ReadStatus.COLD:
            return result
        return self.successResultOf(store.read_cold(topic, queue_id, offset, limit, filter))

    def bodies(self, store: OpenStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        """The bodies of all messages of a queue, whose logical offsets are checked to be without a gap."""
        found = self.read_all(store, topic, queue_id)
        first = store.bounds(topic, queue_id)[0]
        self.assertEqual([one.queue_offset for one in found], list(range(first, first + len(found))))
        return [bytes(one.body) for one in found]


def records(result: ReadResult) -> list[StoredMessage]:
    """The records of an answer."""
    found = []
    for part in result.parts:
        at = 0
        while at < len(part):
            one = decode(part, at)
            found.append(one)
            at += one.size
    return found


@contextmanager
def held(env: FakeEnvironment, *lanes: str) -> Iterator[None]:
    """Let the work of some lanes wait; it is done at the end."""
    env.threads.held.update(lanes)
    try:
        yield
    finally:
        for lane in lanes:
            env.threads.held.discard(lane)
            env.threads.release(lane)
