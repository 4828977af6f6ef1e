"""Tests of L{smartgo.store.flush}, through a store."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.errors import ServiceNotAvailable
from smartgo.schema.record import decode
from smartgo.store.interfaces import IArrivalListener, IFlushPolicy, IMessageStore, PutStatus
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, killed, message, power_off, small


class FlushTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def start(self, **changes: Any) -> OpenStore:
        """An open store whose background work is done."""
        store = self.opened(self.env, small(**changes))
        self.env.threads.held.add("flush")
        return store

    def put(self, store: OpenStore, count: int = 1) -> list[Deferred[PutStatus] | None]:
        """Append messages in one run; return what each is told to wait for."""
        waits = [store.durable(store.append([message()])) for _ in range(count)]
        store.end_run()
        return waits

    def waiting(self) -> int:
        """Return the number of flushes that wait for the lane."""
        return len(self.env.threads.waiting.get("flush", ()))

    def flush(self) -> None:
        """Let the flush that waits happen."""
        self.assertEqual(self.env.threads.release("flush", 1), 1)

    def results(self, waits: list[Deferred[PutStatus] | None]) -> list[PutStatus]:
        """Return the statuses of all waiters."""
        found = []
        for one in waits:
            assert one is not None
            found.append(self.successResultOf(one))
        return found


class AsyncTests(FlushTestCase):
    def test_interfaces(self) -> None:
        """A store is one, and so is its flush policy."""
        store = self.start()
        verifyObject(IMessageStore, store)
        verifyObject(IFlushPolicy, store._flusher)

    def test_at_once(self) -> None:
        """A send waits for nothing."""
        self.assertEqual(self.put(self.start(), 3), [None, None, None])

    def test_interval(self) -> None:
        """What is appended is flushed half a second later, once; then nothing runs (idle costs nothing)."""
        store = self.start()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.put(store)
        self.env.clock.advance(0.4)
        self.put(store)
        self.assertEqual(self.waiting(), 0)
        self.env.clock.advance(0.1)
        self.assertEqual(self.waiting(), 1)
        self.flush()
        self.assertEqual(store.flushed, store.log_bounds()[1])
        self.env.clock.advance(1)
        self.env.clock.advance(1)
        self.assertEqual((self.env.clock.getDelayedCalls(), self.waiting()), ([], 0))

    def test_window(self) -> None:
        """Each byte is flushed within half a second and the time of two flushes, however slow these are."""
        store = self.start()
        self.put(store)
        self.env.clock.advance(0.5)
        self.put(store)  # while the flush runs
        self.env.clock.advance(0.2)
        self.flush()
        self.assertEqual(self.waiting(), 0)
        self.env.clock.advance(0.29)
        self.assertEqual(self.waiting(), 0)
        self.env.clock.advance(0.02)
        self.assertEqual(self.waiting(), 1)
        self.put(store)
        self.env.clock.advance(3)
        self.flush()
        self.env.clock.advance(0)
        self.assertEqual(self.waiting(), 1)  # overdue: at once

    def test_many_bytes(self) -> None:
        """Many unflushed bytes are flushed at once, also those that came while a flush ran."""
        store = self.start(flush_bytes=300)
        self.put(store)
        self.assertEqual(self.waiting(), 0)
        self.put(store, 2)
        self.assertEqual(self.waiting(), 1)
        self.put(store, 3)
        self.assertEqual(self.waiting(), 1)
        self.flush()
        self.assertEqual(self.waiting(), 1)
        self.flush()
        self.assertEqual(store.flushed, store.log_bounds()[1])

    def test_files_in_order(self) -> None:
        """A flush over several files covers them all, old before new, and the names of the new ones (D8)."""
        store = self.start()
        self.put(store, 150)
        names = [f"{ROOT}/commitlog/{base:020d}" for base in range(0, store.log_bounds()[1], LOG_SIZE)]
        self.assertGreater(len(names), 3)
        self.env.files.synced_directories.clear()
        self.env.clock.advance(0.5)
        self.flush()
        for name in names:
            self.assertEqual(self.env.files.files[name].synced, bytes(self.env.files.files[name].data))
        self.assertIn(f"{ROOT}/commitlog", self.env.files.synced_directories)
        before = [self.env.files.files[name].syncs for name in names]
        self.env.files.synced_directories.clear()
        self.put(store)
        self.env.clock.advance(0.5)
        self.flush()
        after = [self.env.files.files[name].syncs for name in names]
        self.assertEqual(after, [*before[:-1], before[-1] + 1])
        self.assertNotIn(f"{ROOT}/commitlog", self.env.files.synced_directories)

    def test_asked_for(self) -> None:
        """A flush may be asked for: it is done when log and queues are on the disk."""
        store = self.start()
        self.assertEqual(self.now(store.flush()), PutStatus.OK)
        store.append([message()])
        waiting = store.flush()
        self.assertNoResult(waiting)
        self.flush()
        self.assertEqual(self.now(waiting), PutStatus.OK)
        self.assertEqual(store.bounds("T", 0), (0, 1))
        after = self.opened(power_off(self.env))
        self.assertEqual(len(self.bodies(after)), 1)


class SyncTests(FlushTestCase):
    def test_waits(self) -> None:
        """A send is told OK when a flush that began after it is done, not before."""
        store = self.start(sync_flush=True)
        waits = self.put(store)
        self.assertEqual(self.waiting(), 1)
        later = self.put(store)
        assert waits[0] is not None and later[0] is not None
        self.assertNoResult(waits[0])
        self.flush()
        self.assertEqual(self.results(waits), [PutStatus.OK])
        self.assertNoResult(later[0])
        self.flush()
        self.assertEqual(self.results(later), [PutStatus.OK])

    def test_group(self) -> None:
        """One flush serves all that wait at its start (D7)."""
        store = self.start(sync_flush=True)
        self.assertFalse(store.ack_policy.may_wait())
        first = self.put(store, 10)
        self.assertEqual((self.waiting(), store.ack_policy.may_wait()), (1, True))
        groups = [self.put(store, 10) for _ in range(10)]
        self.flush()
        self.assertEqual(self.results(first), [PutStatus.OK] * 10)
        self.flush()
        for one in groups:
            self.assertEqual(self.results(one), [PutStatus.OK] * 10)
        self.assertEqual((self.waiting(), store.ack_policy.may_wait()), (0, False))

    def test_already_flushed(self) -> None:
        """What is flushed already needs no wait."""
        store = self.start(sync_flush=True)
        appended = store.append([message()])
        store.end_run()
        self.flush()
        self.assertIsNone(store.durable(appended))

    def test_nobody_waits(self) -> None:
        """Messages whose senders do not wait are flushed as soon as others (D5, D6)."""
        store = self.start(sync_flush=True)
        store.append([message()])
        store.end_run()
        self.assertEqual(self.waiting(), 1)

    def test_late(self) -> None:
        """A flush that takes longer than allowed is told FLUSH_DISK_TIMEOUT; the message stays (D2)."""
        store = self.start(sync_flush=True)
        early = self.put(store)
        self.env.clock.advance(3)
        later = self.put(store)
        self.env.clock.advance(2)
        self.assertEqual(self.results(early), [PutStatus.FLUSH_DISK_TIMEOUT])
        assert later[0] is not None
        self.assertNoResult(later[0])
        self.env.clock.advance(3)
        self.assertEqual(self.results(later), [PutStatus.FLUSH_DISK_TIMEOUT])
        self.flush()
        self.flush()
        self.assertEqual(len(self.bodies(store)), 2)
        self.env.clock.advance(5)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_cancelled(self) -> None:
        """A sender that is gone disturbs nobody."""
        store = self.start(sync_flush=True)
        gone, here = self.put(store, 2)
        assert gone is not None and here is not None
        gone.addErrback(lambda failure: None)
        gone.cancel()
        self.flush()
        self.assertEqual(self.successResultOf(here), PutStatus.OK)
        gone, _ = self.put(store, 2)
        assert gone is not None
        gone.addErrback(lambda failure: None)
        gone.cancel()
        self.env.clock.advance(5)
        self.flush()

    def test_what_was_told_is_there(self) -> None:
        """After a power failure at any moment every message that was told OK is there, and nothing torn (D3)."""
        store = self.start(sync_flush=True)
        told: list[bytes] = []

        def note(status: PutStatus, body: bytes) -> None:
            told.append(body)

        for number in range(60):
            body = b"%d" % number
            waiting = store.durable(store.append([message(body=body)]))
            store.end_run()
            assert waiting is not None
            if number % 3 == 2:
                self.env.threads.release("flush")
            waiting.addCallback(note, body)
            after = self.opened(power_off(self.env))
            self.assertEqual(self.bodies(after), [b"%d" % one for one in range(len(self.bodies(after)))])
            self.assertLessEqual(set(told), set(self.bodies(after)))
        self.assertGreater(len(told), 50)


class DispatchAfterFlushTests(FlushTestCase):
    def test_before_the_answer(self) -> None:
        """Whoever is told OK finds the message readable."""
        store = self.start(sync_flush=True)
        seen: list[int] = []
        for waiting in self.put(store, 3):
            assert waiting is not None
            waiting.addCallback(lambda _: seen.append(store.bounds("T", 0)[1]))
        self.flush()
        self.assertEqual(seen, [3, 3, 3])

    def test_after(self) -> None:
        """Under sync flush nobody sees a message that a power failure could take back (D6)."""
        store = self.start(sync_flush=True)
        heard: list[tuple[int, list[int]]] = []

        @implementer(IArrivalListener)
        class Listener:
            def arrived(self, topic: str, queue_id: int, end: int, codes: Sequence[int], stored_ms: int) -> None:
                heard.append((end, list(codes)))

        store.subscribe(Listener())
        store.append([message(tag_code=1)])
        store.end_run()
        store.append([message(tag_code=2)])
        store.append([message(queue_id=1, tag_code=3)])
        store.end_run()
        self.assertEqual((store.bounds("T", 0), heard), ((0, 0), []))
        self.flush()
        self.assertEqual((store.bounds("T", 0), store.bounds("T", 1), heard), ((0, 1), (0, 0), [(1, [1])]))
        self.flush()
        self.assertEqual((store.bounds("T", 0), heard[1:]), ((0, 2), [(2, [2]), (1, [3])]))

    def test_switched(self) -> None:
        """Either way can be chosen whatever the flush mode."""
        store = self.start(sync_flush=True, dispatch_after_flush=False)
        self.put(store)
        self.assertEqual(store.bounds("T", 0), (0, 1))
        self.flush()
        self.stopped_later(store)
        self.env = FakeEnvironment()
        store = self.start(dispatch_after_flush=True)
        self.put(store)
        self.assertEqual(store.bounds("T", 0), (0, 0))
        self.env.clock.advance(0.5)
        self.flush()
        self.assertEqual(store.bounds("T", 0), (0, 1))

    def stopped_later(self, store: OpenStore) -> None:
        """Stop a store with its flush lane working."""
        self.env.threads.held.clear()
        self.stopped(store)


class FailureTests(FlushTestCase):
    def break_disk(self, store: OpenStore) -> list[str]:
        """Let the next sync fail; return what the callbacks hear."""
        reasons: list[str] = []
        store.when_failed(reasons.append)
        self.env.files.sync_error = errno.EIO
        return reasons

    def test_waiters(self) -> None:
        """Sends that wait for a flush that fails are told 10, later ones are refused with 14, reads go on (D4)."""
        store = self.start(sync_flush=True, dispatch_after_flush=False)
        waits = self.put(store, 2)
        reasons = self.break_disk(store)
        later = self.put(store)
        self.flush()
        self.assertEqual(self.results(waits + later), [PutStatus.FLUSH_DISK_TIMEOUT] * 3)
        self.assertEqual((len(reasons), store.flushed), (1, 0))
        error = self.assertRaises(ServiceNotAvailable, store.append, [message()])
        self.assertEqual(error.code, 14)
        self.assertEqual(len(self.bodies(store)), 3)

    def test_for_good(self) -> None:
        """A disk that works again changes nothing: no flush is tried again or believed (D4)."""
        store = self.start(sync_flush=True)
        appended = store.append([message()])
        store.end_run()
        self.break_disk(store)
        self.flush()
        self.env.files.sync_error = 0
        self.env.clock.advance(100)
        self.assertEqual((self.waiting(), store.flushed), (0, 0))
        waiting = store.durable(appended)
        assert waiting is not None
        self.assertEqual(self.now(waiting), PutStatus.FLUSH_DISK_TIMEOUT)
        self.assertEqual(self.now(store.flush()), PutStatus.FLUSH_DISK_TIMEOUT)
        self.assertRaises(ServiceNotAvailable, store.append, [message()])

    def test_stop_keeps_marker(self) -> None:
        """A failed store stops without a word that it is whole; the next start recovers (D4)."""
        store = self.start()
        self.put(store, 3)
        self.break_disk(store)
        self.env.clock.advance(0.5)
        self.flush()
        self.env.files.sync_error = 0
        self.stopped(store)
        self.assertIn(f"{ROOT}/abort", self.env.files.files)
        self.assertEqual((self.env.clock.getDelayedCalls(), self.env.files.mappings), ([], []))
        store = self.opened(killed(self.env))
        self.assertEqual(len(self.bodies(store)), 3)

    def test_queue_sync(self) -> None:
        """A queue file that cannot be synced fails the store as a log file does."""
        self.env.threads.held.add("checkpoint")
        store = self.start()
        reasons = self.break_disk(store)
        self.env.files.sync_error = 0
        self.put(store)
        self.env.clock.advance(0.5)
        self.flush()
        self.env.files.sync_error = errno.EIO
        self.env.threads.release("checkpoint")
        self.assertEqual(len(reasons), 1)
        self.assertRaises(ServiceNotAvailable, store.append, [message()])
        self.assertEqual(decode(self.now(store.at(0))).body, b"body")

    def test_refused_write(self) -> None:
        """
        A write to a mapped page that the disk refused is a failed flush, though the sync succeeds: nothing is answered
        with OK from then on, in either mode, and the store takes no more (D3, D4).
        """
        for sync_flush in (False, True):
            self.env = FakeEnvironment()
            store = self.start(sync_flush=sync_flush, dispatch_after_flush=False)
            self.put(store)
            self.env.clock.advance(0.5)
            self.flush()
            reasons: list[str] = []
            store.when_failed(reasons.append)
            self.env.files.refused_writes.append("/store/commitlog/00000000000000000000")
            waits = self.put(store)
            self.env.clock.advance(0.5)
            self.flush()
            self.assertEqual(self.results(waits), [PutStatus.FLUSH_DISK_TIMEOUT])
            self.assertEqual(len(reasons), 1)
            self.assertIn("refused a write: '/store/commitlog/", reasons[0])
            self.assertRaises(ServiceNotAvailable, store.append, [message()])
            self.assertEqual(len(self.bodies(store)), 2)
