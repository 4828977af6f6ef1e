"""Requests of administrators: topics, groups, the broker."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.figures.queuestats import QueueStats
from smartgo.broker.filter import FilterCache
from smartgo.broker.processors.brokeradmin import CHANGES_LIMIT, BrokerAdmin
from smartgo.broker.processors.clientadmin import ClientAdmin
from smartgo.broker.processors.groupadmin import GroupAdmin
from smartgo.broker.processors.heartbeat import HeartbeatProcessor
from smartgo.broker.processors.progressadmin import ProgressAdmin
from smartgo.broker.processors.queueadmin import QueueAdmin
from smartgo.broker.processors.topicadmin import TopicAdmin
from smartgo.broker.settings.changes import Asked, Who, written
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.tables.builtintopics import create_built_in
from smartgo.config.loading import Configuration
from smartgo.config.settings import BrokerConfig, StoreConfig, TlsConfig
from smartgo.errors import BadBody, BadName, ConsumerNotOnline, GroupNotExist, RequestRefused, TopicNotExist
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode
from smartgo.schema.topics import NO_TOPIC_RETENTION
from tests.broker.doubles import FakeBroker, FakePeer, body_of, current, received, request
from tests.broker.processors.test_heartbeat import GOLDEN, consumer, subscription
from tests.fakes import FakeEnvironment


class AdminCase(SynchronousTestCase):
    """All tables, and the processors that show them."""

    sync = False
    slave = False

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.broker = broker = FakeBroker(
            self.env, sync=self.sync, slave=self.slave, table_settings=current(), max_groups=3
        )
        clock = self.env.clock
        self.topics, self.groups, self.offsets = broker.topics, broker.groups, broker.offsets
        self.consumers, self.producers, self.stats = broker.consumers, broker.producers, broker.stats
        self.store = broker.fake_store
        self.delayed = broker.delay.offsets
        self.topic_admin = TopicAdmin(broker)
        self.group_admin = GroupAdmin(broker)
        self.progress_admin = ProgressAdmin(broker)
        self.client_admin = ClientAdmin(broker)
        self.queue_admin = QueueAdmin(broker, FilterCache())
        self.settings = LiveSettings(clock, Configuration(broker=BrokerConfig(broker_name="broker-a")))
        self.queue_stats = QueueStats(clock, self.topics, broker.store)
        self.broker_admin = BrokerAdmin(self.stats, self.settings, self.queue_stats, remote_config=True)
        self.heartbeats = HeartbeatProcessor(broker)
        self.processors: dict[int, Any] = {}
        for processor in (
            self.topic_admin, self.group_admin, self.progress_admin, self.client_admin, self.queue_admin,
            self.broker_admin,
        ):  # fmt: skip
            verifyObject(IRequestProcessor, processor)
            for code in processor.codes:
                self.processors[code] = processor

    def raw(self, code: int, body: Any = b"", **fields: Any) -> Any:
        """Ask; a Deferred may come back."""
        texts = {name: str(value) for name, value in fields.items()}
        return self.processors[code].process(FakePeer("192.0.2.66:9"), request(code, None, body, **texts))

    def ask(self, code: int, body: Any = b"", **fields: Any) -> Command:
        """Ask, and return the answer as it is read."""
        answer = self.raw(code, body, **fields)
        return received(self.successResultOf(answer) if isinstance(answer, Deferred) else answer)

    def show(self, code: int, **fields: Any) -> Any:
        """The JSON body of the answer."""
        return msgspec.json.decode(self.ask(code, **fields).body)

    def create(self, topic: str = "T", **fields: Any) -> Command:
        """17."""
        wanted = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        } | fields  # fmt: skip
        return self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **wanted)

    def beat(self, peer: FakePeer, client: str, consumers: Any = (), producers: Any = ()) -> None:
        """A heartbeat."""
        body = {
            "clientID": client,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": name} for name in producers],
        }
        self.heartbeats.process(peer, request(RequestCode.HEART_BEAT, None, body))


def by_queue(table: dict[str, Any]) -> dict[tuple[str, int], Any]:
    """A table keyed by (topic, queue id) instead of text."""
    keys = {text: json.loads(text) for text in table}
    assert all(one["brokerName"] == "broker-a" for one in keys.values())
    return {(keys[text]["topic"], keys[text]["queueId"]): value for text, value in table.items()}


class TopicAdminTests(AdminCase):
    """Topics."""

    def test_create(self) -> None:
        """17 creates a topic, and replaces all its settings."""
        answer = self.create(order="true", topicSysFlag=1, perm=4, readQueueNums=3)
        self.assertEqual((answer.code, answer.body), (0, b""))
        self.assertEqual(
            self.show(RequestCode.GET_TOPIC_CONFIG, topic="T"),
            {
                "topicName": "T", "readQueueNums": 3, "writeQueueNums": 2, "perm": 4, "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 1, "order": True,
            },
        )  # fmt: skip
        self.create()
        self.assertEqual(
            self.topics.get("T"), TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=6)
        )

    def test_create_told(self) -> None:
        """17 is answered when the registries have heard of the topic."""
        told = self.broker.informed = Deferred()
        answer = self.raw(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102", readQueueNums=2, writeQueueNums=2,
            perm=6, topicFilterType="SINGLE_TAG", order="false",
        )  # fmt: skip
        assert isinstance(answer, Deferred)
        self.assertNoResult(answer)
        self.assertIn("T", self.topics)
        told.callback(None)
        self.assertEqual(received(self.successResultOf(answer)).code, 0)

    def test_retention_refused(self) -> None:
        """Nobody can have one topic's messages kept for another time; the refusal says why."""
        with self.assertRaises(RequestRefused) as caught:
            self.create("T", attributes="+retention.time=1h")
        self.assertEqual(str(caught.exception), NO_TOPIC_RETENTION)

    def test_create_refused(self) -> None:
        """17 refuses system topics, bad names and bad numbers with 1, and creates nothing."""
        for fields in ({"topic": "TBW102"}, {"topic": "a/b"}, {"topic": "T", "readQueueNums": 2000}, {"perm": 99}):
            with self.assertRaises(RequestRefused) as caught:
                self.create(**fields)
            self.assertEqual(caught.exception.code, 1)
        self.assertEqual(len(self.topics), 0)

    def test_all(self) -> None:
        """21 shows the whole table with its version."""
        self.create("T")
        shown = self.show(RequestCode.GET_ALL_TOPIC_CONFIG)
        self.assertEqual(list(shown["topicConfigTable"]), ["T"])
        self.assertEqual(shown["dataVersion"]["counter"], self.topics.version.counter)
        self.assertNotIn("removedQueueTable", shown)

    def test_one(self) -> None:
        """351 answers 17 for what is not there."""
        with self.assertRaises(TopicNotExist) as caught:
            self.ask(RequestCode.GET_TOPIC_CONFIG, topic="T")
        self.assertEqual(caught.exception.code, 17)

    def test_delete(self) -> None:
        """215 removes settings, counters and queues; the groups' offsets stay."""
        self.create("T")
        self.offsets.commit("g", "T", 0, 5)
        self.stats.stored("T", 1, 1)
        self.store.stored["T", 0] = (0, [1])
        self.assertEqual(self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code, 0)
        self.assertEqual((len(self.topics), self.store.deleted), (0, ["T"]))
        self.assertIsNone(self.stats.counted("TOPIC_PUT_NUMS", "T"))
        self.assertEqual(self.offsets.query("g", "T", 0), 5)

    def test_delete_unknown(self) -> None:
        """215 of what is not there is answered 0, as its queues may still be; of a system topic 1."""
        self.assertEqual(self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="U").code, 0)
        self.assertEqual(self.store.deleted, ["U"])
        for name, error in (("TBW102", RequestRefused), ("a/b", BadName)):
            with self.assertRaises(error):
                self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic=name)
        self.assertEqual(self.store.deleted, ["U"])

    def test_system(self) -> None:
        """305 lists the system topics."""
        create_built_in(self.topics, BrokerConfig(broker_cluster_name="C", broker_name="B"))
        shown = self.show(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)["topicList"]
        self.assertLessEqual({"TBW102", "C", "B", "C_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX"}, set(shown))

    def test_consumers(self) -> None:
        """300 lists the groups that subscribe to a topic or have offsets in it."""
        self.offsets.commit("b", "T", 0, 1)
        self.offsets.commit("c", "U", 0, 1)
        self.beat(FakePeer(), "c1", [consumer("a", subscription("T")), consumer("d", subscription("U"))])
        self.assertEqual(self.show(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T"), {"groupList": ["a", "b"]})
        self.assertEqual(self.show(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="V"), {"groupList": []})

    def test_state(self) -> None:
        """202 shows bounds and the time of the newest message of every write queue, and what came in lately."""
        self.create("T", readQueueNums=4)
        self.store.stored["T", 0] = (3, [1000, 2000])
        self.stats.stored("T", 30, 3000)
        self.env.clock.advance(30)
        shown = self.show(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
        self.assertEqual(
            by_queue(shown["offsetTable"]),
            {
                ("T", 0): {"lastUpdateTimestamp": 2000, "maxOffset": 5, "minOffset": 3},
                ("T", 1): {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
            },
        )
        self.assertEqual(shown["topicPutTps"], 1.0)
        with self.assertRaises(TopicNotExist):
            self.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="U")


class GroupAdminTests(AdminCase):
    """Groups."""

    def test_update(self) -> None:
        """200 creates a group, and replaces all its settings; 352 and 201 show it."""
        body = {"groupName": "g", "retryMaxTimes": 3, "consumeEnable": False, "attributes": {}, "brokerId": 0}
        self.assertEqual(self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code, 0)
        shown = self.show(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
        self.assertEqual((shown["retryMaxTimes"], shown["consumeEnable"]), (3, False))
        self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "g"})
        shown = self.show(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        self.assertEqual(shown["subscriptionGroupTable"]["g"]["retryMaxTimes"], 16)
        self.assertEqual(shown["dataVersion"]["counter"], self.groups.version.counter)

    def test_update_refused(self) -> None:
        """200 refuses what it cannot read and what is no group."""
        for body, error in ((b"{", BadBody), ({"groupName": "a/b"}, BadName)):
            with self.assertRaises(error):
                self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)

    def test_one(self) -> None:
        """352 answers 26 for what is not there, and creates nothing."""
        with self.assertRaises(GroupNotExist) as caught:
            self.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
        self.assertEqual((caught.exception.code, len(self.groups)), (26, 0))

    def test_delete(self) -> None:
        """207 removes a group, and its offsets where 4.x or 5.x asks for that."""
        for fields, kept in (({}, 5), ({"removeOffset": "true"}, None), ({"cleanOffset": "true"}, None)):
            self.groups.find("g")
            self.offsets.commit("g", "T", 0, 5)
            self.assertEqual(self.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g", **fields).code, 0)
            self.assertEqual((self.offsets.query("g", "T", 0), "g" in self.groups), (kept, False))
        self.assertEqual(self.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="unknown").code, 0)

    def test_consumer_connections(self) -> None:
        """203 shows who is connected and what the group subscribes to; 206 where nobody is."""
        self.beat(FakePeer("192.0.2.9:5"), "c1", [consumer("g", subscription("T", "A", 7))])
        shown = self.show(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
        self.assertEqual(
            shown["connectionSet"],
            [{"clientAddr": "192.0.2.9:5", "clientId": "c1", "language": "PYTHON", "version": 409}],
        )
        self.assertEqual(
            [shown[name] for name in ("consumeType", "messageModel", "consumeFromWhere")],
            ["CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"],
        )
        self.assertEqual(shown["subscriptionTable"], {"T": subscription("T", "A", 7)})
        with self.assertRaises(ConsumerNotOnline) as caught:
            self.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="h")
        self.assertEqual((caught.exception.code, str(caught.exception)), (206, "the consumer group[h] not online"))

    def test_producer_connections(self) -> None:
        """204 shows who is connected; 1 for an unknown group."""
        self.beat(FakePeer("192.0.2.9:5"), "c1", producers=["p"])
        shown = self.show(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
        self.assertEqual([one["clientId"] for one in shown["connectionSet"]], ["c1"])
        with self.assertRaises(RequestRefused) as caught:
            self.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="q")
        self.assertEqual(caught.exception.code, 1)

    def test_all_producers(self) -> None:
        """328 shows the producers of all groups."""
        self.beat(FakePeer("192.0.2.9:5"), "c1", producers=["p", "q"])
        shown = self.show(RequestCode.GET_ALL_PRODUCER_INFO)["data"]
        one = {
            "clientId": "c1", "remoteIP": "/192.0.2.9:5", "language": "PYTHON", "version": 409,
            "lastUpdateTimestamp": self.env.clock.wall_ms(),
        }  # fmt: skip
        self.assertEqual(shown, {"p": [one], "q": [one]})

    def test_many_at_once(self) -> None:
        """18 and 225 create or change as many topics or groups as they name."""
        topics = [{"topicName": name, "readQueueNums": 3, "writeQueueNums": 3} for name in "TU"]
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {"topicConfigList": topics})
        self.assertEqual((answer.code, self.topics.names()), (0, ["T", "U"]))
        groups = [{"groupName": name, "retryMaxTimes": 2} for name in "gh"]
        self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {"groupConfigList": groups})
        self.assertEqual([self.groups.find(name).retry_max_times for name in "gh"], [2, 2])

    def test_subscription(self) -> None:
        """345 shows what a connected group wants of a topic, nothing where it is not connected or wants nothing."""
        self.beat(FakePeer(), "c1", [consumer("g", subscription("T", "A", 7))])
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        shown = self.show(code, group="g", topic="T")
        self.assertEqual(shown, {"group": "g", "topic": "T", "subscriptionData": subscription("T", "A", 7)})
        for group, topic in (("g", "U"), ("h", "T")):
            self.assertEqual(self.show(code, group=group, topic=topic), {"group": group, "topic": topic})


