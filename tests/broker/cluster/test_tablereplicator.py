"""A slave's copy of its master's tables (docs/spec/ha#tables, reliability H5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.cluster import tablereplicator
from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.broker.cluster.tablereplicator import CopiedTables, TableReplicator
from smartgo.broker.processors.logend import RemoteTail
from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable, Owed
from smartgo.broker.tables.topics import TopicTable
from smartgo.errors import NotConnected, PeerRefused
from smartgo.remoting.client import RemotingClient
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.topics import DeleteTopicRequest
from smartgo.store.damage import DamageTable
from smartgo.tablefile import TableFile
from tests.broker.doubles import FakeStore
from tests.broker.fakecluster import BROKER, FAST, Cluster
from tests.remoting.doubles import sweeper_of
from tests.store.stores import killed

_TABLES = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
)


class SlaveStore(FakeStore):
    """A slave's store, as far as a replicator asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 0
        self.damage = DamageTable([], lambda: None)
        self.gone: list[tuple[str, int | None]] = []

    def log_bounds(self) -> tuple[int, int]:
        """As set."""
        return 0, self.end

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """Remember where, too."""
        self.gone.append((topic, since))
        return super().delete_topic(topic, since)


class Slave:
    """The tables of a slave, and their replicator."""

    def __init__(self, cluster: Cluster, address: str = BROKER) -> None:
        clock = cluster.env.clock
        self.cluster = cluster
        self.store = SlaveStore()
        self.topics = TopicTable(clock)
        self.groups = GroupTable(clock, slave=True)
        self.file = TableFile(cluster.env, "/slave/config/consumerOffset.json")
        self.offsets = OffsetTable(clock, self.file, slave=True)
        self.offsets.load()
        self.delays: dict[int, int] = {}
        self.delay_changes = 0
        self.followed = True
        self.asked: list[int] = []
        self.client = RemotingClient(cluster.env, sweeper_of(cluster.env.clock))
        store: Any = self.store
        self.replicator = TableReplicator(
            clock,
            self.ask,
            store,
            CopiedTables(self.topics, self.groups, self.offsets, self.delays, self.count),
            lambda: self.followed,
            DamageFetcher(clock.seconds, store, RemoteTail(self.ask), self.ask),
        )
        self.replicator.master = address
        self.replicator.startService()

    def ask(self, address: str, command: Command, timeout: float) -> Deferred[Command]:
        """Ask the master."""
        self.asked.append(command.code)
        return self.client.ask(address, command, timeout)

    def count(self) -> None:
        """The delivery positions changed."""
        self.delay_changes += 1

    def stop(self) -> None:
        """Stop, tables last."""
        done: list[object] = []
        for stop in self.replicator.stopService, self.client.stop, self.offsets.stop:
            stop().addBoth(done.append)
            self.cluster.pump()
        if done != [None] * 3:
            raise AssertionError(f"not stopped: {done}")


