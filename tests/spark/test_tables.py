"""Tests of L{smartgo.spark.tables}: queues and index files as tables."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema.index import Entry, Geometry
from smartgo.spark.conditions import Comparison, Conditions
from tests import golden_store
from tests.spark.logs import NOW_MS, rows, write, write_index


class TableTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Make room for a store."""
        self.root = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(self.root, "commitlog"))

    def test_golden_queues(self) -> None:
        """Every unit of both real stores, as the official decoder read it; each leads to a message of its queue."""
        for name in golden_store.NAMES:
            root = os.path.join(self.root, name)
            manifest = golden_store.unpack(name, root)
            expected = [
                (queue["topic"], queue["queueId"], number, *unit)
                for queue in manifest["consumeQueues"]
                for number, unit in enumerate(queue["units"])
            ]
            names = ("topic", "queue_id", "queue_offset", "physical_offset", "size", "tag_hash")
            found = [tuple(row[name] for name in names) for row in rows(root, table="consumequeue")]
            self.assertEqual(sorted(found), sorted(expected))

    def test_golden_index(self) -> None:
        """Every entry of both real stores: as many as the headers say, each leading to a message."""
        for name in golden_store.NAMES:
            root = os.path.join(self.root, name)
            manifest = golden_store.unpack(name, root)
            messages = {one["physicalOffset"]: one for one in manifest["messages"]}
            found = rows(root, table="index")
            for file in manifest["indexFiles"]:
                mine = [row for row in found if row["file"] == file["file"]]
                self.assertEqual([row["number"] for row in mine], list(range(1, file["indexCount"])))
                for row in mine[1:]:
                    stored = messages[row["physical_offset"]]["storeTimestamp"]
                    self.assertLess(abs(row["store_timestamp"].timestamp() * 1000 - stored), 1000)

    def test_queue_conditions(self) -> None:
        """Conditions about topics, queues and offsets hold for units too."""
        root = os.path.join(self.root, "a")
        golden_store.unpack("store-a", root)
        conditions = Conditions().and_topics(["Plain"]).and_number(Comparison("queue_id", "==", 2))
        conditions = conditions.and_number(Comparison("queue_offset", "<", 3))
        found = rows(root, table="consumequeue", conditions=conditions)
        self.assertEqual([(row["topic"], row["queue_id"], row["queue_offset"]) for row in found],
                         [("Plain", 2, 0), ("Plain", 2, 1), ("Plain", 2, 2)])  # fmt: skip

    def test_index_geometry(self) -> None:
        """The numbers of slots and entries follow from the size, or from an option."""
        path = os.path.join(self.root, "index", "20260131120000000")
        write_index(path, NOW_MS, [Entry(5, 100, 2, 0), Entry(7, 300, 3, 1)], Geometry(10, 33))
        self.assertIn("indexSlots", str(self.assertRaises(SettingError, rows, self.root, table="index")))
        found = rows(self.root, table="index", indexSlots=10)
        self.assertEqual(
            [(row["number"], row["key_hash"], row["physical_offset"], row["previous"]) for row in found],
            [(1, 5, 100, 0), (2, 7, 300, 1)],
        )
        self.assertEqual(found[0]["store_timestamp"].timestamp() * 1000, NOW_MS + 2000)
        self.assertIn("do not fit", str(self.assertRaises(SettingError, rows, self.root, table="index", indexSlots=9)))

    def test_nothing(self) -> None:
        """A store without queues and index has no rows there; other files are left alone."""
        write(os.path.join(self.root, "index", "notes.txt"), b"?")
        write(os.path.join(self.root, "index", "20260131120000001"), b"short")
        write(os.path.join(self.root, "consumequeue", "T", "0", "x"), b"?")
        self.assertEqual(rows(self.root, table="consumequeue") + rows(self.root, table="index"), [])

    def test_no_store(self) -> None:
        """What is no store is refused, and says what is missing."""
        os.rmdir(os.path.join(self.root, "commitlog"))
        self.assertIn("no directory commitlog", str(self.assertRaises(SettingError, rows, self.root)))
        self.assertIn("is not a directory", str(self.assertRaises(SettingError, rows, self.root + "-not")))
        self.assertIn("matches no", str(self.assertRaises(SettingError, rows, self.root + "/x*")))
