"""Tests of L{smartgo.store.messagestore}: the life of a store as a Service."""

from __future__ import annotations

import errno

from smartgo.errors import StoreError
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.messagestore import MessageStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, held, killed, message, small


class MessageStoreTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.service = MessageStore(self.env, ROOT, small())

    def kind(self) -> RefusalKind | None:
        """The kind of the present refusal."""
        refusal = self.service.refusal
        return None if refusal is None else refusal.kind

    def nothing_left(self) -> None:
        """No call, no mapping, no lock."""
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual((self.env.files.mappings, self.env.files.locks), ([], set()))

    def stop(self) -> None:
        """Stop the service."""
        self.successResultOf(self.service.stopService())

    def test_open_and_close(self) -> None:
        """A store opens when its service starts, takes messages while it runs, and is closed when it stops."""
        self.assertEqual(self.kind(), RefusalKind.NOT_OPEN)
        with held(self.env, "prepare"):
            self.service.startService()
            self.assertNoResult(self.service.opened)
            self.assertEqual(self.kind(), RefusalKind.NOT_OPEN)
        store = self.successResultOf(self.service.opened)
        self.assertIsNone(self.kind())
        self.send(store, message(body=b"one"))
        self.stop()
        self.assertEqual(self.kind(), RefusalKind.CLOSED)
        self.nothing_left()
        self.assertEqual(self.bodies(self.opened(killed(self.env))), [b"one"])

    def test_stop_twice(self) -> None:
        """A second stop waits for the first."""
        self.service.startService()
        store = self.successResultOf(self.service.opened)
        self.send(store, message())
        with held(self.env, "flush"):
            waits = [self.service.stopService(), self.service.stopService()]
            for one in waits:
                self.assertNoResult(one)
        for one in waits:
            self.successResultOf(one)
        self.stop()

    def test_never_started(self) -> None:
        """A store that was never opened stops at once, and opens no more."""
        self.stop()
        self.service.startService()
        self.assertNoResult(self.service.opened)
        self.nothing_left()

    def test_not_opened(self) -> None:
        """A store whose opening failed says why, and stops at once."""
        self.env.files.fail[f"{ROOT}/abort"] = errno.EACCES
        self.service.startService()
        self.failureResultOf(self.service.opened, OSError)
        self.assertEqual(self.kind(), RefusalKind.NOT_OPEN)
        self.stop()
        self.nothing_left()

    def test_stopped_while_recovering(self) -> None:
        """A stop during recovery gives it up, and fires when the directory is free again."""
        self.fill(self.opened(self.env), 50)
        self.env = killed(self.env)
        self.service = MessageStore(self.env, ROOT, small())
        with held(self.env, "prepare"):
            self.service.startService()
            stopping = self.service.stopService()
            self.assertNoResult(stopping)
        self.assertIn("cancelled", str(self.failureResultOf(self.service.opened, StoreError).value))
        self.successResultOf(stopping)
        self.nothing_left()
