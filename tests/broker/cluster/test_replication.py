"""A master and its slave in memory, over real stores: the log, the tables, failover, and the way back."""

from __future__ import annotations

import errno
from typing import Any, cast

from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.broker.cluster.registrystate import Registered
from smartgo.broker.cluster.replication import THIS_MACHINE, SlaveReplication, allowed
from smartgo.broker.cluster.replicationstate import Replicated
from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.settings.changes import Who
from smartgo.config.settings import HaConfig
from smartgo.ha.interfaces import SlaveState
from smartgo.ha.stream import Stream
from smartgo.schema.batch import encode_items
from smartgo.schema.bodies import TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.ha import TailAnswer, TailRequest
from smartgo.schema.headers.offsets import OffsetResponse, QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.send import SendBackRequest
from smartgo.schema.message import StoredMessage
from tests.broker.fakecluster import BROKER, FAST, REGISTRY, Cluster, opened, pull_command, records, send_command
from tests.remoting.doubles import sweeper_of

SLAVE = "127.0.0.1:10921"
SLAVE_SETTINGS = {"brokerRole": "SLAVE", "brokerId": "1", "listenPort": "10921", "storePathRootDir": "/slave"}


class Pair(Cluster):
    """
    A registry, a master and a slave of it.

    @ivar slave: the slave; C{None} while it is stopped.
    @ivar settings: the slave's, for its next start.
    """

    def __init__(self, slave_settings: dict[str, str] | None = None, **settings: str) -> None:
        super().__init__(None, **settings)
        self.slave: Broker | None = None
        self.settings = {**SLAVE_SETTINGS, **(slave_settings or {})}
        self.running = True
        self.start_slave()

    def ask(self, command: Command, address: str = BROKER) -> Command:
        """Ask, and return the answer, for which another broker may have to be heard."""
        found: list[Any] = []
        self.client.ask(address, command, 3.0).addBoth(found.append)
        self.pump()
        for _ in range(31):
            if not found:
                self.pump(0.1)
        if not isinstance(found[0], Command):
            raise AssertionError(f"no answer: {found}")
        return found[0]

    def start_slave(self) -> None:
        """Start the slave; it needs a moment to follow."""
        self.slave = Broker(self.env, self.configure(self.settings), sweeper_of(self.env.clock))
        self.slave.startService()
        self.pump(0.5)

    def stop_slave(self) -> None:
        """Stop it in order."""
        slave, self.slave = self.slave, None
        if slave is not None:
            self._stop(slave)

    def stop_master(self) -> None:
        """Stop the master in order."""
        self.running = False
        self._stop(self.service)

    def start_master(self, **settings: str) -> None:
        """Start it again."""
        self.service = Broker(self.env, self.configure(settings), sweeper_of(self.env.clock))
        self.service.startService()
        self.running = True
        self.pump(0.5)

    def _stop(self, broker: Broker) -> None:
        done: list[object] = []
        broker.stopService().addBoth(done.append)
        self.pump(7.0)
        if done != [None]:
            raise AssertionError(f"not stopped: {done}")

    def stop(self) -> None:
        """Stop all."""
        self.stop_slave()
        if self.running:
            super().stop()
            return
        for stop in self.client.stop, self.registry.stopService:
            stop()
            self.pump(7.0)

    @property
    def followed(self) -> OpenBroker:
        """The slave, which runs."""
        if self.slave is None:
            raise AssertionError("the slave does not run")
        return opened(self.slave)

    def logs(self) -> tuple[bytes, bytes]:
        """Both logs."""
        return log(self.broker), log(self.followed)


def log(broker: OpenBroker) -> bytes:
    """The bytes of a broker's log."""
    at, end = broker.store.log_bounds()
    parts = []
    while at < end:
        piece: list[bytes | memoryview | None] = [broker.store.piece(at, 1 << 20)]
        if piece[0] is None:
            broker.store.piece_cold(at, 1 << 20).addCallback(piece.append)
        found = piece[-1]
        assert found is not None
        parts.append(bytes(found))
        at += len(found)
    return b"".join(parts)


