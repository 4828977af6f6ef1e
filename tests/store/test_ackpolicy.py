"""Tests of L{smartgo.store.ackpolicy}, through a store."""

from __future__ import annotations

from itertools import product

from twisted.internet.defer import Deferred
from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.store.ackpolicy import AllOf
from smartgo.store.interfaces import IFlushPolicy, PutStatus
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, message, small

OK, DISK, NONE, LATE = PutStatus


@implementer(IFlushPolicy)
class Replicas:
    """A policy that answers when told."""

    def __init__(self, waits: bool = True) -> None:
        self.waits = waits
        self.asked: list[tuple[int, Deferred[PutStatus]]] = []

    def durable(self, end: int) -> Deferred[PutStatus] | None:
        """Note it."""
        self.asked.append((end, Deferred()))
        return self.asked[-1][1] if self.waits else None

    def may_wait(self) -> bool:
        """Return false, except where nobody waits."""
        return not self.waits


class DemandTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.env.threads.held.add("flush")
        self.replicas = Replicas()

    def put(self, sync_flush: bool) -> tuple[OpenStore, Deferred[PutStatus] | None]:
        """A store that the policy is demanded of, and what one message waits for."""
        store = self.opened(self.env, small(sync_flush=sync_flush))
        store.add_ack_policy(self.replicas)
        appended = store.append([message()])
        waiting = store.durable(appended)
        store.end_run()
        self.assertEqual([end for end, _ in self.replicas.asked], [appended.end])
        return store, waiting

    def test_interface(self) -> None:
        """Two policies are one."""
        verifyObject(IFlushPolicy, AllOf(Replicas(), Replicas()))

    def test_may_wait(self) -> None:
        """The end of a run may wait where both allow it: a flush under way is no reason to let a slave wait."""
        for first, second in product((False, True), repeat=2):
            self.assertEqual(AllOf(Replicas(not first), Replicas(not second)).may_wait(), first and second)

    def test_neither_waits(self) -> None:
        """Where neither disk nor policy wants to wait, nobody does."""
        self.replicas.waits = False
        self.assertIsNone(self.put(False)[1])

    def test_disk_alone(self) -> None:
        """Where the policy does not wait, the disk decides."""
        self.replicas.waits = False
        _, waiting = self.put(True)
        assert waiting is not None
        self.assertNoResult(waiting)
        self.env.threads.release("flush")
        self.assertEqual(self.now(waiting), OK)

    def test_policy_alone(self) -> None:
        """Where the disk is not waited for, the policy decides."""
        for status in PutStatus:
            self.setUp()
            store, waiting = self.put(False)
            assert waiting is not None
            self.assertNoResult(waiting)
            self.replicas.asked[0][1].callback(status)
            self.assertEqual(self.now(waiting), status)
            self.stop(store)

    def stop(self, store: OpenStore) -> None:
        """Stop a store whose flushes were held."""
        self.env.threads.held.clear()
        self.env.threads.release("flush")
        self.stopped(store)
        self.assertNotIn(ROOT, self.env.files.locks)

    def test_both(self) -> None:
        """Both are waited for side by side, in either order; of two shortfalls that of the policy is told."""
        for disk, replicas, disk_first in product((OK, DISK), (OK, NONE, LATE), (True, False)):
            self.setUp()
            store, waiting = self.put(True)
            assert waiting is not None
            self.assertEqual(len(self.env.threads.waiting["flush"]), 1)
            steps = [
                lambda disk=disk: self.env.threads.release("flush") if disk is OK else self.env.clock.advance(5),
                lambda status=replicas: self.replicas.asked[0][1].callback(status),
            ]
            for step in steps if disk_first else steps[::-1]:
                self.assertNoResult(waiting)
                step()
            self.assertEqual(self.now(waiting), disk if replicas is OK else replicas, (disk, replicas, disk_first))
            self.stop(store)

    def test_several(self) -> None:
        """Several demands all count, the last one's status first."""
        other = Replicas()
        store = self.opened(self.env, small())
        store.add_ack_policy(self.replicas)
        store.add_ack_policy(other)
        waiting = store.durable(store.append([message()]))
        assert waiting is not None
        self.replicas.asked[0][1].callback(NONE)
        self.assertNoResult(waiting)
        other.asked[0][1].callback(LATE)
        self.assertEqual(self.now(waiting), LATE)
        self.stop(store)
