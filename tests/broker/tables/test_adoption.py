"""Topics that the store has and the table of topics lost (D15)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import capturedLogs

from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.topics import TopicTable
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.topics import OP_HALF_TOPIC, SCHEDULE_TOPIC
from tests.broker.tables.test_topics import PATH, TopicTableCase


class AdoptTests(TopicTableCase):
    """Topics that the store has and the table lost (D15)."""

    def adopted(self, table: TopicTable, *queues: tuple[str, int], last: int = 0) -> dict[str, tuple[int, int, int]]:
        """
        Adopt; return read queues, write queues and permission of what changed.

        @param last: where the last message of each queue lies.
        """
        before = {name: table.get(name) for name in table.names()}
        adopt(table, queues, lambda topic, queue_id: last)
        found = {name: table.get(name) for name in table.names()}
        return {
            name: (one.read_queue_nums, one.write_queue_nums, one.perm)
            for name, one in found.items()
            if one is not None and before.get(name) != one
        }

    def test_lost_topic(self) -> None:
        """A lost topic comes back with the default queues, or more if used; those of groups with what was used."""
        changed = self.adopted(self.table(), ("A", 1), ("B", 11), ("B", 2), ("%RETRY%g", 0), ("%DLQ%g", 0))
        self.assertEqual(changed, {"A": (8, 8, 6), "B": (12, 12, 6), "%RETRY%g": (1, 1, 6), "%DLQ%g": (1, 1, 6)})

    def test_lost_queues(self) -> None:
        """Queues beyond the table's become readable again; what is there is not touched."""
        table = self.table()
        for name in "AB":
            table.update(TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, perm=2))
        self.assertEqual(self.adopted(table, ("A", 3), ("B", 6)), {"B": (7, 4, 2)})

    def log_of(self, size: int) -> Callable[[], int]:
        """A log of this length."""
        return lambda: size

    def test_deleted(self) -> None:
        """A deleted topic stays deleted, also over a restart, unless it was sent to since."""
        table = self.table(log_end=self.log_of(500))
        table.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        table.delete("T")
        self.successResultOf(table.stop())
        again = self.table(log_end=self.log_of(900))
        self.assertEqual(self.adopted(again, ("T", 0), last=499), {})
        self.assertEqual(self.adopted(again, ("T", 0), last=500), {"T": (8, 8, 6)})

    def test_log_cut(self) -> None:
        """Where the log was cut below the place of a deletion, what is stored there next is of the new topic."""
        table = self.table(log_end=self.log_of(500))
        table.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        table.delete("T")
        self.successResultOf(table.stop())
        cut = self.table(log_end=self.log_of(300))
        self.assertEqual(self.adopted(cut, ("T", 0), last=299), {})
        self.successResultOf(cut.stop())
        again = self.table(log_end=self.log_of(400))
        self.assertEqual(self.adopted(again, ("T", 0), last=300), {"T": (8, 8, 6)})

    def test_no_place(self) -> None:
        """Without the place, as older versions wrote the file, no queue counts as taken away."""
        self.put(PATH, '{"topicConfigTable":{},"dataVersion":{},"removedQueueTable":{"T":4}}')
        self.assertEqual(self.adopted(self.table(), ("T", 0)), {"T": (8, 8, 6)})

    def test_grown_again(self) -> None:
        """Queues of a topic that shrank and grew again are readable if they were used since, though not saved."""
        table = self.table(log_end=self.log_of(500))
        for queues in (8, 4):
            table.update(TopicConfig(topic_name="T", read_queue_nums=queues, write_queue_nums=queues))
        self.successResultOf(table.stop())
        again = self.table(log_end=self.log_of(900))
        self.assertEqual(self.adopted(again, ("T", 5), last=499), {})
        self.assertEqual(self.adopted(again, ("T", 5), last=500), {"T": (6, 4, 6)})

    def test_too_many(self) -> None:
        """No topic comes back with more queues than the limit: a queue id beyond it is left alone, with a warning."""
        table = self.table(max_queues_per_topic=16)
        table.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        with capturedLogs() as logs:
            changed = self.adopted(table, ("T", 16), ("T", 1 << 30), ("U", 65_535), ("V", 3), ("V", 16), ("W", 15))
        self.assertEqual(changed, {"V": (8, 8, 6), "W": (16, 16, 6)})
        told = [one for one in logs if "maxQueuesPerTopic" in one["log_format"]]
        self.assertEqual(
            [(one["topic"], one["queue"]) for one in told], [("T", 16), ("T", 1 << 30), ("U", 65_535), ("V", 16)]
        )

    def test_limit_lowered(self) -> None:
        """Queues that the table has stay, whatever the limit is now."""
        table = self.table()
        table.update(TopicConfig(topic_name="T", read_queue_nums=32, write_queue_nums=32))
        self.change(table, max_queues_per_topic=16)
        self.assertEqual(self.adopted(table, ("T", 31)), {})

    def test_shrunk(self) -> None:
        """Queues that were taken away stay away; more than there ever were were lost."""
        table = self.table(log_end=self.log_of(500))
        table.update(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8))
        table.update(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=2))
        table.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
        self.assertEqual(self.adopted(table, ("T", 7)), {})
        self.assertEqual(self.adopted(table, ("T", 8))["T"][:2], (9, 2))

    def test_made_again(self) -> None:
        """A deleted topic that was created again does not get its old queues back."""
        table = self.table(log_end=self.log_of(500))
        table.update(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8))
        table.delete("T")
        table.create_for_send("T", "TBW102", 4, 0, self.peer)
        self.assertEqual(self.adopted(table, ("T", 7)), {})
        table.update(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8))
        table.delete("T")
        self.assertEqual(self.adopted(table, ("T", 7)), {})

    def test_of_the_broker(self) -> None:
        """The broker's own topics come back without a warning; light queues, 5.x's own and bad names never."""
        table = self.table()
        changed = self.adopted(
            table, (OP_HALF_TOPIC, 0), (SCHEDULE_TOPIC, 40), ("%LMQ%x", 0), ("rmq_sys_wheel_timer", 0), ("a.b", 0)
        )
        self.assertEqual(changed, {OP_HALF_TOPIC: (1, 1, 6)})

    def test_again(self) -> None:
        """What was adopted is saved, and adopting once more changes nothing."""
        table = self.table()
        self.adopted(table, ("A", 1))
        self.successResultOf(table.stop())
        again = self.table()
        self.assertIn("A", again)
        self.assertEqual(self.adopted(again, ("A", 1)), {})