class PairCase(SynchronousTestCase):
    """With a pair."""

    def start(self, slave_settings: dict[str, str] | None = None, **settings: str) -> Pair:
        """Start one; nothing of it is left at the end."""
        pair = Pair(slave_settings, **settings)
        self.addCleanup(self.end, pair)
        return pair

    def end(self, pair: Pair) -> None:
        """Stop it."""
        pair.stop()
        self.assertEqual((pair.env.clock.getDelayedCalls(), pair.env.files.mappings), ([], []))

    def pulled(self, pair: Pair, topic: str = "T", offset: int = 0) -> list[StoredMessage]:
        """Return the slave's messages of queue 0."""
        answer = pair.ask(pull_command(topic, 0, offset), SLAVE)
        self.assertIn(answer.code, (0, 19, 20), answer.remark)
        return records(answer.body)


class LongAwayTests(PairCase):
    """A slave that was away until its master had removed what it needed."""

    def setUp(self) -> None:
        sizes = {"mappedFileSizeCommitLog": "64KiB", "mappedFileSizeConsumeQueue": "200", "cleanResourceInterval": "1s"}
        self.pair = pair = self.start({**sizes, "maxLogTotalSize": "1GiB"}, maxLogTotalSize="128KiB", **sizes)
        self.fill(40)
        pair.pump(3.0)
        pair.stop_slave()
        self.fill(200)
        pair.pump(70.0)
        pair.start_slave()
        pair.pump(3.0)

    def fill(self, count: int) -> None:
        """Send messages of 2 KiB."""
        for number in range(count):
            self.pair.send("T", b"%4d" % number * 512)

    def test_kept(self) -> None:
        """It stays away while it has messages that have not expired, and says so; until somebody lets them go."""
        pair = self.pair
        now = pair.followed.replication.now()
        self.assertEqual(now.state, SlaveState.DIVERGED)
        self.assertIn("(fileReservedTime); haBeginAnew=true lets our log begin anew without them", now.reason)
        self.assertEqual(len(self.pulled(pair, "T", 30)), 10)
        pair.followed.settings.change([("haBeginAnew", "true")], Who("test"))
        pair.pump(62.0)
        self.assert_follows()

    def test_expired(self) -> None:
        """It begins anew once all its messages have expired."""
        pair = self.pair
        pair.stop_slave()
        pair.settings["fileReservedTime"] = "1"
        pair.start_slave()
        pair.pump(5.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.DIVERGED)
        for _ in range(7):
            pair.pump(600.0)
        self.assert_follows()

    def assert_follows(self) -> None:
        """The slave has all that its master has, over a restart, too."""
        pair = self.pair
        for _ in range(2):
            self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
            self.assertEqual(pair.followed.store.log_bounds(), pair.broker.store.log_bounds())
            self.assertEqual(*pair.logs())
            first, end = pair.broker.store.bounds("T", 0)
            self.assertEqual(pair.followed.store.bounds("T", 0), (first, end))
            self.assertTrue(self.pulled(pair, "T", first))
            pair.send("T", b"more")
            pair.pump(3.0)
            pair.stop_slave()
            pair.start_slave()
            pair.pump(3.0)


