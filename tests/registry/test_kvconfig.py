"""Tests of L{smartgo.registry.kvconfig}."""

from __future__ import annotations

import errno
import json

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BrokenTable, QueryNotFound, RequestRefused
from smartgo.registry.kvconfig import KvConfig
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment

PATH = "/home/namesrv/kvConfig.json"


class KvConfigTests(SynchronousTestCase):
    """Namespaced settings over files in memory."""

    def setUp(self) -> None:
        """No settings, and no directory yet."""
        self.env = FakeEnvironment()
        self.kv = self.reopened()

    def reopened(self, size_limit: int = 1000) -> KvConfig:
        """What a registry that starts now sees."""
        kv = KvConfig(TableFile(self.env, PATH), self.env.clock, size_limit)
        kv.load()
        return kv

    def test_put(self) -> None:
        """A value is there at once, and after a restart."""
        self.assertIsNone(self.kv.get("N", "K"))
        self.env.threads.held.add("tables")
        saved = self.kv.put("N", "K", "v")
        self.assertEqual(self.kv.get("N", "K"), "v")
        self.assertNoResult(saved)
        self.env.threads.release("tables")
        self.successResultOf(saved)
        self.assertEqual(self.reopened().get("N", "K"), "v")

    def test_file(self) -> None:
        """The file is RocketMQ's: a member configTable of namespaces."""
        self.successResultOf(self.kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:8;broker-b:8"))
        self.assertEqual(
            json.loads(self.env.files.read(PATH)),
            {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:8;broker-b:8"}}},
        )

    def test_rocketmq_file(self) -> None:
        """A file that RocketMQ wrote is read, an empty object too."""
        self.env.files.make_directories("/home/namesrv")
        self.env.files.create(PATH, b'{"configTable":{"N":{"K":"v"},"E":{}}}')
        kv = self.reopened()
        self.assertEqual((kv.get("N", "K"), kv.namespace("E")), ("v", {}))
        self.env.files.replace(PATH, b"{}")
        self.assertIsNone(self.reopened().get("N", "K"))

    def test_broken_file(self) -> None:
        """A file of another shape, without a backup, is refused."""
        self.env.files.make_directories("/home/namesrv")
        for content in (
            b"",
            b"[]",
            b'{"configTable":[]}',
            b'{"configTable":{"N":{"K":1}}}',
            b'{"configTable":{"N":"K"}}',
        ):
            self.env.files.replace(PATH, content, backup=False)
            self.assertRaises(BrokenTable, self.reopened)

    def test_delete(self) -> None:
        """A deleted value is gone for good; its namespace stays; deleting what is not there does no harm."""
        self.successResultOf(self.kv.put("N", "K", "v"))
        self.successResultOf(self.kv.delete("N", "K"))
        self.successResultOf(self.kv.delete("N", "K"))
        self.successResultOf(self.kv.delete("M", "K"))
        self.assertIsNone(self.kv.get("N", "K"))
        self.assertEqual(self.reopened().namespace("N"), {})
        self.assertRaises(QueryNotFound, self.kv.namespace, "M")

    def test_by_value(self) -> None:
        """Keys are found and removed by their value, and make room."""
        kv = KvConfig(TableFile(self.env, PATH), self.env.clock, size_limit=12)
        for key in "ab":
            self.successResultOf(kv.put("N", key, "vvvv"))
        self.assertEqual((kv.keys_of("N", "vvvv"), kv.keys_of("N", "w"), kv.keys_of("M", "vvvv")), (["a", "b"], [], []))
        self.successResultOf(kv.delete_value("N", "vvvv"))
        self.assertEqual(kv.namespace("N"), {})
        self.successResultOf(kv.put("N", "c", "0123456789"))

    def test_namespace(self) -> None:
        """A namespace gives all it has; an unknown one is refused in RocketMQ's words."""
        self.kv.put("N", "K", "v")
        self.kv.put("N", "L", "")
        self.assertEqual(self.kv.namespace("N"), {"K": "v", "L": ""})
        error = self.assertRaises(QueryNotFound, self.kv.namespace, "O")
        self.assertEqual((error.code, str(error)), (22, "No config item, Namespace: O"))

    def test_bounded(self) -> None:
        """The table has a limit in characters, also after a restart; replacing by something shorter always works."""
        kv = self.reopened(size_limit=10)
        self.successResultOf(kv.put("N", "K", "12345678"))
        self.assertRaises(RequestRefused, kv.put, "N", "L", "")
        self.assertRaises(RequestRefused, kv.put, "N", "K", "123456789")
        self.successResultOf(kv.put("N", "K", "x"))
        self.successResultOf(kv.put("N", "L", "12345"))
        kv = self.reopened(size_limit=10)
        self.assertRaises(RequestRefused, kv.put, "N", "M", "")
        self.successResultOf(kv.delete("N", "L"))
        self.successResultOf(kv.put("N", "M", ""))
        self.assertEqual(kv.namespace("N"), {"K": "x", "M": ""})

    def test_lost(self) -> None:
        """A value that could not be saved is in effect, and who set it is told."""
        self.env.files.make_directories("/home/namesrv")
        self.env.files.fail[PATH] = errno.ENOSPC
        self.failureResultOf(self.kv.put("N", "K", "v"), OSError)
        self.assertEqual(self.kv.get("N", "K"), "v")

    def test_large(self) -> None:
        """A large table is written once for all changes of a while, and they are answered then."""
        kv = self.reopened(size_limit=20 * 1024 * 1024)
        written = []
        replace = self.env.files.replace

        def count(path: str, data: bytes, backup: bool = True) -> None:
            written.append(len(data))
            replace(path, data, backup)

        self.patch(self.env.files, "replace", count)
        self.successResultOf(kv.put("N", "large", "x" * 10 * 1024 * 1024))
        for wait in (1.9, 0.1):
            saved = [kv.put("N", "K", f"v{number}") for number in range(500)] + [kv.delete("N", "none")]
            for one in saved:
                self.assertNoResult(one)
            self.env.clock.advance(wait)
        for one in saved:
            self.successResultOf(one)
        self.assertEqual(len(written), 2)
        self.assertEqual(self.reopened().get("N", "K"), "v499")
        last = kv.put("N", "K", "last")
        self.successResultOf(kv.settled())
        self.successResultOf(last)
        self.assertEqual((len(written), self.env.clock.getDelayedCalls()), (3, []))
        self.assertEqual(self.reopened().get("N", "K"), "last")

    def test_large_not_written(self) -> None:
        """Each of those that wait hears why it was not saved."""
        kv = self.reopened(size_limit=2 * 1024 * 1024)
        self.successResultOf(kv.put("N", "large", "x" * 1024 * 1024))

        def full(*details: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.patch(self.env.files, "replace", full)
        saved = [kv.put("N", str(number), "v") for number in range(2)]
        self.env.clock.advance(0.3)
        for one in saved:
            self.failureResultOf(one, OSError)
