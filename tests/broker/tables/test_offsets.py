"""The table of consumer offsets."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.offsets import OffsetTable
from smartgo.errors import BrokenTable, RequestRefused
from smartgo.schema.bodies import ConsumerOffsetTable
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment

PATH = "/store/config/consumerOffset.json"


class OffsetTableTests(SynchronousTestCase):
    """Offsets on files in memory."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def table(self) -> OffsetTable:
        """A table of our file, loaded."""
        table = OffsetTable(self.env.clock, TableFile(self.env, PATH))
        table.load()
        return table

    def put(self, content: bytes) -> None:
        """Write the file."""
        self.env.files.make_directories("/store/config")
        self.env.files.create(PATH, content)

    def test_limit(self) -> None:
        """There is a limit to offsets, not to commits; what is removed makes room, and all ways in are counted."""
        table = OffsetTable(self.env.clock, limit=5)
        for queue_id in range(3):
            table.commit("g", "T", queue_id, 1)
        self.assertRaises(RequestRefused, table.clone, "g", "h", "T")
        table.commit("h", "T", 0, 1)
        table.commit("h", "U", 0, 1)
        self.assertEqual(table.count, 5)
        self.assertRaises(RequestRefused, table.commit, "g", "T", 3, 1)
        self.assertRaises(RequestRefused, table.commit, "new", "T", 3, 1)
        self.assertNotIn("new", table)
        table.commit("g", "T", 0, 2)
        table.remove("h", "U")
        self.assertEqual(table.count, 4)
        table.remove_group("g")
        self.assertEqual(table.count, 1)
        table.clone("h", "i", "T")
        table.clone("h", "i", "T")
        table.merge(ConsumerOffsetTable({"T@h": {0: 5, 1: 5}, "V@k": {0: 1}}))
        self.assertEqual((table.count, sum(len(queues) for _, _, queues in table.items())), (4, 4))

    def test_beyond_the_end(self) -> None:
        """What lies beyond the end of its queue is taken back, and saved; a queue without messages tells nothing."""
        table = self.table()
        for queue_id, offset in enumerate((5, 6, 7, 8)):
            table.commit("g", "T", queue_id, offset)
        self.successResultOf(table.save())
        table.keep_within(lambda topic, queue_id: (9, 6, 3, 0)[queue_id])
        self.assertEqual(table.queues("g", "T"), {0: 5, 1: 6, 2: 3, 3: 8})
        self.successResultOf(table.save())
        again = self.table()
        self.assertEqual(again.queues("g", "T"), table.queues("g", "T"))

    def test_commit(self) -> None:
        """The last commit counts, also when it goes back."""
        table = self.table()
        self.assertIsNone(table.query("g", "T", 0))
        for offset in (5, 9, 3):
            table.commit("g", "T", 0, offset)
            self.assertEqual(table.query("g", "T", 0), offset)
        self.assertIsNone(table.query("g", "T", 1))
        self.assertIsNone(table.query("g", "U", 0))
        self.assertIsNone(table.query("h", "T", 0))
        self.assertEqual(table.went_back, 1)

    def test_lists(self) -> None:
        """Topics of a group, groups of a topic, and the offsets of both together."""
        table = self.table()
        table.commit("g", "T", 0, 1)
        table.commit("g", "T", 3, 4)
        table.commit("g", "%RETRY%g", 0, 1)
        table.commit("h", "T", 0, 2)
        self.assertEqual(table.topics_of("g"), ["%RETRY%g", "T"])
        self.assertEqual(table.groups_of("T"), ["g", "h"])
        self.assertEqual(table.queues("g", "T"), {0: 1, 3: 4})
        self.assertEqual((table.topics_of("x"), table.groups_of("x"), table.queues("x", "y")), ([], [], {}))
        self.assertEqual(("g" in table, "x" in table, len(table)), (True, False, 2))

    def test_save_every_five_seconds(self) -> None:
        """However many commits, the file is written 5 s after the first unsaved one, and then there is no timer."""
        table = self.table()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        for offset in range(40):
            table.commit("g", "T", 0, offset)
            self.env.clock.advance(0.125)
        saved = msgspec.json.decode(self.env.files.read(PATH))
        self.assertEqual(saved, {"offsetTable": {"T@g": {"0": 39}}})
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        table.commit("g", "T", 0, 39)
        self.assertEqual(self.env.clock.getDelayedCalls(), [], "nothing changed")

    def test_saved_at_stop(self) -> None:
        """What was committed is on disk when the table has stopped."""
        table = self.table()
        table.commit("g", "T", 7, 1234567890123)
        self.successResultOf(table.stop())
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.table().query("g", "T", 7), 1234567890123)

    def test_reads_rocketmq(self) -> None:
        """A file with RocketMQ's bare integer keys is read."""
        self.put(b'{\n\t"offsetTable":{"T@g":{0:18,1:12\n\t\t},"%RETRY%g@g":{0:0}\n\t}\n}')
        table = self.table()
        self.assertEqual(table.queues("g", "T"), {0: 18, 1: 12})
        self.assertEqual(table.query("g", "%RETRY%g", 0), 0)

    def test_leaves_out_nonsense(self) -> None:
        """What is no topic@group, or has a negative queue id, is left out, the rest is read."""
        self.put(
            b'{"offsetTable":{"../T@g":{"0":1},"T":{"0":1},"T@a/b":{"0":1},"U@g":{"-1":3},"V@g":{},"T@g":{"1":2,"4":"5"}}}'
        )
        self.assertEqual([one for one in self.table().items() if one[2]], [("g", "T", {1: 2, 4: 5})])

    def test_empty(self) -> None:
        """A file with nothing in the table is an empty table."""
        for content in (b'{"offsetTable":{}}', b'{"offsetTable":null}'):
            self.env = FakeEnvironment()
            self.put(content)
            self.assertEqual(list(self.table().items()), [])

    def test_broken(self) -> None:
        """A file that cannot be read stops the start: an empty table would skip or repeat whole topics."""
        for content in (
            b"{}",
            b'{"a":1}',
            b"",
            b"[]",
            b'{"offsetTable":[]}',
            b'{"offsetTable":{"T@g"',
            b'{"offsetTable":{"T@g":{"0":1.5}}}',
        ):
            self.env = FakeEnvironment()
            self.put(content)
            with self.assertRaises(BrokenTable):
                self.table()

    def test_remove(self) -> None:
        """A group's offsets go together, or for one topic; the file follows."""
        table = self.table()
        for topic in "TUV":
            table.commit("g", topic, 0, 1)
        self.assertTrue(table.remove("g", "T"))
        self.assertFalse(table.remove("g", "T"))
        self.assertEqual(table.topics_of("g"), ["U", "V"])
        self.assertTrue(table.remove_group("g"))
        self.assertFalse(table.remove_group("g"))
        self.assertFalse(table.remove("g", "U"))
        self.env.clock.advance(5)
        self.assertEqual(msgspec.json.decode(self.env.files.read(PATH)), {"offsetTable": {}})

    def test_clone(self) -> None:
        """A clone has the offsets of its source as they are then, and no more."""
        table = self.table()
        table.commit("g", "T", 0, 5)
        table.commit("h", "T", 1, 9)
        table.clone("g", "h", "T")
        table.commit("g", "T", 0, 6)
        self.assertEqual(table.queues("h", "T"), {0: 5})
        table.clone("g", "i", "U")
        self.assertNotIn("i", table)

    def test_merge(self) -> None:
        """A master's entries overwrite a slave's, entry by entry; an empty answer changes nothing."""
        table = self.table()
        table.commit("g", "T", 0, 5)
        table.commit("g", "T", 1, 6)
        table.merge(ConsumerOffsetTable({"T@g": {0: 7}, "U@h": {0: 1}}))
        self.assertEqual((table.queues("g", "T"), table.queues("h", "U")), ({0: 7, 1: 6}, {0: 1}))
        before = table.wrapper().encode()
        table.merge(ConsumerOffsetTable({}))
        self.assertEqual(table.wrapper().encode(), before)

    def test_stale(self) -> None:
        """Offsets of topics that nobody reads go once the store has nothing left from there on, and no earlier."""
        table = self.table()
        for topic in ("read", "behind", "partly", "ahead"):
            for queue_id in range(2):
                table.commit("g", topic, queue_id, 10)
        minimum = {"read": (90, 90), "behind": (11, 12), "partly": (11, 10), "ahead": (0, 0)}
        dropped = table.drop_stale(
            lambda group, topic: topic == "read", lambda topic, queue_id: minimum[topic][queue_id]
        )
        self.assertEqual((dropped, table.topics_of("g")), (1, ["ahead", "partly", "read"]))
