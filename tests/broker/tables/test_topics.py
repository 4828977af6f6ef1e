"""The table of topics: who may bring one about, what is kept, what is re-created."""

from __future__ import annotations

import errno
from itertools import pairwise

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.tables.builtintopics import create_built_in
from smartgo.broker.tables.topics import TopicTable
from smartgo.config.settings import BrokerConfig
from smartgo.errors import BadName, BrokenTable, RequestRefused, ServiceNotAvailable, TopicNotExist
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.bodies import DataVersion, TopicConfig
from smartgo.tablefile import TableFile
from tests.broker.doubles import FakePeer, change, current
from tests.fakes import EPOCH_MS, FakeEnvironment

PATH = "/store/config/topics.json"
OLD_PATH = "/store/config/topic.json"


class TopicTableCase(SynchronousTestCase):
    """A table on files in memory."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.peer = FakePeer()

    def table(self, **settings: object) -> TopicTable:
        """A table of our files, loaded, with its built-in topics."""
        bare = self.bare(**settings)
        bare.load()
        create_built_in(bare, BrokerConfig(broker_name="broker-a"))
        return bare

    def bare(self, **settings: object) -> TopicTable:
        """A table of our files, not loaded."""
        sync = bool(settings.pop("sync", False))
        log_end = settings.pop("log_end", lambda: 0)
        assert callable(log_end)
        return TopicTable(
            self.env.clock,
            TableFile(self.env, PATH),
            current(**settings),
            fallback=TableFile(self.env, OLD_PATH),
            sync=sync,
            log_end=log_end,
        )

    def change(self, table: TopicTable, **settings: object) -> None:
        """Put other settings in force for a table."""
        change(table._settings, **settings)

    def put(self, path: str, content: str) -> None:
        """Write a file."""
        self.env.files.make_directories("/store/config")
        self.env.files.create(path, content.encode())


class CreateForSendTests(TopicTableCase):
    """Topics that come about by a send."""

    def test_peer(self) -> None:
        """The connection of these tests is one."""
        verifyObject(IPeer, self.peer)

    def test_rules(self) -> None:
        """Queues are the smaller of wish and template; permission is the template's without the inherit bit."""
        table = self.table()
        for template, wish, queues in (
            ("TBW102", 4, 4), ("TBW102", 100, 8), ("DEFAULT_TOPIC", 100, 16), ("broker-a", 4, 1)
        ):  # fmt: skip
            config = table.create_for_send(f"T-{template}-{wish}", template, wish, 1, self.peer)
            self.assertEqual((config.read_queue_nums, config.write_queue_nums, config.perm), (queues, queues, 6))
            self.assertEqual((config.topic_sys_flag, config.order), (1, False))
            self.assertEqual(table.get(config.topic_name), config)

    def test_known(self) -> None:
        """A topic that is there is returned as it is."""
        table = self.table()
        config = table.create_for_send("T", "TBW102", 4, 0, self.peer)
        version = table.version
        self.assertIs(table.create_for_send("T", "no such template", 9, 1, self.peer), config)
        self.assertEqual(table.version, version)

    def test_refused(self) -> None:
        """Without a template that has the inherit bit, or without a queue, there is no topic: 17."""
        table = self.table()
        table.create_for_send("plain", "TBW102", 4, 0, self.peer)
        for template, wish in (("nothing", 4), (None, 4), ("", 4), ("plain", 4), ("TBW102", 0), ("TBW102", -3)):
            with self.assertRaises(TopicNotExist) as caught:
                table.create_for_send("X", template, wish, 0, self.peer)
            self.assertEqual(str(caught.exception), "topic[X] not exist, apply first please!")
        self.assertNotIn("X", table)

    def test_auto_create_off(self) -> None:
        """With auto-creation off even RocketMQ's template creates nothing."""
        table = self.bare()
        create_built_in(table, BrokerConfig(broker_cluster_name="C", broker_name="B", auto_create_topic_enable=False))
        with self.assertRaises(TopicNotExist):
            table.create_for_send("X", "TBW102", 4, 0, self.peer)

    def test_retry_topic(self) -> None:
        """A retry topic comes about even where no template allows it, with one queue."""
        table = self.bare()
        config = table.create_for_send("%RETRY%g", "TBW102", 4, 0, self.peer)
        self.assertEqual((config.read_queue_nums, config.write_queue_nums, config.perm), (1, 1, 6))

    def test_names(self) -> None:
        """No name that is not allowed becomes a topic: 1."""
        table = self.table()
        for name in ("", "a/b", "..", "a b", "x" * 128, "\uff54", "a\x00", "a.b"):
            with self.assertRaises(BadName):
                table.create_for_send(name, "TBW102", 4, 0, self.peer)
            with self.assertRaises(BadName):
                table.update(TopicConfig(topic_name=name))
        self.assertIn(table.create_for_send("x" * 127, "TBW102", 4, 0, self.peer).topic_name, table)

    def test_number(self) -> None:
        """Beyond the limit of topics sends create no more; retry topics and administrators are not stopped by it."""
        table = self.table(max_topics=2)
        for name in ("A", "B"):
            table.create_for_send(name, "TBW102", 1, 0, self.peer)
        with self.assertRaises(RequestRefused) as caught:
            table.create_for_send("C", "TBW102", 1, 0, self.peer)
        self.assertEqual((caught.exception.code, "2 topics" in str(caught.exception)), (1, True))
        table.create_for_group("%RETRY%g", 1)
        table.update(TopicConfig(topic_name="C"))
        for name in ("A", "C"):
            table.delete(name)
        table.create_for_send("D", "TBW102", 1, 0, self.peer)

    def test_pace(self) -> None:
        """One address may create ten topics a second, whatever its ports; others are not held up."""
        table = self.table()
        other = FakePeer("192.0.2.8:1")
        for number in range(10):
            table.create_for_send(f"A{number}", "TBW102", 1, 0, FakePeer(f"192.0.2.7:{number}"))
        with self.assertRaises(RequestRefused) as caught:
            table.create_for_send("B", "TBW102", 1, 0, self.peer)
        self.assertEqual(caught.exception.code, 1)
        table.create_for_send("C", "TBW102", 1, 0, other)
        self.env.clock.advance(0.11)
        table.create_for_send("B", "TBW102", 1, 0, self.peer)

    def test_loopback(self) -> None:
        """Clients on this machine create as many topics a second as they like, up to the limit."""
        table = self.table(max_topics=100)
        for local in ("127.0.0.1:5", "[::1]:5"):
            for number in range(50):
                table.create_for_send(f"A{number}-{len(local)}", "TBW102", 1, 0, FakePeer(local))
        self.assertRaises(RequestRefused, table.create_for_send, "B", "TBW102", 1, 0, FakePeer("127.0.0.1:5"))

    def test_one_network(self) -> None:
        """The addresses of one IPv6 network count as one."""
        table = self.table()
        for number in range(10):
            table.create_for_send(f"A{number}", "TBW102", 1, 0, FakePeer(f"[2001:db8::{number:x}]:5"))
        self.assertRaises(RequestRefused, table.create_for_send, "B", "TBW102", 1, 0, FakePeer("[2001:db8::ff]:5"))

    def test_group_topics(self) -> None:
        """Retry and dead letter topics have a limit of their own, whoever creates them, and a pace for sends."""
        table = self.table(max_groups=10)
        for number in range(10):
            table.create_for_send(f"%DLQ%g{number}", "TBW102", 1, 0, self.peer)
        self.assertRaises(RequestRefused, table.create_for_send, "%RETRY%g", None, 1, 0, self.peer)
        local = FakePeer("127.0.0.1:5")
        for number in range(5):
            table.create_for_send(f"%RETRY%g{number}", None, 1, 0, local)
            table.create_for_group(f"%RETRY%h{number}", 1)
        self.assertRaises(RequestRefused, table.create_for_send, "%RETRY%g", None, 1, 0, local)
        self.assertRaises(RequestRefused, table.create_for_group, "%RETRY%g", 1)
        self.assertRaises(RequestRefused, table.update, TopicConfig(topic_name="%RETRY%g"), local)
        table.create_for_send("ordinary", "TBW102", 1, 0, local)
        table.delete("%DLQ%g0")
        table.create_for_group("%RETRY%g", 1)

    def test_told(self) -> None:
        """Each change raises the version and is told with the topic's name."""
        table = self.table()
        told: list[str] = []
        table.when_changed(told.append)
        counter = table.version.counter
        self.env.clock.advance(1)
        table.create_for_send("T", "TBW102", 1, 0, self.peer)
        table.update(TopicConfig(topic_name="U"))
        table.delete("T")
        self.assertEqual(told, ["T", "U", "T"])
        self.assertEqual(table.version, DataVersion(timestamp=EPOCH_MS + 1000, counter=counter + 3))