class MirrorTests(SynchronousTestCase):
    """A master in memory, and a slave's tables."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.master = self.cluster.broker
        self.pump = self.cluster.pump
        self.slave = self.start()

    def start(self, address: str = BROKER) -> Slave:
        """Begin to copy."""
        slave = Slave(self.cluster, address)
        self.addCleanup(self.end, slave)
        return slave

    def end(self, slave: Slave) -> None:
        """Stop it, if that was not done."""
        if slave.replicator.running:
            slave.stop()

    def log_end(self) -> int:
        """Return the end of the master's log."""
        end: int = self.master.store.log_bounds()[1]
        return end

    def commit(self, group: str, offset: int, queue_id: int = 0) -> None:
        """A group is so far on the master, in a topic that there is."""
        self.master.offsets.commit(group, "T", queue_id, offset)

    def test_first(self) -> None:
        """After three seconds the tables are the master's, versions included, by its main port or its fast one."""
        self.cluster.send("T")
        self.master.groups.update(SubscriptionGroupConfig(group_name="CG", retry_max_times=3))
        self.commit("CG", 7)
        self.master.delay.offsets[3] = 11
        slaves = self.slave, self.start(FAST)
        self.pump(2.9)
        for slave in slaves:
            slave.store.end = self.log_end()
            self.assertEqual((len(slave.topics), slave.replicator.copied_ms), (0, -1))
        self.pump(0.5)
        for slave in slaves:
            self.assertEqual(slave.topics.wrapper(), self.master.topics.wrapper())
            self.assertEqual(slave.groups.wrapper(), self.master.groups.wrapper())
            self.assertEqual(slave.offsets.query("CG", "T", 0), 7)
            self.assertEqual((slave.delays[3], slave.delay_changes), (11, 1))
            self.assertEqual(slave.replicator.reason, "")
            self.assertGreater(slave.replicator.copied_ms, 0)

    def test_again(self) -> None:
        """Every ten seconds what has another version is replaced, and what has the same is not touched."""
        self.pump(3.1)
        topics, groups = self.slave.topics.wrapper(), self.slave.groups.version
        self.slave.topics.replace_all(topics.data_version, {})
        self.master.groups.update(SubscriptionGroupConfig(group_name="NEW"))
        self.master.delay.offsets[3] = 11
        self.pump(9.0)
        self.assertEqual(self.slave.groups.version, groups)
        self.pump(1.5)
        self.assertEqual(len(self.slave.topics), 0)
        self.assertIn("NEW", self.slave.groups)
        self.assertEqual(self.slave.delay_changes, 2)

    def reads(self) -> list[bytes]:
        """Keep what is read of topics, groups and offsets from now on."""
        read: list[bytes] = []
        for name in "TopicConfigSerializeWrapper", "SubscriptionGroupWrapper", "ConsumerOffsetTable":
            schema = getattr(tablereplicator, name)

            def decode(body: bytes, original: Any = schema) -> Any:
                read.append(body)
                return original.decode(body)

            self.patch(tablereplicator, name, SimpleNamespace(decode=decode))
        return read

    def test_same_bytes(self) -> None:
        """What the master answers as the last time is not read, and nothing is written; each change is, on its own."""
        self.cluster.send("T")
        self.commit("CG", 7)
        read = self.reads()
        self.pump(3.1)
        self.assertEqual(len(read), 3)
        self.pump(6.0)
        saved = self.slave.offsets.changes
        self.pump(40.0)
        self.assertEqual((len(read), self.slave.offsets.changes), (3, saved))
        self.assertGreater(self.slave.replicator.copied_ms, self.cluster.env.clock.wall_ms() - 10_100)
        self.commit("CG", 8)
        self.pump(10.1)
        self.assertEqual((len(read), self.slave.offsets.query("CG", "T", 0)), (4, 8))
        self.master.groups.update(SubscriptionGroupConfig(group_name="NEW"))
        self.pump(10.1)
        self.assertEqual((len(read), "NEW" in self.slave.groups), (5, True))

    def test_same_bytes_here_changed(self) -> None:
        """The same answer counts again when our own table is another than it was made: by a commit, or a loss."""
        self.cluster.send("T")
        self.commit("CG", 7)
        self.pump(3.1)
        self.slave.offsets.commit("CG", "T", 0, 5)  # back, which a slave does not decide
        self.pump(10.1)
        self.assertEqual((self.slave.offsets.query("CG", "T", 0), self.slave.offsets.owed()), (7, []))
        self.slave.offsets.remove_group("CG")
        self.pump(10.1)
        self.assertEqual(self.slave.offsets.query("CG", "T", 0), 7)
        self.slave.offsets.commit("CG", "T", 0, 9)
        self.pump(10.1)
        self.assertEqual((self.master.offsets.query("CG", "T", 0), self.slave.offsets.owed()), (9, []))

    def test_same_bytes_here_added(self) -> None:
        """What has come to topics or groups here goes again, though the master's answers are those of the last time."""
        self.cluster.send("T")
        self.pump(3.1)
        adopt(self.slave.topics, [("U", 0)], lambda topic, queue_id: 0)
        self.slave.groups.update(SubscriptionGroupConfig(group_name="OURS"))
        self.pump(10.1)
        self.assertEqual(self.slave.topics.wrapper(), self.master.topics.wrapper())
        self.assertEqual(self.slave.groups.wrapper(), self.master.groups.wrapper())

    def test_same_bytes_still_owed(self) -> None:
        """What is still owed is given though the master's answer is that of the last time."""
        self.cluster.send("T")
        self.commit("CG", 7)
        self.pump(3.1)
        ask = self.slave.client.ask

        def refused(address: str, command: Command, timeout: float) -> Deferred[Command]:
            if command.code != RequestCode.UPDATE_CONSUMER_OFFSET:
                return ask(address, command, timeout)
            self.slave.offsets.commit("CG", "T", 0, 9)  # the group goes on
            return fail(PeerRefused(ResponseCode.SYSTEM_ERROR, "no"))

        self.slave.offsets.commit("CG", "T", 0, 8)
        self.patch(self.slave.client, "ask", refused)
        self.pump(10.1)
        self.assertEqual([one.offset for one in self.slave.offsets.owed()], [9])
        self.patch(self.slave.client, "ask", ask)
        self.pump(10.1)
        self.assertEqual((self.master.offsets.query("CG", "T", 0), self.slave.offsets.owed()), (9, []))

    def test_left_meanwhile(self) -> None:
        """Tables that are answered when the master is no longer followed do not count, not as the last ones either."""
        self.pump(3.1)
        ask = self.slave.client.ask

        def found() -> tuple[bool, ...]:
            slave = self.slave
            return name in slave.topics, name in slave.groups, slave.offsets.query(name, "T", 0) == 7

        for step, code in enumerate(_TABLES):
            name = f"new-{step}"

            def left(address: str, command: Command, timeout: float, code: int = code) -> Deferred[Command]:
                self.slave.followed = self.slave.followed and command.code != code
                return ask(address, command, timeout)

            self.cluster.send(name)
            self.master.groups.update(SubscriptionGroupConfig(group_name=name))
            self.commit(name, 7)
            self.patch(self.slave.client, "ask", left)
            self.pump(10.1)
            self.assertEqual(found(), (step > 0, step > 1, False))
            self.patch(self.slave.client, "ask", ask)
            self.slave.followed = True
            self.pump(1.1)
            self.assertEqual(found(), (True, True, True))

    def test_same_bytes_shorter(self) -> None:
        """An answer that is the last one makes no exception: a master with less of the log is not believed."""
        self.cluster.send("T")
        self.pump(3.1)
        read = self.reads()
        self.slave.store.end = self.log_end() + 1
        self.slave.offsets.remove_group("CG")
        self.pump(20.0)
        self.assertEqual((read, self.slave.replicator.reason), ([], f"{BROKER} has less of the log than we have"))

    def test_delivered(self) -> None:
        """How far the master has delivered counts once the log has come that far, with what was delivered."""
        self.cluster.send("T")
        self.slave.store.end = self.log_end() - 1
        self.master.delay.offsets[3] = 11
        self.pump(3.1)
        self.assertEqual((self.slave.delays, self.slave.replicator.reason), ({}, ""))
        self.slave.store.end += 1
        self.cluster.send("T")
        self.master.delay.offsets[3] = 12
        self.pump(10.1)
        self.assertEqual((self.slave.delays[3], self.slave.delay_changes), (11, 1))
        self.pump(10.1)
        self.slave.followed = False
        self.pump(10.1)
        self.slave.followed = True
        self.slave.store.end = self.log_end()
        self.master.delay.offsets[3] = 13
        self.pump(1.1)
        self.assertEqual((self.slave.delays[3], self.slave.delay_changes), (13, 2))

    def test_not_followed(self) -> None:
        """Nothing is copied from a master whose log is not followed; as soon as it is, all is."""
        self.slave.followed = False
        self.pump(30.0)
        self.assertEqual((self.slave.asked, self.slave.replicator.reason), ([], "no master is followed"))
        self.slave.followed = True
        self.pump(1.1)
        self.assertEqual(self.slave.topics.version, self.master.topics.version)

    def test_shorter(self) -> None:
        """Nothing is copied from a master that has less of the log: it has lost its disk, and perhaps its tables."""
        self.cluster.send("T")
        self.pump(3.1)
        self.slave.store.end = self.master.store.log_bounds()[1] + 1
        self.master.topics.delete("T")
        self.pump(30.0)
        self.assertIn("T", self.slave.topics)
        self.assertEqual(self.slave.replicator.reason, f"{BROKER} has less of the log than we have")
        self.slave.store.end -= 1
        self.pump(1.1)
        self.assertNotIn("T", self.slave.topics)

    def test_lost(self) -> None:
        """With the master away, a topic that the log brought and no table has is readable with default settings."""
        self.pump(3.1)
        self.slave.followed = False
        self.slave.store.stored["NEW", 3] = (0, [1])
        self.slave.replicator.arrived("NEW", 3, 1, [0], 1)
        self.pump(1.1)
        self.assertEqual(self.slave.topics.wrapper(["NEW"]).topic_config_table["NEW"].read_queue_nums, 8)
        self.cluster.send("NEW", queue_id=3)
        self.slave.followed = True
        self.pump(1.1)
        self.assertEqual(self.slave.topics.version, self.master.topics.version)

    def test_unknown(self) -> None:
        """A message of an unknown topic brings the next copy forward, once."""
        self.pump(3.1)
        self.cluster.send("NEW")
        self.slave.replicator.arrived("NEW", 0, 1, [0], 1)
        self.pump(0.6)
        self.assertIn("NEW", self.slave.topics)
        asked = len(self.slave.asked)
        self.slave.replicator.arrived("NEVER", 0, 1, [0], 1)
        self.pump(1.0)
        self.slave.replicator.arrived("NEVER", 0, 2, [0], 1)
        self.pump(1.0)
        self.assertEqual(len(self.slave.asked), asked + 5)

    def test_deleted(self) -> None:
        """The queues of a topic that the master deleted are dropped, where they began before the master was asked."""
        self.cluster.send("OLD")
        self.pump(3.1)
        self.slave.store.end = 100
        self.master.topics.delete("OLD")
        ask = self.slave.client.ask

        def slow(address: str, command: Command, timeout: float) -> Deferred[Command]:
            if command.code == RequestCode.GET_ALL_TOPIC_CONFIG:
                self.slave.store.end = 120
            return ask(address, command, timeout)

        self.patch(self.slave.client, "ask", slow)
        self.pump(10.1)
        self.assertEqual(self.slave.store.gone, [("OLD", 100)])

    def test_master_killed(self) -> None:
        """A topic that was made anew right before its master was killed is not deleted here when the master is back."""
        self.cluster.send("T")
        self.pump(2.0)
        self.cluster.ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="T")))
        self.pump(2.0)
        self.cluster.send("T")
        known = self.master.topics.wrapper()
        self.assertIn("T", known.topic_config_table)
        again = Cluster(killed(self.cluster.env))
        self.addCleanup(again.stop)
        slave = Slave(again)
        self.addCleanup(slave.stop)
        slave.topics.replace_all(known.data_version, known.topic_config_table)
        again.pump(15.0)
        self.assertEqual(slave.topics.version, again.broker.topics.version)
        self.assertEqual((slave.store.gone, "T" in slave.topics), ([], True))

    def test_owed(self) -> None:
        """What groups committed here is given to the master before its own counts; the larger wins, on both sides."""
        self.cluster.send("T")
        for queue_id, offset in ((0, 10), (1, 10), (2, 10)):
            self.commit("CG", offset, queue_id)
        self.pump(3.1)
        self.slave.followed = False
        self.slave.offsets.commit("CG", "T", 0, 15)
        self.slave.offsets.commit("CG", "T", 1, 12)
        self.slave.offsets.commit("FRESH", "T", 0, 4)
        self.commit("CG", 13, 1)  # somebody else went on there
        self.commit("CG", 9, 2)  # an administrator has set it back
        self.pump(5.0)
        self.assertEqual(len(self.slave.offsets.owed()), 3)
        self.slave.followed = True
        self.slave.replicator.soon()
        self.pump(1.1)
        for table in self.master.offsets, self.slave.offsets:
            self.assertEqual(table.queues("CG", "T"), {0: 15, 1: 13, 2: 9})
            self.assertEqual(table.query("FRESH", "T", 0), 4)
        self.assertEqual(self.slave.offsets.owed(), [])

    def test_owed_restart(self) -> None:
        """What is owed survives a restart, in the file of the offsets; a master reads the same file without it."""
        self.cluster.send("T")
        self.slave.followed = False
        self.slave.offsets.commit("CG", "T", 2, 15)
        self.pump(5.1)
        self.slave.stop()
        again = self.start()
        self.assertEqual(again.offsets.owed(), [Owed("CG", "T", 2, 15)])
        as_master = OffsetTable(self.cluster.env.clock, again.file)
        as_master.load()
        self.assertEqual((as_master.query("CG", "T", 2), as_master.owed()), (15, []))
        self.pump(3.1)
        self.assertEqual(self.master.offsets.query("CG", "T", 2), 15)
        self.assertEqual(again.offsets.owed(), [])

    def test_owed_refused(self) -> None:
        """An offset that the master will never take, as of an unknown topic, is owed no more, and not lost here."""
        self.slave.offsets.commit("CG", "NOWHERE", 0, 15)
        self.pump(3.1)
        self.assertEqual((self.slave.offsets.owed(), self.slave.offsets.query("CG", "NOWHERE", 0)), ([], 15))
        self.assertEqual(self.slave.replicator.reason, "")

    def test_owed_busy(self) -> None:
        """An offset that the master cannot take just now is owed still, and given later."""
        self.cluster.send("T")
        self.slave.offsets.commit("CG", "T", 0, 15)
        ask = self.slave.client.ask

        def busy(address: str, command: Command, timeout: float) -> Deferred[Command]:
            if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
                return fail(PeerRefused(ResponseCode.SYSTEM_BUSY, "busy"))
            return ask(address, command, timeout)

        self.patch(self.slave.client, "ask", busy)
        self.pump(3.1)
        self.assertEqual(self.slave.offsets.owed(), [Owed("CG", "T", 0, 15)])
        self.assertIn("busy", self.slave.replicator.reason)
        self.patch(self.slave.client, "ask", ask)
        self.pump(1.1)
        self.assertEqual((self.slave.offsets.owed(), self.master.offsets.query("CG", "T", 0)), ([], 15))

    def test_owed_meanwhile(self) -> None:
        """What is committed while the master is being told the last one is owed still."""
        self.cluster.send("T")
        self.slave.offsets.commit("CG", "T", 0, 15)
        ask = self.slave.client.ask

        def slow(address: str, command: Command, timeout: float) -> Deferred[Command]:
            if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
                self.slave.offsets.commit("CG", "T", 0, 16)
            return ask(address, command, timeout)

        self.patch(self.slave.client, "ask", slow)
        self.pump(3.1)
        self.assertEqual(self.slave.offsets.owed(), [Owed("CG", "T", 0, 16)])
        self.assertEqual(self.slave.offsets.query("CG", "T", 0), 16)
        self.patch(self.slave.client, "ask", ask)
        self.pump(10.1)
        self.assertEqual((self.slave.offsets.owed(), self.master.offsets.query("CG", "T", 0)), ([], 16))

    def test_unreachable(self) -> None:
        """A master that cannot be asked is asked again after a second; what is owed and what is there stay."""
        self.slave.offsets.commit("CG", "T", 0, 15)
        self.patch(self.slave.client, "ask", lambda *args: fail(NotConnected("gone")))
        self.pump(5.1)
        self.assertEqual(len(self.slave.asked), 3)
        self.assertEqual(self.slave.replicator.reason, f"{BROKER}: gone")
        self.assertEqual(len(self.slave.offsets.owed()), 1)

    def test_java(self) -> None:
        """Answers as a Java master writes them, with bare integers for keys, are read."""
        bodies = {
            RequestCode.GET_BROKER_RUNTIME_INFO: b'{"table":{"commitLogMaxOffset":"0"}}',
            RequestCode.GET_ALL_TOPIC_CONFIG: b'{"dataVersion":{"counter":3,"timestamp":7},"topicConfigTable":{"T":'
            b'{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T",'
            b'"topicSysFlag":0,"writeQueueNums":4}}}',
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b'{"dataVersion":{"counter":1,"timestamp":8},'
            b'"subscriptionGroupTable":{"CG":{"brokerId":0,"groupName":"CG","retryMaxTimes":5}}}',
            RequestCode.GET_ALL_DELAY_OFFSET: b'{"offsetTable":{1:5,18:0}}',
            RequestCode.GET_ALL_CONSUMER_OFFSET: b'{"offsetTable":{"T@CG":{0:3,1:4}}}',
        }

        def answer(address: str, command: Command, timeout: float) -> Deferred[Command]:
            done: Deferred[Command] = Deferred()
            done.callback(command.answer(ResponseCode.SUCCESS, body=bodies[RequestCode(command.code)]))
            return done

        self.patch(self.slave.client, "ask", answer)
        self.pump(3.1)
        self.assertEqual(self.slave.topics.get("T"), TopicConfig("T", 4, 4))
        self.assertEqual(self.slave.groups.wrapper().subscription_group_table["CG"].retry_max_times, 5)
        self.assertEqual(self.slave.offsets.queues("CG", "T"), {0: 3, 1: 4})
        self.assertEqual(self.slave.delays, {1: 5, 18: 0})

    def test_stop(self) -> None:
        """A stop waits for the round that runs, and no other follows."""
        waiting: list[Deferred[Command]] = []

        def held(address: str, command: Command, timeout: float) -> Deferred[Command]:
            waiting.append(Deferred())
            return waiting[-1]

        self.patch(self.slave.client, "ask", held)
        self.pump(3.1)
        stopped = self.slave.replicator.stopService()
        self.assertNoResult(stopped)
        waiting[0].errback(NotConnected("stopped"))
        self.successResultOf(stopped)
        self.pump(20.0)
        self.assertEqual(len(waiting), 1)