class SlaveTests(AdminCase):
    """A slave."""

    slave = True

    def test_refuses_changes(self) -> None:
        """A slave's tables are its master's: 17, 215, 200 and 207 are refused with 1."""
        with self.assertRaises(RequestRefused):
            self.create()
        for code, body, fields in (
            (RequestCode.DELETE_TOPIC_IN_BROKER, b"", {"topic": "T"}),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "g"}, {}),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, b"", {"groupName": "g"}),
        ):
            with self.assertRaises(RequestRefused) as caught:
                self.ask(code, body, **fields)
            self.assertEqual(caught.exception.code, 1)
        self.assertEqual((len(self.topics), len(self.groups), self.store.deleted), (0, 0, []))


class SavedTests(AdminCase):
    """A broker under ASYNC_FLUSH."""

    def test_saved_first(self) -> None:
        """A topic or group that an administrator makes is in its file before the answer: a kill takes none (D15)."""
        for code, body, fields in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, b"", {
                "topic": "T", "defaultTopic": "", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
                "topicFilterType": "SINGLE_TAG", "order": "false"}),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "g"}, {}),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, b"", {"groupName": "g"}),
        ):  # fmt: skip
            self.env.threads.held.add("tables")
            answer = self.raw(code, body, **fields)
            assert isinstance(answer, Deferred)
            self.assertNoResult(answer)
            self.env.threads.release("tables")
            self.assertEqual(received(self.successResultOf(answer)).code, 0)