class FollowingTests(PairCase):
    """The slave has what the master has."""

    def test_log_and_tables(self) -> None:
        """Whom to follow the registry says; log and tables become equal, and consumers can read from either."""
        pair = self.start()
        for number in range(30):
            pair.send("T", b"%d" % number)
        pair.broker.offsets.commit("CG", "T", 0, 12)
        pair.pump(11.0)
        self.assertEqual(*pair.logs())
        self.assertEqual([one.body for one in self.pulled(pair)], [b"%d" % number for number in range(30)])
        self.assertEqual(pair.followed.topics.wrapper(), pair.broker.topics.wrapper())
        self.assertEqual(pair.followed.groups.wrapper(), pair.broker.groups.wrapper())
        self.assertEqual(pair.followed.offsets.query("CG", "T", 0), 12)
        now = pair.followed.replication.now()
        self.assertEqual((now.role, now.state, now.reason, now.behind), ("SLAVE", SlaveState.FOLLOWING, "", 0))
        self.assertEqual((now.master, now.tables_reason), ("127.0.0.1:10912", ""))
        (seen,) = pair.broker.replication.now().slaves
        self.assertEqual(seen.confirmed, pair.broker.store.log_bounds()[1])

    def test_held(self) -> None:
        """A pull that a slave holds is answered as soon as the message has come from the master."""
        pair = self.start()
        pair.send("T", b"1")
        pair.pump(4.0)
        found: list[Any] = []
        pair.client.ask(SLAVE, pull_command("T", 0, 1, sys_flag=6), 30.0).addBoth(found.append)
        pair.pump(1.0)
        self.assertEqual(found, [])
        pair.send("T", b"2")
        pair.pump(0.1)
        self.assertEqual([one.body for answer in found for one in records(answer.body)], [b"2"])

    def test_route(self) -> None:
        """The registry gives clients both addresses, each under its broker id."""
        pair = self.start()
        pair.send("T")
        answer = pair.ask(Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic="T")), REGISTRY)
        (broker,) = TopicRouteData.decode(answer.body).broker_datas
        self.assertEqual(broker.broker_addrs, {0: BROKER, 1: SLAVE})

    def test_fixed(self) -> None:
        """Without a registry, the address of the master's port for slaves is enough."""
        pair = self.start({"namesrvAddr": "", "haMasterAddress": "127.0.0.1:10912"})
        pair.send("T", b"here")
        pair.pump(4.0)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"here"])

    def test_started_first(self) -> None:
        """A slave that was started before its master follows it some seconds after that is there."""
        pair = self.start()
        pair.stop_slave()
        pair.stop_master()
        pair.start_slave()
        pair.pump(5.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.NO_MASTER)
        pair.start_master()
        pair.send("T", b"here")
        pair.pump(5.0)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"here"])

    def test_asks_again(self) -> None:
        """While no master is known the registries are asked again every 3 s, and not once one is."""
        pair = self.start()
        pair.stop_slave()
        pair.stop_master()
        pair.start_slave()
        following = pair.followed.replication
        assert isinstance(following, SlaveReplication)
        asked: list[float] = []
        following.master_wanted.add(lambda: asked.append(pair.env.clock.seconds()))
        pair.pump(10.0)
        self.assertIn(len(asked), (3, 4))
        pair.start_master()
        pair.pump(5.0)
        del asked[:]
        pair.pump(10.0)
        self.assertEqual((following.now().state, asked), (SlaveState.FOLLOWING, []))

    def test_tables_at_once(self) -> None:
        """The tables are asked for as soon as the log is followed, not 3 s after the start."""
        pair = self.start()
        pair.pump(1.0)
        self.assertGreaterEqual(pair.followed.replication.now().tables_ms, 0)

    def test_moved(self) -> None:
        """A master is followed as long as it is there, whatever registries say; then whom they say."""
        pair = self.start()
        elsewhere = Registered("127.0.0.1:20911", "127.0.0.1:20912")
        pair.followed.replication.registered(elsewhere)
        pair.pump(1.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
        pair.stop_master()
        pair.followed.replication.registered(Registered(None, None))
        self.assertEqual(pair.followed.replication.now().master, "127.0.0.1:10912")
        pair.followed.replication.registered(elsewhere)
        self.assertEqual(pair.followed.replication.now().master, "127.0.0.1:20912")

    def test_own_address(self) -> None:
        """A slave that is said to be its own master follows nobody."""
        pair = self.start()
        pair.stop_master()
        pair.followed.replication.registered(Registered(SLAVE, "127.0.0.1:10922"))
        self.assertEqual(pair.followed.replication.now().master, "127.0.0.1:10912")

    def test_restart(self) -> None:
        """A slave that was stopped goes on where it was, and a master that was stopped is followed again."""
        pair = self.start()
        pair.send("T", b"1")
        pair.pump(4.0)
        pair.stop_slave()
        pair.send("T", b"2")
        pair.start_slave()
        self.assertEqual([one.body for one in self.pulled(pair)], [b"1", b"2"])
        pair.stop_master()
        self.assertNotIn(pair.followed.replication.now().state, (SlaveState.FOLLOWING, SlaveState.CATCHING_UP))
        pair.start_master()
        pair.send("T", b"3")
        pair.pump(45.0, step=0.5)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"1", b"2", b"3"])
        self.assertEqual(*pair.logs())

    def test_delayed(self) -> None:
        """Delayed messages are delivered by the master alone; the slave knows how far that has come."""
        pair = self.start()
        pair.send("T", b"later", properties={"DELAY": "1"})
        pair.pump(15.0)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"later"])
        self.assertEqual(*pair.logs())
        self.assertEqual(pair.followed.delay.offsets, pair.broker.delay.offsets)
        self.assertEqual(pair.followed.delay.offsets[1], 1)
        pair.pump(11.0)
        self.assertEqual(pair.followed.progress.load()[1], 1)

    def test_deleted_topic(self) -> None:
        """A topic that is deleted and made anew has the same messages on both."""
        pair = self.start()
        for number in range(3):
            pair.send("T", b"old %d" % number)
        pair.pump(11.0)
        pair.broker.topics.delete("T")
        pair.broker.store.delete_topic("T")
        pair.pump(11.0)
        self.assertEqual(pair.ask(pull_command("T"), SLAVE).code, ResponseCode.TOPIC_NOT_EXIST)
        pair.send("T", b"new")
        pair.pump(11.0)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"new"])

    def test_deleted_and_made_anew(self) -> None:
        """Made anew before the slave hears that it was deleted, a topic keeps what is not on the slave's disk yet."""
        pair = self.start({"haAckMode": "flush", "flushDiskType": "SYNC_FLUSH"})
        pair.send("T", b"old")
        pair.pump(11.0)
        replicator: Any = cast("Any", pair.followed.replication).replicator
        ask = replicator._ask_at
        told: Deferred[None] = Deferred()

        async def slow(address: str, request: Command, timeout: float) -> Command:
            answer: Command = await ask(address, request, timeout)
            if request.code == RequestCode.GET_ALL_TOPIC_CONFIG:
                await told
            return answer

        self.patch(replicator, "_ask_at", lambda *asked: ensureDeferred(slow(*asked)))
        pair.broker.topics.delete("T")
        pair.broker.store.delete_topic("T")
        pair.pump(10.1)
        pair.env.threads.held.add("flush")
        pair.send("T", b"new", queue_id=1)
        pair.pump(0.2)
        self.assertEqual(*pair.logs())
        self.assertEqual(pair.followed.store.bounds("T", 1), (0, 0))
        told.callback(None)
        pair.pump()
        self.assertNotIn("T", pair.followed.topics)
        pair.env.threads.held.discard("flush")
        pair.env.threads.release("flush")
        pair.pump(11.0)
        self.assertEqual(pair.followed.store.bounds("T", 0), (0, 0))
        self.assertEqual([one.body for one in records(pair.ask(pull_command("T", 1), SLAVE).body)], [b"new"])