class AdministratorTests(TopicTableCase):
    """Topics that an administrator makes."""

    def test_replaces(self) -> None:
        """An update replaces all settings."""
        table = self.table()
        table.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2, perm=2, order=True))
        table.update(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6))
        self.assertEqual(
            table.get("T"), TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6, order=False)
        )

    def test_room_of_sends(self) -> None:
        """Topics of administrators do not take the room of sends; deleted ones make room, and restarts forget none."""
        table = self.table(max_topics=3)
        local = FakePeer("127.0.0.1:5")
        for number in range(3):
            table.update(TopicConfig(topic_name=f"A{number}"), local)
        with self.assertRaises(RequestRefused) as caught:
            table.update(TopicConfig(topic_name="A3"), local)
        self.assertIn("maxTopics", str(caught.exception))
        table.update(TopicConfig(topic_name="A1", perm=4), local)
        for number in range(2):
            table.create_for_send(f"S{number}", "TBW102", 1, 0, self.peer)
        self.successResultOf(table.stop())
        again = self.table(max_topics=3)
        self.assertRaises(RequestRefused, again.update, TopicConfig(topic_name="A3"), local)
        again.create_for_send("S2", "TBW102", 1, 0, self.peer)
        self.assertRaises(RequestRefused, again.create_for_send, "S3", "TBW102", 1, 0, self.peer)
        again.delete("A0")
        again.update(TopicConfig(topic_name="A3"), local)

    def test_own_topics_are_not_counted(self) -> None:
        """The broker's own topics take nobody's room, before a restart or after it."""
        for _ in range(2):
            table = self.table(max_topics=1)
            self.assertEqual(table.room._ordinary, 0)
            self.successResultOf(table.save())

    def test_pace_of_administrators(self) -> None:
        """An administrator elsewhere creates a thousand topics at once, and then some a second."""
        table = self.table()
        for number in range(1000):
            table.update(TopicConfig(topic_name=f"A{number}"), self.peer)
        self.assertRaises(RequestRefused, table.update, TopicConfig(topic_name="B"), self.peer)
        table.update(TopicConfig(topic_name="A7", perm=4), self.peer)
        table.update(TopicConfig(topic_name="B"), FakePeer("127.0.0.1:5"))
        self.env.clock.advance(0.11)
        table.update(TopicConfig(topic_name="C"), self.peer)

    def changed(self, table: TopicTable, count: int, peer: FakePeer) -> Deferred[None]:
        """Create topics by one request."""
        configs = [TopicConfig(topic_name=f"L{number}") for number in range(count)]
        return Deferred.fromCoroutine(table.update_all(configs, peer))

    def test_list(self) -> None:
        """A long list is checked and done in slices, between which others have their turn."""
        table = self.table()
        done = self.changed(table, 2000, FakePeer("127.0.0.1:5"))
        seen = []

        def look() -> None:
            seen.append(len(table) - 9)
            if len(seen) < 8:
                self.env.clock.callLater(0, look)

        look()
        self.env.clock.advance(0)
        self.successResultOf(done)
        self.assertEqual(seen[-1], 2000)
        self.assertEqual(max(after - before for before, after in pairwise(seen)), 500)

    def test_list_all_or_nothing(self) -> None:
        """Where one topic of a list is not allowed, or there is no room for all, nothing is changed."""
        table = self.table(max_topics=700)
        local = FakePeer("127.0.0.1:5")
        version = table.version
        configs = [TopicConfig(topic_name=f"L{number}") for number in range(600)]
        for bad in (
            TopicConfig(topic_name="a/b"),
            TopicConfig(topic_name="TBW102"),
            TopicConfig(topic_name="X", perm=99),
        ):
            done = Deferred.fromCoroutine(table.update_all([*configs, bad], local))
            self.env.clock.pump([0.0] * 5)
            self.assertIsInstance(self.failureResultOf(done).value, (RequestRefused, BadName))
        for count, peer in ((701, local), (1001, self.peer)):
            done = self.changed(table, count, peer)
            self.env.clock.pump([0.0] * 9)
            self.failureResultOf(done, RequestRefused)
        self.assertEqual((table.version, len(table)), (version, 9))
        first, second = (
            self.changed(table, 600, local),
            Deferred.fromCoroutine(
                table.update_all([TopicConfig(topic_name=f"M{number}") for number in range(600)], local)
            ),
        )
        self.env.clock.pump([0.0] * 9)
        self.successResultOf(first)
        self.failureResultOf(second, RequestRefused)
        self.assertEqual(len(table), 609)

    def test_limits_passed(self) -> None:
        """Where there are more topics of one kind than there may be, others are created, and all are changed."""
        local = FakePeer("127.0.0.1:5")
        topics = {f"%RETRY%g{number}": {"readQueueNums": 1, "writeQueueNums": 1} for number in range(3)}
        self.put(PATH, msgspec.json.encode({"topicConfigTable": topics}).decode())
        table = self.table(max_groups=1, max_topics=5)
        self.assertRaises(RequestRefused, table.update, TopicConfig(topic_name="%RETRY%new"), local)
        self.successResultOf(self.changed(table, 3, local))
        self.change(table, max_groups=1, max_topics=1)
        self.assertRaises(RequestRefused, table.update, TopicConfig(topic_name="T"), local)
        self.successResultOf(self.changed(table, 3, local))
        table.delete("%RETRY%g0")
        table.delete("%RETRY%g1")
        table.update(TopicConfig(topic_name="%RETRY%new"), local)

    def test_system_topics(self) -> None:
        """No system topic is changed or deleted: 1."""
        table = self.table()
        for name in (*table.system_names(), "rmq_sys_X"):
            with self.assertRaises(RequestRefused) as caught:
                table.update(TopicConfig(topic_name=name))
            self.assertEqual(str(caught.exception), f"The topic[{name}] is conflict with system topic.")
            with self.assertRaises(RequestRefused):
                table.delete(name)

    def test_ranges(self) -> None:
        """A queue number or permission that cannot be is refused, and changes nothing."""
        table = self.table()
        for wrong in ({"read_queue_nums": 1025}, {"write_queue_nums": -1}, {"perm": 16}, {"perm": -1}):
            with self.assertRaises(RequestRefused):
                table.update(TopicConfig(topic_name="T", **wrong))  # type: ignore[arg-type]
        self.assertNotIn("T", table)

    def test_delete(self) -> None:
        """A deleted topic is gone; deleting what is not there says so."""
        table = self.table()
        table.update(TopicConfig(topic_name="T"))
        self.assertTrue(table.delete("T"))
        self.assertFalse(table.delete("T"))
        self.assertIsNone(table.get("T"))

    def test_order(self) -> None:
        """Topics named by the registry become ordered and all others not; only a difference counts as a change."""
        table = self.table()
        for name in "AB":
            table.update(TopicConfig(topic_name=name, order=name == "B"))
        counter = table.version.counter
        table.apply_order({"A", "nowhere"})
        self.assertEqual([one and one.order for one in map(table.get, "AB")], [True, False])
        self.assertEqual(table.version.counter, counter + 1)
        table.apply_order(["A"])
        self.assertEqual(table.version.counter, counter + 1)


