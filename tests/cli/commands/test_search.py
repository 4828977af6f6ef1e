"""Tests of C{smartgo msg search}: every key of a real RocketMQ store is found."""

from __future__ import annotations

import posixpath
from collections import defaultdict

from tests.broker.fakecluster import Cluster
from tests.cli.case import CommandCase
from tests.fakes import FakeEnvironment
from tests.golden_store import INDEX_ENTRIES, INDEX_SLOTS, LOG_SIZE, QUEUE_SIZE, read

_LIMIT = 64
_ROLLBACK = 12


class GoldenCase(CommandCase):
    """Commands against our broker on a golden store."""

    name = "store-a"
    index = True

    def setUp(self) -> None:
        """The store, and a broker at the address that its records name."""
        super().setUp()
        env: FakeEnvironment = self.env
        golden = read(self.name)
        for path, data in golden.files.items():
            if self.index or not path.startswith("index/"):
                env.files.make_directories(posixpath.dirname(f"/store/{path}"))
                env.files.create(f"/store/{path}", data)
        self.manifest = golden.manifest
        settings = {
            "listenPort": "21911",
            "mappedFileSizeCommitLog": str(LOG_SIZE),
            "mappedFileSizeConsumeQueue": str(QUEUE_SIZE),
            "maxHashSlotNum": str(INDEX_SLOTS),
            "maxIndexNum": str(INDEX_ENTRIES),
        }
        self.cluster = Cluster(env, **settings)
        self.addCleanup(self.cluster.stop)
        self.cluster.pump(2.0)

    def pump(self) -> None:
        """Let bytes and time pass."""
        self.cluster.pump(0.1)

    def check_keys(self) -> None:
        """Every key of the manifest finds the messages that have it, every unique key finds its message."""
        by_key: dict[tuple[str, str], list[str]] = defaultdict(list)
        by_unique: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in self.manifest["messages"]:
            if one["sysFlag"] & _ROLLBACK == _ROLLBACK:
                continue
            for key in dict.fromkeys((one["keys"] or "").split()):
                by_key[one["topic"], key].append(one["msgId"])
            if one["uniqKey"]:
                by_unique[one["topic"], one["uniqKey"]].append(one["msgId"])
        self.assertTrue(len(by_key) > 100 and len(by_unique) > 400, (len(by_key), len(by_unique)))
        for (topic, key), ids in by_key.items():
            self.assertLessEqual(len(ids), _LIMIT)
            rows = self.json("msg", "search", topic, "--key", key)
            self.assertEqual([row["offset_id"] for row in rows], ids, (topic, key))
        for (topic, key), ids in by_unique.items():
            rows = self.json("msg", "search", topic, "--id", key)
            self.assertEqual([row["offset_id"] for row in rows], ids, (topic, key))


class GoldenTests(GoldenCase):
    def test_keys(self) -> None:
        """With RocketMQ's own index."""
        self.check_keys()


class RebuiltTests(GoldenCase):
    index = False

    def test_keys(self) -> None:
        """With an index made anew from the log."""
        self.check_keys()


class CrashTests(GoldenCase):
    name = "store-a-crash"

    def test_keys(self) -> None:
        """After an unclean stop."""
        self.check_keys()