class FailoverTests(PairCase):
    """The master goes, and comes back."""

    def test_serves_alone(self) -> None:
        """Without its master the slave serves pulls and offsets, and refuses sends; what was new is there as well."""
        pair = self.start()
        pair.send("T", b"1")
        pair.pump(4.0)
        pair.send("NEW", b"2")  # after the last copy of the tables
        pair.pump()
        pair.stop_master()
        self.assertEqual([one.body for one in self.pulled(pair)], [b"1"])
        self.assertEqual([one.body for one in self.pulled(pair, "NEW")], [b"2"])
        self.assertEqual(pair.ask(send_command("T"), SLAVE).code, ResponseCode.SERVICE_NOT_AVAILABLE)
        self.commit(pair, "CG", 1)
        query = Command.request(RequestCode.QUERY_CONSUMER_OFFSET, QueryOffsetRequest("CG", "T", 0))
        self.assertEqual(pair.ask(query, SLAVE).read(OffsetResponse).offset, 1)

    def commit(self, pair: Pair, group: str, offset: int) -> None:
        """Commit to the slave."""
        request = UpdateOffsetRequest(consumer_group=group, topic="T", queue_id=0, commit_offset=offset)
        self.assertEqual(pair.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, request), SLAVE).code, 0)

    def test_merge_back(self) -> None:
        """What groups committed to the slave the master has when it is back, over a restart of the slave, too."""
        pair = self.start()
        for number in range(9):
            pair.send("T", b"%d" % number)
        pair.broker.offsets.commit("CG", "T", 0, 4)
        pair.pump(14.0)
        pair.stop_master()
        self.commit(pair, "CG", 8)
        self.commit(pair, "OTHER", 2)
        pair.stop_slave()
        pair.start_slave()
        pair.start_master()
        self.assertEqual(pair.broker.offsets.query("CG", "T", 0), 4)
        pair.pump(45.0, step=0.5)
        for broker in pair.broker, pair.followed:
            self.assertEqual(broker.offsets.query("CG", "T", 0), 8)
            self.assertEqual(broker.offsets.query("OTHER", "T", 0), 2)

    def test_beyond(self) -> None:
        """Alone, the slave holds a pull for what it does not have: an answer would bring the same question at once."""
        pair = self.start()
        pair.send("T")
        pair.pump(4.0)
        self.assertEqual(pair.ask(pull_command("T", 0, 5, sys_flag=6), SLAVE).code, 20)
        pair.stop_master()
        found: list[Any] = []
        pair.client.ask(SLAVE, pull_command("T", 0, 5, sys_flag=6, suspend_timeout_millis=5000), 30.0).addBoth(
            found.append
        )
        pair.pump(4.0)
        self.assertEqual(found, [])
        pair.pump(2.0)
        self.assertEqual([one.code for one in found], [20])

    def test_empty_master(self) -> None:
        """A master that lost its disk empties neither log nor tables of its slave, which says that they differ."""
        pair = self.start()
        for number in range(5):
            pair.send("T", b"%d" % number)
        pair.pump(11.0)
        pair.stop_master()
        pair.env.files.remove_tree("/store")
        pair.start_master()
        pair.pump(70.0, step=0.5)
        now = pair.followed.replication.now()
        self.assertEqual(now.state, SlaveState.DIVERGED)
        self.assertIn("our log goes to", now.reason)
        self.assertEqual(now.behind, -1)
        self.assertEqual(len(self.pulled(pair)), 5)
        self.assertIn("T", pair.followed.topics)

    def test_promotion(self) -> None:
        """
        After the loss of the master's disk the slave's store is that of a master: all is there, it takes messages, and
        the old master follows it as an empty slave.
        """
        pair = self.start()
        for number in range(5):
            pair.send("T", b"%d" % number)
        pair.broker.offsets.commit("CG", "T", 0, 3)
        pair.pump(11.0)
        pair.stop_master()
        pair.stop_slave()
        pair.env.files.remove_tree("/store")
        pair.start_master(storePathRootDir="/slave")
        pair.settings["storePathRootDir"] = "/store"
        pair.start_slave()
        self.assertEqual(pair.broker.offsets.query("CG", "T", 0), 3)
        self.assertEqual(pair.send("T", b"5").code, 0)
        pair.pump(11.0)
        self.assertEqual([one.body for one in self.pulled(pair)], [b"%d" % number for number in range(6)])
        self.assertEqual(*pair.logs())
        self.assertEqual(pair.followed.offsets.query("CG", "T", 0), 3)

    def test_promotion_behind(self) -> None:
        """A slave that lacks messages which groups have read goes on as a master so that they miss none of the new."""
        pair = self.start()
        for number in range(5):
            pair.send("T", b"%d" % number)
        pair.pump(11.0)
        self.commit(pair, "CG", 9)  # the master's log had these, ours did not
        pair.stop_master()
        pair.stop_slave()
        pair.start_master(storePathRootDir="/slave")
        for number in range(9):
            pair.send("T", b"new %d" % number)
        offset = pair.broker.offsets.query("CG", "T", 0)
        assert offset is not None
        answer = pair.ask(pull_command("T", 0, offset))
        self.assertEqual([one.body for one in records(answer.body)], [b"new %d" % number for number in range(9)])

    def test_two_slaves(self) -> None:
        """Several slaves may follow one master."""
        pair = self.start()
        other = Broker(
            pair.env,
            pair.configure({**SLAVE_SETTINGS, "brokerId": "2", "listenPort": "10931", "storePathRootDir": "/other"}),
            sweeper_of(pair.env.clock),
        )
        other.startService()
        pair.pump(1.0)
        self.assertEqual(pair.send("T").code, 0)
        pair.pump(1.0)
        self.assertEqual(log(opened(other)), log(pair.broker))
        self.assertEqual(len(pair.broker.replication.now().slaves), 2)
        other.stopService()
        pair.pump(7.0)


