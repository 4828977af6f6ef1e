"""Tests of L{smartgo.spark.storenames}: a stream knows a log again wherever its directory lies."""

from __future__ import annotations

import os
import shutil

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema.message import NewMessage, pack_host
from smartgo.spark.gaps import DataLost
from smartgo.spark.options import parse
from smartgo.spark.storefollower import StoreFollower
from tests.spark.logs import LogWriter
from tests.spark.test_storefollower import offsets

SIZE = 4096


class NameTests(SynchronousTestCase):
    """A stream over copies of a broker's log."""

    def setUp(self) -> None:
        """Make a directory for stores."""
        self.top = os.path.abspath(self.mktemp())

    def store(self, name: str, address: str = "10.0.0.1", count: int = 60, later: str | None = None) -> str:
        """Write a store; a broker of another address stores the second half of its messages where one is given."""
        root = os.path.join(self.top, name)
        writer = LogWriter(root, file_size=SIZE)
        for number in range(count):
            host = pack_host(address if later is None or number < count // 2 else later, 10911)
            writer.add(NewMessage("T", 0, bytes(100), b"", store_host=host))
        writer.close()
        self.starts = [at for at, _ in writer.written]
        self.ends = [at + len(raw) for at, raw in writer.written]
        return root

    def following(self, *roots: str, **options: str) -> StoreFollower:
        """A query that starts."""
        paths = "[" + ", ".join(f'"{root}"' for root in roots) + "]"
        return StoreFollower(parse({"paths": paths, **options}))

    def test_address(self) -> None:
        """A log is named by the address of its broker; a slave's copy goes on where the master's was read up to."""
        master = self.store("master")
        query = self.following(master)
        start = query.initial()
        self.assertEqual(start, {"10.0.0.1:10911": 0})
        half = query.latest(start, 3000)
        copy = os.path.join(self.top, "slave")
        shutil.copytree(master, copy)
        shutil.rmtree(master)
        other = self.following(copy)
        end = other.latest(half, None)
        self.assertEqual(end, {"10.0.0.1:10911": self.ends[-1]})
        first = {at for _, at in offsets(self.following(copy).ranges(start, half))}
        second = {at for _, at in offsets(self.following(copy).ranges(half, end))}
        self.assertEqual(sorted(first | second), self.starts)
        self.assertEqual(first & second, set())

    def test_one_address(self) -> None:
        """Logs with messages of one address, and logs without any, are named by their directories."""
        one, two = self.store("one"), self.store("two")
        empty = os.path.join(self.top, "empty")
        os.makedirs(os.path.join(empty, "commitlog"))
        self.assertEqual(self.following(one, two, empty).initial(), {one: 0, two: 0, empty: 0})

    def test_older_checkpoint(self) -> None:
        """Offsets by directory, as older checkpoints have them, are understood and kept."""
        root = self.store("one")
        query = self.following(root)
        self.assertEqual(query.latest({root: self.ends[9]}, None), {root: self.ends[-1]})
        self.assertEqual(len(offsets(query.ranges({root: self.ends[9]}, {root: self.ends[-1]}))), 50)

    def test_other_address(self) -> None:
        """The name stays when the broker gets another address; the message before the offset tells whose log it is."""
        root = self.store("one", later="10.0.0.2")
        start = {"10.0.0.1:10911": self.ends[9]}
        end = {"10.0.0.1:10911": self.ends[-1]}
        self.assertEqual(self.following(root).latest(start, None), end)
        self.assertEqual(self.following(root).initial(), {"10.0.0.2:10911": 0})

    def test_another_log(self) -> None:
        """A log of another broker does not go on for it."""
        root = self.store("one", address="10.0.0.9")
        start = {"10.0.0.1:10911": self.ends[9]}
        error = self.assertRaises(DataLost, self.following(root).latest, start, None)
        self.assertIn("10.0.0.1:10911: there is no store any more", str(error))

    def test_named(self) -> None:
        """The option storeNames says whose log a directory has, an older checkpoint's directory too."""
        one, two = self.store("one"), self.store("two")
        start = {"10.0.0.1:10911": self.ends[9]}
        error = self.assertRaises(SettingError, self.following(one, two).latest, start, None)
        self.assertIn(f"{one} and {two} both have its messages", str(error))
        names = f'{{"{one}": "10.0.0.1:10911", "{two}": "b"}}'
        end = self.following(one, two, storeNames=names).latest(start, None)
        self.assertEqual(end, {"10.0.0.1:10911": self.ends[-1], "b": self.ends[-1]})
        moved = self.following(two, storeNames=f'{{"{two}": "/gone"}}').latest({"/gone": self.ends[9]}, None)
        self.assertEqual(moved, {"/gone": self.ends[-1]})
        for wrong in ("x", "[]", '{"/a": 1}', '{"/a": "n", "/b": "n"}'):
            self.assertIn("option storeNames", str(self.assertRaises(SettingError, self.following, storeNames=wrong)))
