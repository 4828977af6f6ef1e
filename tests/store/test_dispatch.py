"""Tests of L{smartgo.store.dispatch}, through a store."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.errors import ServiceNotAvailable
from smartgo.schema.message import PREPARED
from smartgo.store.interfaces import IArrivalListener, IDispatcher, PutStatus
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.file import ConsumeQueue
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.store.stores import StoreTestCase, held, killed, message, small


@implementer(IArrivalListener)
class Ear:
    """Notes what it hears."""

    def __init__(self, store: OpenStore) -> None:
        self.heard: list[tuple[str, int, int, list[int], int]] = []
        self.store = store
        self.breaks = False

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Note it; all that is told of must be readable."""
        assert self.store.bounds(topic, queue_id)[1] == next_offset
        self.heard.append((topic, queue_id, next_offset, list(tag_codes), stored_ms))
        if self.breaks:
            raise ValueError("a bug")


@implementer(IDispatcher)
class Derived:
    """Notes what it is told."""

    name = "what a test derives"

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.position = 0
        self.breaks = False

    def start(self) -> None:
        """Note it."""
        self.told.append(("start", 0))

    def dispatch(self, end: int) -> None:
        """Note it; or fail."""
        if self.breaks:
            raise ValueError("a bug")
        self.told.append(("dispatch", end))

    def recover(self, position: int) -> None:
        """Note it."""
        self.told.append(("recover", position))

    def expire(self, minimum: int) -> None:
        """Note it."""
        self.told.append(("expire", minimum))

    def stop(self) -> None:
        """Note it."""
        self.told.append(("stop", 0))

    def flush(self) -> Deferred[bool]:
        """Note it."""
        self.told.append(("flush", 0))
        return succeed(True)

    def close(self) -> None:
        """Note it."""
        self.told.append(("close", 0))


class RunTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env)
        self.ear = Ear(self.store)
        self.store.subscribe(self.ear)

    def test_once_a_run(self) -> None:
        """Listeners hear once a run and queue, of all units, in order; readers see nothing before."""
        for number in range(5):
            self.store.append([message(queue_id=number % 2, tag_code=number)])
        self.store.append([message("U", tag_code=7), message("U", tag_code=8)])
        self.assertEqual((self.store.bounds("T", 0), self.ear.heard), ((0, 0), []))
        self.store.end_run()
        self.assertEqual(
            self.ear.heard,
            [
                ("T", 0, 3, [0, 2, 4], EPOCH_MS),
                ("T", 1, 2, [1, 3], EPOCH_MS),
                ("U", 0, 2, [7, 8], EPOCH_MS),
            ],
        )

    def test_nothing_new(self) -> None:
        """A run without an append tells nobody; prepared messages are not told of."""
        self.store.end_run()
        self.store.append([message(sys_flag=PREPARED)])
        self.store.end_run()
        self.assertEqual(self.ear.heard, [])

    def test_listener_with_a_bug(self) -> None:
        """A listener that raises keeps no other from hearing, and no message from its readers."""
        self.ear.breaks = True
        other = Ear(self.store)
        self.store.subscribe(other)
        self.send(self.store, message(), message(queue_id=1))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)
        self.assertEqual([one[:3] for one in other.heard], [("T", 0, 1), ("T", 1, 1)])

    def test_append_from_a_listener(self) -> None:
        """A listener may append and end a run of its own."""

        class Copier(Ear):
            def arrived(self, topic: str, queue_id: int, end: int, codes: Sequence[int], stored_ms: int) -> None:
                if topic == "T":
                    self.store.append([message("Copy")])
                    self.store.end_run()

        self.store.subscribe(Copier(self.store))
        self.send(self.store, message(), message(), message(queue_id=1))
        self.assertEqual(self.store.bounds("Copy", 0), (0, 2))
        self.assertEqual([one[0] for one in self.ear.heard], ["T", "Copy", "T", "Copy"])


class FailureTests(StoreTestCase):
    """Units that cannot be written."""

    QUEUES = 30

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def failed(self, **changes: Any) -> tuple[OpenStore, Ear]:
        """A store that could not write the units of two queues at the end of a run of three, and then those of none."""
        store = self.opened(self.env, small(open_mappings=16, **changes))
        for number in range(self.QUEUES):  # the files of the first are closed by then
            self.send(store, message(queue_id=number, body=b"old"))
        ear = Ear(store)
        store.subscribe(ear)
        for number in (0, self.QUEUES - 1, 1):
            store.append([message(queue_id=number, body=b"lost?")])

        def refuse(path: str, writable: bool = True, scattered: bool = False) -> Any:
            raise OSError(errno.EMFILE, "Too many open files", path)

        before = self.env.files.map
        self.patch(self.env.files, "map", refuse)
        reasons: list[str] = []
        store.when_failed(reasons.append)
        store.end_run()
        self.patch(self.env.files, "map", before)
        self.assertEqual(len(reasons), 1)
        self.assertIn("Too many open files", reasons[0])
        return store, ear

    def check(self, store: OpenStore) -> None:
        """Nothing is taken any more, all that can be read is right, and the next start has everything."""
        self.assertRaises(ServiceNotAvailable, store.append, [message(queue_id=5)])
        self.env.clock.pump([1] * 10)
        store.end_run()
        for number in range(self.QUEUES):
            found = self.bodies(store, queue_id=number)
            self.assertIn(found, ([b"old"], [b"old", b"lost?"]))
        for env in (killed(self.env), self.env):
            if env is self.env:
                self.stopped(store)
                self.assertEqual((env.files.mappings, env.clock.getDelayedCalls()), ([], []))
            after = self.opened(env)
            for number in range(self.QUEUES):
                expected = [b"old", b"lost?"] if number in (0, 1, self.QUEUES - 1) else [b"old"]
                self.assertEqual(self.bodies(after, queue_id=number), expected)
            self.send(after, message(body=b"new"))
            self.assertEqual(self.bodies(after), [b"old", b"lost?", b"new"])
            self.stopped(after)

    def test_end_of_run(self) -> None:
        """They end the store; units of other queues are written, and told of, and no unit is lost for good."""
        store, ear = self.failed()
        self.assertEqual([one[:3] for one in ear.heard], [("T", self.QUEUES - 1, 2)])
        self.check(store)

    def test_after_flush(self) -> None:
        """The same where units wait for their flush; who waits for it is not told OK."""
        store, ear = self.failed(sync_flush=True)
        self.assertEqual(ear.heard, [])
        self.check(store)

    def test_waiter(self) -> None:
        """A send whose units cannot be written is not told that all is well."""
        store = self.opened(self.env, small(sync_flush=True))
        self.env.threads.held.add("flush")
        appended = store.append([message()])
        store.end_run()
        waiting = store.durable(appended)
        assert waiting is not None
        self.env.threads.held.clear()

        def refuse(units: bytes, count: int) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        self.patch(ConsumeQueue, "write", lambda queue, units, count: refuse(units, count))
        self.env.threads.release("flush")
        self.assertIs(self.successResultOf(waiting), PutStatus.FLUSH_DISK_TIMEOUT)