class SyncMasterTests(PairCase):
    """A SYNC_MASTER waits for its slave."""

    def test_waits(self) -> None:
        """A send is answered when the slave has it; a batch when it has all of it."""
        pair = self.start(brokerRole="SYNC_MASTER")
        self.assertEqual(pair.send("T", b"1").code, 0)
        self.assertEqual(*pair.logs())

    def test_no_slave(self) -> None:
        """Without a slave the answer is 11 at once, and the message is stored; with WAIT=false it is 0."""
        pair = self.start(brokerRole="SYNC_MASTER")
        pair.stop_slave()
        answer = pair.send("T", b"1")
        self.assertEqual((answer.code, answer.remark), (ResponseCode.SLAVE_NOT_AVAILABLE, "slave not available"))
        self.assertEqual(answer.fields["queueOffset"], "0")
        self.assertEqual(pair.send("T", b"2", properties={"WAIT": "false"}).code, 0)
        self.assertEqual([one.body for one in pair.pull("T")[1]], [b"1", b"2"])

    def test_slow_slave(self) -> None:
        """A slave that takes nothing makes a send wait slaveTimeout, and be answered 12."""
        pair = self.start(brokerRole="SYNC_MASTER", slaveTimeout="2000")
        pair.send("T", b"1")
        self.patch(Stream, "report", lambda stream: None)
        found: list[Any] = []
        pair.client.ask(BROKER, send_command("T", b"2"), 10.0).addBoth(found.append)
        pair.pump(1.9)
        self.assertEqual(found, [])
        pair.pump(0.3)
        self.assertEqual((found[0].code, found[0].remark), (ResponseCode.FLUSH_SLAVE_TIMEOUT, "flush slave timeout"))

    def test_flushed(self) -> None:
        """With haAckMode=flush a send is answered when it is on the slave's disk, and that is at once."""
        for mode, durable in (("append", False), ("flush", True)):
            pair = self.start({"haAckMode": mode}, brokerRole="SYNC_MASTER")
            pair.pump(2)  # the copied delivery positions are saved, for which the slave flushes
            began = pair.env.clock.seconds()
            self.assertEqual(pair.send("T").code, 0)
            self.assertLess(pair.env.clock.seconds() - began, 0.3)
            store = pair.followed.store
            self.assertEqual(store.flushed == store.log_bounds()[1], durable, mode)

    def test_batch(self) -> None:
        """A batch is answered when a slave has its last message; one that asks not to wait is not held up."""
        pair = self.start(brokerRole="SYNC_MASTER")
        self.patch(Stream, "report", lambda stream: None)
        body = encode_items([(0, b"%d" % number, b"") for number in range(3)])
        for wait, code in (("true", ResponseCode.FLUSH_SLAVE_TIMEOUT), ("false", 0)):
            properties = {"WAIT": wait}
            found: list[Any] = []
            request = send_command("T", body, code=RequestCode.SEND_BATCH_MESSAGE, properties=properties)
            pair.client.ask(BROKER, request, 10.0).addBoth(found.append)
            pair.pump()
            self.assertEqual(len(found), int(wait == "false"))
            pair.pump(3.1)
            self.assertEqual(found[0].code, code)

    def test_internal(self) -> None:
        """Messages given back, and delayed ones when they are due, are stored without waiting for a slave."""
        pair = self.start(brokerRole="SYNC_MASTER")
        pair.stop_slave()
        pair.send("T", properties={"DELAY": "1"})
        back = SendBackRequest(offset=0, group="CG", delay_level=1, origin_msg_id="", origin_topic="T", unit_mode=False)
        self.assertEqual(pair.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code, 0)
        pair.pump(2.0)
        self.assertEqual(len(pair.pull("T")[1]), 1)


