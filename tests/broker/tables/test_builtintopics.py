"""The topics that every master has."""

from __future__ import annotations

from smartgo.broker.tables.builtintopics import create_built_in
from smartgo.broker.tables.topics import INHERIT, READ, WRITE
from smartgo.config.settings import BrokerConfig
from smartgo.schema.topics import SCHEDULE_TOPIC
from tests.broker.tables.test_topics import PATH, TopicTableCase


class BuiltInTests(TopicTableCase):
    """The topics that are always there."""

    def test_first_start(self) -> None:
        """A new broker has the system topics of RocketMQ 4.9, and SmartGo's template beside RocketMQ's."""
        table = self.table()
        found = {name: table.get(name) for name in table.names()}
        shapes = {name: (one.read_queue_nums, one.write_queue_nums, one.perm) for name, one in found.items() if one}
        self.assertEqual(
            shapes,
            {
                "SELF_TEST_TOPIC": (1, 1, 6),
                "TBW102": (8, 8, 7),
                "DEFAULT_TOPIC": (16, 16, 7),
                "BenchmarkTest": (1024, 1024, 6),
                "DefaultCluster": (16, 16, 7),
                "broker-a": (1, 1, 7),
                "OFFSET_MOVED_EVENT": (1, 1, 6),
                "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
                "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
            },
        )
        for name in shapes:
            self.assertTrue(table.is_system(name), name)

    def test_switches(self) -> None:
        """Settings leave out templates, take the inherit bit, add the trace topic and the levels' queues."""
        table = self.bare()
        settings = BrokerConfig(
            broker_cluster_name="C",
            broker_name="B",
            auto_create_topic_enable=False,
            cluster_topic_enable=False,
            broker_topic_enable=False,
            trace_topic_enable=True,
            msg_trace_topic_name="Traces",
        )
        create_built_in(table, settings, delay_levels=30)
        for name in ("TBW102", "DEFAULT_TOPIC"):
            self.assertNotIn(name, table)
        configs = [table.get(name) for name in ("C", "B", "Traces", SCHEDULE_TOPIC)]
        self.assertEqual(
            [one and (one.read_queue_nums, one.perm) for one in configs], [(16, 1), (1, 1), (1, 6), (30, 6)]
        )

    def test_template_follows_the_setting(self) -> None:
        """A saved template topic is a template while auto-creation is on, and is not while it is off."""
        first = self.table()
        self.successResultOf(first.stop())
        second = self.bare()
        second.load()
        create_built_in(second, BrokerConfig(broker_name="broker-a", auto_create_topic_enable=False))
        for name in ("TBW102", "DEFAULT_TOPIC"):
            config = second.get(name)
            assert config is not None
            self.assertEqual(config.perm, READ | WRITE)
        self.successResultOf(second.stop())
        third = self.table()
        config = third.get("TBW102")
        assert config is not None
        self.assertEqual(config.perm, READ | WRITE | INHERIT)

    def test_saved_settings_stay(self) -> None:
        """What was saved of a built-in topic is kept; the schedule topic alone grows with the levels."""
        config = '{"topicName":"%s","readQueueNums":%d,"writeQueueNums":%d,"perm":6}'
        both = ",".join(
            f'"{name}":{config % (name, queues, queues)}'
            for name, queues in (("BenchmarkTest", 7), (SCHEDULE_TOPIC, 5))
        )
        self.put(PATH, f'{{"dataVersion":{{"counter":1,"timestamp":2}},"topicConfigTable":{{{both}}}}}')
        table = self.table()
        for name, queues in ("BenchmarkTest", 7), (SCHEDULE_TOPIC, 18):
            found = table.get(name)
            assert found is not None
            self.assertEqual((found.read_queue_nums, found.write_queue_nums), (queues, queues))
