"""The saving of changed tables."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.saving import RETRY, Saving
from smartgo.errors import ServiceNotAvailable
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment

PATH = "/store/config/table.json"


class SavingTests(SynchronousTestCase):
    """A counter that is saved."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.value = 0
        self.snapshots = 0

    def make(self, delay: float) -> Saving:
        """A saving of C{self.value}."""

        def snapshot() -> dict[str, int]:
            self.snapshots += 1
            return {"value": self.value}

        return Saving(self.env.clock, TableFile(self.env, PATH), snapshot, delay, "test table")

    def change(self, saving: Saving) -> int:
        """Change and return the new value."""
        self.value += 1
        saving.changed()
        return self.value

    def on_disk(self) -> Any:
        """Return the content of the file, C{None} without one."""
        if not self.env.files.exists(PATH):
            return None
        return msgspec.json.decode(self.env.files.read(PATH))["value"]

    def test_later(self) -> None:
        """Many changes within the delay are one save, C{delay} after the first; then there is no timer."""
        saving = self.make(0.5)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        for _ in range(5):
            self.change(saving)
            self.env.clock.advance(0.0625)
        self.assertIsNone(self.on_disk())
        self.env.clock.advance(0.1875)
        self.assertEqual((self.on_disk(), self.snapshots), (5, 1))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual(saving.saved, saving.generation)

    def test_at_once(self) -> None:
        """Without a delay a change is written at once, and what came meanwhile in one save after it."""
        self.env.threads.held.add("tables")
        saving = self.make(0.0)
        for _ in range(4):
            self.change(saving)
        self.env.threads.release("tables", 1)
        self.assertEqual(self.on_disk(), 1)
        self.env.threads.release("tables")
        self.assertEqual((self.on_disk(), self.snapshots), (4, 2))

    def test_change_while_saving(self) -> None:
        """A change that comes while the table is written is written after another delay."""
        self.env.threads.held.add("tables")
        saving = self.make(0.5)
        self.change(saving)
        self.env.clock.advance(0.5)
        self.change(saving)
        self.env.threads.release("tables")
        self.assertEqual(self.on_disk(), 1)
        self.env.clock.advance(0.5)
        self.env.threads.release("tables")
        self.assertEqual(self.on_disk(), 2)

    def test_wait(self) -> None:
        """A waiter fires when its generation is on disk, not before, and not at all when it already is."""
        self.env.threads.held.add("tables")
        saving = self.make(0.0)
        self.change(saving)
        first = saving.wait(saving.generation)
        self.change(saving)
        second = saving.wait(saving.generation)
        assert first is not None
        assert second is not None
        self.env.threads.release("tables", 1)
        self.assertIsNone(self.successResultOf(first))
        self.assertNoResult(second)
        self.env.threads.release("tables", 1)
        self.assertIsNone(self.successResultOf(second))
        self.assertIsNone(saving.wait(saving.generation))

    def test_failure(self) -> None:
        """A save that fails is told to the waiters, logged, and tried again until it works."""
        self.env.files.fail[PATH] = errno.ENOSPC
        self.env.threads.held.add("tables")
        saving = self.make(0.5)
        self.change(saving)
        self.env.clock.advance(0.5)
        waiter = saving.wait(saving.generation)
        assert waiter is not None
        self.env.threads.release("tables")
        self.failureResultOf(waiter, ServiceNotAvailable)
        self.env.threads.held.clear()
        self.env.clock.advance(RETRY)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 2)
        self.env.files.fail.clear()
        self.env.clock.advance(RETRY)
        self.assertEqual(self.on_disk(), 1)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_failure_of_an_older_save(self) -> None:
        """A failure is not told to those who wait for a later change: that one gets its own attempt at once."""
        self.env.files.fail[PATH] = errno.EIO
        self.env.threads.held.add("tables")
        saving = self.make(0.0)
        self.change(saving)
        first = saving.wait(saving.generation)
        self.change(saving)
        second = saving.wait(saving.generation)
        assert first is not None
        assert second is not None
        self.env.threads.release("tables", 1)
        self.failureResultOf(first, ServiceNotAvailable)
        self.assertNoResult(second)
        self.env.files.fail.clear()
        self.env.threads.release("tables", 1)
        self.assertIsNone(self.successResultOf(second))
        self.flushLoggedErrors(OSError)

    def test_change_after_failure(self) -> None:
        """Without a delay a new change does not wait for the retry."""
        self.env.files.fail[PATH] = errno.EIO
        saving = self.make(0.0)
        self.change(saving)
        self.env.files.fail.clear()
        self.change(saving)
        self.assertEqual(self.on_disk(), 2)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.flushLoggedErrors(OSError)

    def test_save(self) -> None:
        """Asked to save, it does so now; with nothing to save it writes nothing."""
        saving = self.make(5.0)
        self.assertIsNone(self.successResultOf(saving.save()))
        self.assertIsNone(self.on_disk())
        self.change(saving)
        self.assertIsNone(self.successResultOf(saving.save()))
        self.assertEqual((self.on_disk(), self.env.clock.getDelayedCalls()), (1, []))

    def test_save_while_saving(self) -> None:
        """Asked to save while an older state is written, it fires with the newer one on disk."""
        self.env.threads.held.add("tables")
        saving = self.make(5.0)
        self.change(saving)
        first = saving.save()
        self.change(saving)
        second = saving.save()
        self.env.threads.release("tables", 1)
        self.assertIsNone(self.successResultOf(first))
        self.assertNoResult(second)
        self.env.threads.release("tables", 1)
        self.assertIsNone(self.successResultOf(second))
        self.assertEqual(self.on_disk(), 2)

    def test_stop(self) -> None:
        """After stop all is on disk, no timer is left, and later changes set none."""
        saving = self.make(5.0)
        self.change(saving)
        self.assertIsNone(self.successResultOf(saving.stop()))
        self.assertEqual((self.on_disk(), self.env.clock.getDelayedCalls()), (1, []))
        self.change(saving)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_stop_fails(self) -> None:
        """A stop that cannot save says so, and leaves no timer."""
        self.env.files.fail[PATH] = errno.EROFS
        saving = self.make(5.0)
        self.change(saving)
        self.failureResultOf(saving.stop(), ServiceNotAvailable)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.flushLoggedErrors(OSError)

    def test_no_file(self) -> None:
        """A table without a file counts as saved."""
        saving = Saving(self.env.clock, None, dict, 0.0, "test table")
        saving.changed()
        self.assertIsNone(saving.wait(saving.generation))
        self.assertIsNone(self.successResultOf(saving.stop()))