class FileTests(TopicTableCase):
    """The file of the table."""

    def test_round_trip(self) -> None:
        """What was saved is there again, version included."""
        table = self.table()
        table.update(
            TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2, perm=4, topic_sys_flag=1, order=True)
        )
        self.successResultOf(table.stop())
        again = self.bare()
        again.load()
        self.assertEqual(again.names(), table.names())
        self.assertEqual(again.get("T"), table.get("T"))
        self.assertEqual(again.version, table.version)

    def test_shape(self) -> None:
        """The file is RocketMQ's."""
        table = self.table()
        table.create_for_send("T", "TBW102", 4, 0, self.peer)
        self.successResultOf(table.stop())
        saved = msgspec.json.decode(self.env.files.read(PATH))
        self.assertEqual(
            saved["topicConfigTable"]["T"],
            {
                "topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0, "order": False,
            },
        )  # fmt: skip
        self.assertEqual(saved["dataVersion"], {"timestamp": EPOCH_MS, "counter": table.version.counter})

    def test_within_a_second(self) -> None:
        """Under ASYNC_FLUSH a change is on disk within a second, and then there is no timer."""
        table = self.table()
        self.env.clock.advance(1)
        table.create_for_send("T", "TBW102", 4, 0, self.peer)
        self.assertIsNone(table.durable("T"))
        self.assertTrue(table.is_durable)
        self.env.clock.advance(0.9)
        self.assertIn(b'"T"', self.env.files.read(PATH))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_before_the_answer(self) -> None:
        """Under SYNC_FLUSH everybody who sends to a new topic waits for its save, and nobody else."""
        self.env.threads.held.add("tables")
        table = self.table(sync=True)
        self.env.threads.release("tables")
        self.env.threads.release("tables")
        self.assertIsNone(table.durable("TBW102"))
        self.assertTrue(table.is_durable)
        table.create_for_send("T", "TBW102", 4, 0, self.peer)
        self.assertFalse(table.is_durable)
        first = table.durable("T")
        second = table.durable("T")
        everybody = table.durable()
        assert first is not None
        assert second is not None
        assert everybody is not None
        self.assertIsNone(table.durable("TBW102"))
        self.assertNoResult(first)
        self.env.threads.release("tables")
        for one in (first, second, everybody):
            self.assertIsNone(self.successResultOf(one))
        self.assertTrue(table.is_durable)
        self.assertIsNone(table.durable("T"))
        self.assertIn(b'"T"', self.env.files.read(PATH))

    def test_not_saved(self) -> None:
        """Under SYNC_FLUSH who waits for a topic hears that it could not be saved."""
        table = self.table(sync=True)
        self.env.files.fail[PATH] = errno.ENOSPC
        self.env.threads.held.add("tables")
        table.create_for_send("T", "TBW102", 4, 0, self.peer)
        first = table.durable("T")
        assert first is not None
        self.env.threads.release("tables")
        self.failureResultOf(first, ServiceNotAvailable)
        later = table.durable("T")
        assert later is not None
        self.assertNoResult(later)
        self.env.files.fail.clear()
        self.env.clock.advance(5)
        self.env.threads.release("tables")
        self.assertIsNone(self.successResultOf(later))
        self.flushLoggedErrors(OSError)

    def test_older_name(self) -> None:
        """C{topic.json} is read where there is no C{topics.json}, and never written."""
        self.put(
            OLD_PATH, '{"dataVersion":{"counter":4,"timestamp":5},"topicConfigTable":{"T":{"topicName":"T","perm":6}}}'
        )
        table = self.table()
        self.assertIn("T", table)
        before = self.env.files.read(OLD_PATH)
        self.successResultOf(table.stop())
        self.assertEqual(self.env.files.read(OLD_PATH), before)
        self.assertIn(b'"T"', self.env.files.read(PATH))

    def test_smartgo_forms(self) -> None:
        """Numbers for the filter type and unknown members are understood."""
        one = '{"topicName":"T","readQueueNums":2,"writeQueueNums":2,"perm":6,"topicFilterType":0,"x":[]}'
        self.put(PATH, '{"dataVersion":{"counter":4,"timestamp":5},"more":1,"topicConfigTable":{"T":' + one + "}}")
        config = self.table().get("T")
        assert config is not None
        self.assertEqual((config.read_queue_nums, config.topic_filter_type), (2, "SINGLE_TAG"))

    def test_bad_names_in_the_file(self) -> None:
        """A name that is not allowed is left out, wherever it comes from."""
        one = '{"topicName":"%s","readQueueNums":1,"writeQueueNums":1,"perm":6}'
        both = '"../x":' + one % "../x" + ',"T":' + one % "U"
        self.put(PATH, '{"dataVersion":{"counter":4,"timestamp":5},"topicConfigTable":{' + both + "}}")
        table = self.table()
        self.assertNotIn("../x", table)
        config = table.get("T")
        assert config is not None
        self.assertEqual(config.topic_name, "T")

    def test_queue_numbers_in_the_file(self) -> None:
        """A topic has no more queues than any may have, whatever the file or a master says."""
        topic = '{"topicName":"T","readQueueNums":1073741826,"writeQueueNums":2147483647,"perm":6}'
        self.put(PATH, '{"topicConfigTable":{"T":' + topic + '},"dataVersion":{}}')
        table = self.table()
        told = table.get("T")
        assert told is not None
        self.assertEqual((told.read_queue_nums, told.write_queue_nums), (65_536, 65_536))
        table.replace_all(
            DataVersion(timestamp=1, counter=1), {"U": TopicConfig(topic_name="U", read_queue_nums=1 << 30)}
        )
        told = table.get("U")
        assert told is not None
        self.assertEqual(told.read_queue_nums, 65_536)

    def test_broken(self) -> None:
        """A file that cannot be read stops the start, naming the file."""
        self.put(PATH, '{"topicConfigTable":')
        with self.assertRaises(BrokenTable):
            self.bare().load()

    def test_replace_all(self) -> None:
        """A slave takes over its master's table and version, and saves them."""
        master = self.table()
        master.update(TopicConfig(topic_name="T"))
        slave = TopicTable(self.env.clock, TableFile(self.env, "/slave/topics.json"))
        slave.update(TopicConfig(topic_name="gone"))
        wrapper = master.wrapper()
        slave.replace_all(wrapper.data_version, wrapper.topic_config_table)
        self.assertEqual((slave.names(), slave.version), (master.names(), master.version))
        self.assertIsNotNone(slave.get("T"))
        self.successResultOf(slave.stop())
        self.assertIn(b'"T"', self.env.files.read("/slave/topics.json"))