class FlushedBeforeTests(StoreTestCase):
    """Runs that end after the flush that covered them, where readers see flushed messages only."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.settings = small(sync_flush=True)
        self.store = self.opened(self.env, self.settings)
        self.ear = Ear(self.store)
        self.store.subscribe(self.ear)

    def appended_during_a_flush(self, *topics: str) -> None:
        """Append messages whose run goes on while flushes that cover them come and go."""
        self.env.threads.held.add("flush")
        self.send(self.store, message("other"))
        self.send(self.store, message("other"))  # flushed next, with what comes now
        for topic in topics:
            self.store.append([message(topic)])
        self.env.threads.held.discard("flush")
        self.env.threads.release("flush")
        self.assertEqual(self.store.flushed, self.store.log_bounds()[1])
        self.ear.heard.clear()

    def test_published(self) -> None:
        """They are published at once, as no flush may follow, and listeners hear of them."""
        self.appended_during_a_flush("T", "U", "T")
        self.assertEqual(self.store.bounds("T", 0), (0, 0))
        self.store.end_run()
        self.assertEqual((self.store.bounds("T", 0), self.store.bounds("U", 0)), ((0, 2), (0, 1)))
        self.assertEqual([one[:3] for one in self.ear.heard], [("T", 0, 2), ("U", 0, 1)])
        self.env.clock.advance(2)
        self.assertEqual(self.store._checkpointer._saved, self.store.log_bounds()[1])

    def test_nothing_lost(self) -> None:
        """A clean stop right after has them, and gives their offsets to nobody else."""
        self.appended_during_a_flush("T")
        self.store.end_run()
        self.stopped(self.store)
        store = self.opened(self.env, self.settings)
        self.send(store, message(body=b"next"))
        self.assertEqual([bytes(one.body) for one in self.read_all(store)], [b"body", b"next"])

    def test_more_behind(self) -> None:
        """What was appended since that flush waits for its own."""
        self.appended_during_a_flush("T")
        with held(self.env, "flush"):
            self.store.append([message("T")])
            self.store.end_run()
            self.assertEqual(self.store.bounds("T", 0), (0, 0))
        self.assertEqual(self.store.bounds("T", 0), (0, 2))


class DispatcherTests(StoreTestCase):
    """Dispatchers that learn only by L{IDispatcher} what can be read."""

    def start(self, **changes: Any) -> None:
        """Open a store with one dispatcher."""
        self.env = FakeEnvironment()
        self.store = self.opened(self.env, small(**changes))
        self.derived = Derived()
        self.store._dispatchers.append(self.derived)

    def test_interfaces(self) -> None:
        """The index is a dispatcher, as the one of these tests is."""
        verifyObject(IDispatcher, Derived())
        index = self.opened(FakeEnvironment(), small(index=True))._index
        verifyObject(IDispatcher, index)

    def test_once_a_run(self) -> None:
        """It hears of the log's end once a run, after the messages are in their queues; of nothing new it hears not."""
        self.start()
        ends = []
        for count in (1, 5, 2):
            self.send(self.store, *[message()] * count)
            self.store.end_run()
            ends.append(self.store.log_bounds()[1])
        self.assertEqual(self.derived.told, [("dispatch", end) for end in ends])

    def test_only_what_can_be_read(self) -> None:
        """What readers may not see yet it does not hear of, until the flush."""
        self.start(dispatch_after_flush=True)
        self.send(self.store, message())
        self.assertEqual(self.derived.told, [])
        self.env.clock.advance(0.5)
        self.assertEqual(self.derived.told, [("dispatch", self.store.log_bounds()[1])])

    def test_a_bug_in_it(self) -> None:
        """One that raises keeps neither sends nor others from going on."""
        self.start()
        other = Derived()
        self.store._dispatchers.append(other)
        self.derived.breaks = True
        self.send(self.store, message())
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual((len(other.told), self.store.bounds("T", 0)), (1, (0, 1)))

    def test_end(self) -> None:
        """A store that closes stops it before the last flush of the log, then has it flush, then close."""
        self.start()
        self.send(self.store, message())
        with held(self.env, "flush"):
            closing = self.store.close()
            self.assertEqual([one[0] for one in self.derived.told], ["dispatch", "stop"])
        self.successResultOf(closing)
        self.assertEqual([one[0] for one in self.derived.told], ["dispatch", "stop", "flush", "close"])
