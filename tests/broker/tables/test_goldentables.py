"""The tables of real stores, as RocketMQ 4.9.7 wrote them."""

from __future__ import annotations

import msgspec
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.schema.fastjson import loads
from smartgo.schema.topics import OP_HALF_TOPIC
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment
from tests.golden_store import NAMES, GoldenStore, read

CONFIG = "/store/config"


class GoldenTableTests(SynchronousTestCase):
    """C{topics.json}, C{subscriptionGroup.json} and C{consumerOffset.json}, there and back."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def file(self, name: str) -> TableFile:
        """A table's file."""
        return TableFile(self.env, f"{CONFIG}/{name}")

    def unpack(self, name: str) -> GoldenStore:
        """Put a store's tables on the disk."""
        self.env = FakeEnvironment()
        store = read(name)
        self.env.files.make_directories(CONFIG)
        for path, content in store.below("config"):
            self.env.files.create(f"{CONFIG}/{path}", content)
        return store

    def written(self, name: str) -> object:
        """Return the content of our file, which is plain JSON."""
        return msgspec.json.decode(self.env.files.read(f"{CONFIG}/{name}"))

    def test_topics(self) -> None:
        """Topics are read with their version, and written as they were."""
        for name in NAMES:
            before = loads(self.unpack(name).files["config/topics.json"])
            table = TopicTable(self.env.clock, self.file("topics.json"))
            table.load()
            self.assertEqual(msgspec.json.decode(table.wrapper().encode()), before)
            table._saving.changed()
            self.successResultOf(table.stop())
            self.assertEqual(self.written("topics.json"), before)

    def test_groups(self) -> None:
        """Groups are read with their version, and written as they were."""
        for name in NAMES:
            before = loads(self.unpack(name).files["config/subscriptionGroup.json"])
            table = GroupTable(self.env.clock, self.file("subscriptionGroup.json"))
            table.load()
            self.assertEqual(msgspec.json.decode(table.wrapper().encode()), before)
            table._saving.changed()
            self.successResultOf(table.stop())
            self.assertEqual(self.written("subscriptionGroup.json"), before)

    def test_offsets(self) -> None:
        """Offsets are read, bare keys and all, and written as they were but with quoted keys."""
        for name in NAMES:
            before = loads(self.unpack(name).files["config/consumerOffset.json"])
            table = OffsetTable(self.env.clock, self.file("consumerOffset.json"))
            table.load()
            self.assertGreater(len(table), 2)
            table._saving.changed()
            self.successResultOf(table.stop())
            self.assertEqual(self.written("consumerOffset.json"), before)

    def test_nothing_is_adopted(self) -> None:
        """A whole store lacks no topic but the one that RocketMQ never enters in its table: no warning."""
        store = self.unpack("store-a")
        table = TopicTable(self.env.clock, self.file("topics.json"))
        table.load()
        before = set(table.names())
        with capturedLogs() as logs:
            adopt(table, ((topic, queue_id) for topic, queue_id, _, _ in store.queues()), lambda topic, queue_id: 0)
        self.assertEqual(set(table.names()) - before, {OP_HALF_TOPIC})
        self.assertEqual([one for one in logs if one["log_level"].name == "warn"], [])