class AdvertisedTests(PairCase):
    """A master that slaves find elsewhere."""

    def test_told(self) -> None:
        """A slave follows its master at the address that is advertised for where it asks the registry from."""
        pair = self.start(brokerIP2="192.0.2.1", haAdvertisedAddresses="127.0.0.0/8=localhost:10912")
        pair.send("T")
        pair.pump(1.0)
        now = pair.followed.replication.now()
        self.assertEqual((now.state, now.master), (SlaveState.FOLLOWING, "localhost:10912"))
        (seen, _) = pair.registry.routes.brokers()
        self.assertEqual(seen.ha_address, "192.0.2.1:10912")


class AllowedTests(SynchronousTestCase):
    """The peers that may replicate where none is named (reliability X6)."""

    def test_default(self) -> None:
        """This machine alone while nobody else reaches the port, else everybody; those named, and no others."""
        self.assertEqual(allowed(HaConfig(ha_bind_address="127.0.0.1")), THIS_MACHINE)
        self.assertEqual(allowed(HaConfig(ha_bind_address="0.0.0.0")), ())
        named = HaConfig(ha_bind_address="127.0.0.1", ha_allow=("10.0.0.0/8",))
        self.assertEqual(allowed(named), ("10.0.0.0/8",))


class TailTests(PairCase):
    """The question before the stream."""

    def ask(self, pair: Pair, begin: int, end: int, address: str = BROKER) -> Command:
        """Ask it."""
        return pair.ask(Command.request(RequestCode.GET_LOG_TAIL, TailRequest(begin=begin, end=end)), address)

    def test_answer(self) -> None:
        """A master tells its bounds, and the CRC of what it has; on the fast port, too; a slave refuses it."""
        pair = self.start()
        pair.send("T")
        minimum, end = pair.broker.store.log_bounds()
        for address in BROKER, FAST:
            answer = self.ask(pair, minimum, end, address).read(TailAnswer)
            self.assertEqual((answer.minimum, answer.end), (minimum, end))
            self.assertEqual(answer.crc, self.successResultOf(pair.broker.store.crc(minimum, end)))
        self.assertIsNone(self.ask(pair, 0, 0).read(TailAnswer).crc)
        self.assertIsNone(self.ask(pair, end, end + 1).read(TailAnswer).crc)
        refused = self.ask(pair, 0, 0, SLAVE)  # 3 would say that the slave is a RocketMQ broker
        self.assertEqual((refused.code, refused.remark), (ResponseCode.SYSTEM_ERROR, "a slave cannot be followed"))

    def test_unreadable(self) -> None:
        """A range that the disk does not give is answered without a CRC, and with a warning, not as a bug."""
        pair = self.start()
        pair.send("T")
        minimum, end = pair.broker.store.log_bounds()
        self.patch(pair.broker.store._raw_log, "crc", lambda *_: fail(OSError(errno.EIO, "Input/output error")))
        with capturedLogs() as logs:
            answer = self.ask(pair, minimum, end)
        self.assertEqual((answer.code, answer.read(TailAnswer).crc), (ResponseCode.SUCCESS, None))
        self.assertEqual(
            [one["log_level"].name for one in logs if "cannot be read" in str(one["log_format"])], ["warn"]
        )

    def test_refused(self) -> None:
        """A range that is none, or too long, is refused, and so is whoever may not replicate (reliability X6)."""
        pair = self.start()
        for begin, end in ((-1, 5), (5, 4), (0, 65537)):
            self.assertEqual(self.ask(pair, begin, end).code, ResponseCode.SYSTEM_ERROR)
        other = self.start(haAllow="10.0.0.0/8")
        other.send("T")
        other.pump(11.0)
        answer = self.ask(other, 0, 0)
        self.assertEqual(answer.code, ResponseCode.NO_PERMISSION)
        self.assertIn("haAllow", answer.remark or "")
        now = other.followed.replication.now()
        self.assertEqual((now.state, now.tables_ms), (SlaveState.CONNECTING, -1))
        self.assertIn("haAllow", now.reason)
        self.assertEqual(other.broker.replication.now(), Replicated("ASYNC_MASTER", []))