class SyncTests(AdminCase):
    """A broker under SYNC_FLUSH."""

    sync = True

    def test_durable_first(self) -> None:
        """Changes are answered once they are on disk; the queues of a deleted topic go at once."""
        self.env.threads.held.add("tables")
        for code, body, fields in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, b"", {
                "topic": "T", "defaultTopic": "", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
                "topicFilterType": "SINGLE_TAG", "order": "false"}),
            (RequestCode.DELETE_TOPIC_IN_BROKER, b"", {"topic": "T"}),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "g"}, {}),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, b"", {"groupName": "g"}),
        ):  # fmt: skip
            answer = self.raw(code, body, **fields)
            assert isinstance(answer, Deferred)
            self.assertNoResult(answer)
            self.assertEqual(self.store.deleted, ["T"] if code == RequestCode.DELETE_TOPIC_IN_BROKER else [])
            self.env.threads.release("tables")
            self.assertEqual(received(self.successResultOf(answer)).code, 0)
            self.store.deleted.clear()

    def test_created_again(self) -> None:
        """A topic that a send brings about again while its deletion is written keeps the queues it has anew."""
        self.topics.update(TopicConfig(topic_name="T"))
        self.env.threads.held.add("tables")
        answer = self.raw(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        self.assertEqual(self.store.deleted, ["T"])
        self.topics.update(TopicConfig(topic_name="T"))
        self.env.threads.release("tables")
        self.assertEqual(received(self.successResultOf(answer)).code, 0)
        self.assertEqual(self.store.deleted, ["T"])
        self.assertIn("T", self.topics)


class BrokerAdminTests(AdminCase):
    """The broker as a whole."""

    def test_settings(self) -> None:
        """26 shows the settings as lines that can be read back, secrets hidden, and their version as JSON."""
        config = Configuration(
            broker=BrokerConfig(broker_name="broker-a"),
            store=StoreConfig(store_path_root_dir="/a b\\c"),
            tls=TlsConfig(server_key_password="hidden"),
        )
        settled = {"haListenPort": "10912", "useTLS": "false"}
        admin = BrokerAdmin(self.stats, LiveSettings(self.env.clock, config, settled), self.queue_stats)
        local = FakePeer("127.0.0.1:5")
        answer = received(admin.process(local, request(RequestCode.GET_BROKER_CONFIG)))
        lines = answer.body.splitlines()
        for line in (
            b"brokerName=broker-a", b"storePathRootDir=/a b\\\\c", b"tls.server.keyPassword=***", b"brokerPermission=6",
            b"haListenPort=10912", b"useTLS=false",
        ):  # fmt: skip
            self.assertIn(line, lines)
        self.assertNotIn(b"hidden", answer.body)
        version = {"counter": 0, "timestamp": self.env.clock.wall_ms()}
        self.assertEqual(msgspec.json.decode(answer.fields["version"]), version)

    def test_paths(self) -> None:
        """Paths are shown to clients on this machine alone; everybody else sees all other settings and figures."""
        config = Configuration(
            broker=BrokerConfig(broker_name="broker-a", rocketmq_home="/x/home"),
            store=StoreConfig(store_path_root_dir="/x/root", store_path_commit_log="/x/root/log"),
            tls=TlsConfig(server_key_path="/x/key", server_cert_path="/x/cert"),
        )
        facts = {"commitLogDiskRatio": "0.5", "commitLogDiskRatio_/x/root/log": "0.5"}
        admin = BrokerAdmin(self.stats, LiveSettings(self.env.clock, config), self.queue_stats, [lambda: facts])
        seen = {}
        for address in ("127.0.0.1:5", "192.0.2.1:5", "192.0.2.7:5"):
            answers = [
                received(admin.process(FakePeer(address), request(code)))
                for code in (RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO)
            ]
            seen[address] = b"".join(answer.body for answer in answers)
        near, same, far = seen.values()
        self.assertEqual(near.count(b"/x/"), 6)
        self.assertEqual(same.count(b"/x/"), 6)
        self.assertEqual(far.count(b"/x/"), 0)
        for line in (b"storePathRootDir=***", b"brokerName=broker-a", b"brokerPermission=6", b"tls.client.certPath=\n"):
            self.assertIn(line, far)
        self.assertIn(b'"commitLogDiskRatio":"0.5"', far)

    def test_settled_paths(self) -> None:
        """26 tells paths, given ones and those that follow from them, on the broker's own machine alone."""
        config = Configuration(store=StoreConfig(store_path_root_dir="/secret"))
        settled = {"storePathCommitLog": "/secret/commitlog"}
        admin = BrokerAdmin(self.stats, LiveSettings(self.env.clock, config, settled), self.queue_stats)
        for peer, told in (("192.0.2.7:40001", False), ("192.0.2.1:40001", True), ("[::1]:40001", True)):
            answer = received(admin.process(FakePeer(peer), request(RequestCode.GET_BROKER_CONFIG)))
            for name, path in (("storePathRootDir", "/secret"), ("storePathCommitLog", "/secret/commitlog")):
                self.assertIn(f"{name}={path if told else '***'}".encode(), answer.body.splitlines())
            self.assertEqual(b"/secret" in answer.body, told)

    def test_change(self) -> None:
        """25 changes what may be changed, and tells what it changed to and by whom; the version goes on."""
        taken: list[bool] = []
        self.settings.follow("autoCreateTopicEnable", taken.append)
        answer = self.ask(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false\n")
        self.assertEqual((answer.code, taken), (0, [False]))
        answer = self.ask(RequestCode.GET_BROKER_CONFIG)
        self.assertIn(b"autoCreateTopicEnable=false", answer.body.splitlines())
        self.assertEqual(msgspec.json.decode(answer.fields["version"])["counter"], 1)
        origin = str(self.settings.configuration.origins["broker", "autoCreateTopicEnable"])
        self.assertEqual(origin, f"kept by 192.0.2.66:9 at {written(self.env.clock.wall_ms())}")

    def test_change_heard(self) -> None:
        """Whoever keeps a log hears of each 25: from where, what, what was there before, and why it was declined."""
        heard: list[Asked] = []
        self.settings.requested.add(heard.append)
        self.settings.follow("autoCreateTopicEnable", lambda value: None)
        changes = {"autoCreateTopicEnable": "false"}
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false\n")
        who = Who("192.0.2.66:9", "192.0.2.66:9")
        self.assertEqual(heard, [Asked(who, changes, {"autoCreateTopicEnable": "true"}, None)])
        for body, name in ((b"listenPort=1", "listenPort"), (b"a=\\u00zz", None)):
            with self.assertRaises(RequestRefused) as caught:
                self.ask(RequestCode.UPDATE_BROKER_CONFIG, body)
            wanted = {} if name is None else {name: "1"}
            self.assertEqual(heard[-1], Asked(who, wanted, {}, caught.exception))
        self.assertEqual(len(heard), 3)

    def test_change_too_long(self) -> None:
        """25 that is longer than any settings are is not read: anybody may send one, and reading takes a while."""
        heard: list[Asked] = []
        self.settings.requested.add(heard.append)
        self.settings.follow("autoCreateTopicEnable", lambda value: None)
        line = b"autoCreateTopicEnable=false\n"
        self.assertEqual(self.ask(RequestCode.UPDATE_BROKER_CONFIG, line.ljust(CHANGES_LIMIT, b"\n")).code, 0)
        with self.assertRaises(BadBody) as caught:
            self.ask(RequestCode.UPDATE_BROKER_CONFIG, line.ljust(CHANGES_LIMIT + 1, b"\n"))
        self.assertIn("settings of 32769 B exceed the limit of 32768 B", str(caught.exception))
        self.assertEqual((heard[1].changes, heard[1].error), ({}, caught.exception))

    def test_change_refused(self) -> None:
        """25 changes all or nothing: not what needs a restart (16), not what is unknown or not allowed (1)."""
        taken: list[bool] = []
        self.settings.follow("autoCreateTopicEnable", taken.append)
        for line, code, remark in (
            (b"listenPort=1", 16, "listenPort cannot be changed while the broker runs; autoCreateTopicEnable can"),
            (b"storePathRootDir=/", 16, "storePathRootDir cannot be changed while the broker runs"),
            (b"rocketmqHome=/", 16, "rocketmqHome cannot be changed while the broker runs"),
            (b"autoCreateTopicEnabel=true", 1, "did you mean autoCreateTopicEnable?"),
            (b"autoCreateTopicEnable=perhaps", 1, "autoCreateTopicEnable=perhaps is not allowed"),
            (b"a=\\u00zz", 1, "request"),
        ):
            with self.assertRaises(RequestRefused) as caught:
                self.ask(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false\n" + line)
            self.assertEqual(caught.exception.code, code, line)
            self.assertIn(remark, str(caught.exception))
        self.assertEqual((taken, self.settings.version.counter), ([], 0))

    def test_change_without_access_control(self) -> None:
        """25 changes nothing where nobody has to say who he is."""
        admin = BrokerAdmin(self.stats, self.settings, self.queue_stats)
        with self.assertRaises(RequestRefused) as caught:
            admin.process(FakePeer(), request(RequestCode.UPDATE_BROKER_CONFIG, None, b"traceOn=false"))
        self.assertEqual(
            (caught.exception.code, str(caught.exception)),
            (16, "settings can be changed over the network only where access control is on"),
        )

    def test_statistics(self) -> None:
        """315 shows one counter over a minute, an hour and a day; 1 where nothing was ever counted."""
        self.stats.stored("T", 30, 6000)
        self.env.clock.advance(30)
        self.stats.stored("T", 30, 3000)
        for name, total, tps, average in (("TOPIC_PUT_NUMS", 60, 2.0, 1.0), ("TOPIC_PUT_SIZE", 9000, 300.0, 150.0)):
            shown = self.show(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey="T")
            self.assertEqual(shown, {
                f"stats{span}": {"sum": total, "tps": tps, "avgpt": average} for span in ("Minute", "Hour", "Day")
            })  # fmt: skip
        self.env.clock.advance(60)
        shown = self.show(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_SIZE", statsKey="T")
        self.assertEqual(
            (shown["statsMinute"], shown["statsHour"]["sum"]), ({"sum": 0, "tps": 0.0, "avgpt": 0.0}, 9000)
        )
        with self.assertRaises(RequestRefused) as caught:
            self.ask(RequestCode.VIEW_BROKER_STATS_DATA, statsName="GROUP_GET_NUMS", statsKey="T@g")
        self.assertEqual(str(caught.exception), "The stats <GROUP_GET_NUMS> <T@g> not exist")

    def recorded(self) -> set[str]:
        """The keys of a real broker's runtime information."""
        with open(os.path.join(GOLDEN, "client-4.9-json.jsonl"), encoding="utf-8") as lines:
            for line in lines:
                one = json.loads(line)
                if one.get("reply_to") == "GET_BROKER_RUNTIME_INFO":
                    return set(msgspec.json.decode(decode(bytes.fromhex(one["hex"])[4:]).body)["table"])
        raise AssertionError("nothing recorded")

    def test_runtime(self) -> None:
        """28 has every key that a real broker has, all of them text, none of them empty where tools parse it."""
        table = self.show(RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
        wanted = {
            key for key in self.recorded() if not key.startswith(("scheduleMessageOffset", "commitLogDiskRatio_"))
        }
        self.assertLessEqual(wanted, set(table))
        for key in ("getTransferredTps", "brokerActive"):
            self.assertIn(key, table)
        self.assertEqual((table["brokerVersion"], table["brokerVersionDesc"]), ("409", "V4_9_8"))
        for key in table:
            self.assertIsInstance(table[key], str, key)
            if key.endswith("Tps"):
                self.assertEqual(len([float(one) for one in table[key].split(" ")]), 3, key)

    def test_facts(self) -> None:
        """What other parts know overrides the defaults."""
        admin = BrokerAdmin(
            self.stats,
            self.settings,
            self.queue_stats,
            [lambda: {"commitLogMaxOffset": "77", "more": "1"}],
        )
        table = body_of(admin.process(FakePeer(), request(RequestCode.GET_BROKER_RUNTIME_INFO)))["table"]
        self.assertEqual((table["commitLogMaxOffset"], table["more"], table["commitLogMinOffset"]), ("77", "1", "0"))
