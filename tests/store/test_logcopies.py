"""Tests of L{smartgo.store.logcopies}."""

from __future__ import annotations

from smartgo.errors import ServiceNotAvailable
from tests.fakes import FakeEnvironment
from tests.store.stores import StoreTestCase, message, small


class CopyTests(StoreTestCase):
    """A copy is taken where the message itself may be refused."""

    def test_full_disk(self) -> None:
        """A copy is taken on a full disk, but not by a broker that may not be a master, nor by a closed store."""
        env = FakeEnvironment()
        env.files.free = env.files.total // 20
        store = self.opened(env)
        self.assertRaises(ServiceNotAvailable, store.append, (message(),))
        self.assertTrue(store.copies.is_disk_full)
        store.copies.append(message(body=b"copy"))
        store.end_run()
        self.assertEqual(self.bodies(store), [b"copy"])
        store.hold_back("not the master")
        self.assertRaises(ServiceNotAvailable, store.copies.append, message())
        store.hold_back(None)
        self.stopped(store)
        self.assertRaises(ServiceNotAvailable, store.copies.append, message())

    def test_slave(self) -> None:
        """A slave takes none."""
        store = self.opened(FakeEnvironment(), small(replica=True))
        self.assertRaises(ServiceNotAvailable, store.copies.append, message())
