"""The start and the stop of a broker."""

from __future__ import annotations

import errno

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.broker.settings.changes import Who
from smartgo.broker.states import BrokerState
from smartgo.errors import SmartgoError
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import REGISTRY, Cluster
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of


class NotOpenTests(SynchronousTestCase):
    """A broker whose store is still being recovered."""

    def test_asked(self) -> None:
        """What has no answer yet is answered as of a broker that does not serve."""
        env = FakeEnvironment()
        env.threads.held.add("prepare")
        cluster = Cluster(env)
        broker = cluster.service
        self.assertIsNone(broker.opened)
        self.assertIs(broker.state, BrokerState.OPENING)
        env.threads.held.clear()
        while env.threads.release("prepare"):
            cluster.pump()
        self.successResultOf(broker.ready)
        self.assertIs(broker.state, BrokerState.READY)
        self.assertEqual((cluster.broker.registries_without_us, cluster.broker.is_without_master()), (0, False))
        self.assertIsNone(cluster.broker.registries_informed())
        cluster.stop()
        self.assertIs(broker.state, BrokerState.STOPPED)

    def test_kept_settings(self) -> None:
        """Settings that were kept over a restart are in force, with no warning, before the store is open."""
        env = FakeEnvironment()
        cluster = Cluster(env)
        self.successResultOf(cluster.service.ready)
        changes = [("maxTopics", "1234"), ("autoCreateTopicEnable", "false")]
        done = cluster.broker.settings.change(changes, Who("boss", "192.0.2.7"), True)
        cluster.pump(1.0)
        self.successResultOf(done)
        cluster.stop()
        again = Broker(env, cluster.configuration, sweeper_of(env.clock))
        with capturedLogs() as events:
            for _, load in again.tables:
                load()
        self.assertEqual([formatEvent(event) for event in events if event["log_level"] is not LogLevel.info], [])
        config = again.settings.configuration
        self.assertEqual((config.limits.max_topics, config.broker.auto_create_topic_enable), (1234, False))

    def test_scrub_rate(self) -> None:
        """The rate of the scrub follows its setting, while the broker runs and when it starts again."""
        cluster = Cluster()
        self.assertEqual(cluster.broker.store.scrub.rate, 1 << 20)
        cluster.broker.settings.change([("scrubRate", "5MiB")], Who("boss", "192.0.2.7"), True)
        self.assertEqual(cluster.broker.store.scrub.rate, 5 << 20)
        cluster.pump(1.0)
        cluster.stop()
        again = Cluster(cluster.env)
        self.assertEqual(again.broker.store.scrub.rate, 5 << 20)
        again.stop()


class StopTests(SynchronousTestCase):
    def test_twice(self) -> None:
        """Who stops a broker that is being stopped hears of the same end, and nothing is stopped twice."""
        cluster = Cluster()
        first, second = cluster.service.stopService(), cluster.service.stopService()
        self.assertIs(cluster.service.state, BrokerState.STOPPING)
        cluster.pump(7.0)
        self.assertIsNone(self.successResultOf(first))
        self.assertIsNone(self.successResultOf(second))
        self.assertIs(cluster.service.state, BrokerState.STOPPED)
        self.successResultOf(cluster.service.ready)
        cluster.stop()

    def test_never_started(self) -> None:
        """A broker that was never started stops, and cannot be started any more."""
        env = FakeEnvironment()
        cluster = Cluster(env)
        other = Broker(env, cluster.configure({"storePathRootDir": "/other"}), cluster.sweeper)
        self.successResultOf(other.stopService())
        other.startService()
        cluster.pump(1.0)
        self.assertIs(other.state, BrokerState.STOPPED)
        self.assertNoResult(other.ready)
        cluster.stop()

    def test_port_taken(self) -> None:
        """A broker whose port is taken has failed: it says so, and can be stopped."""
        cluster = Cluster()
        other = Broker(cluster.env, cluster.configure({"storePathRootDir": "/other"}), cluster.sweeper)
        other.startService()
        cluster.pump(1.0)
        self.failureResultOf(other.ready)
        self.assertIs(other.state, BrokerState.FAILED)
        stopping = other.stopService()
        cluster.pump(7.0)
        self.successResultOf(stopping)
        self.assertIs(other.state, BrokerState.STOPPED)
        self.assertEqual(cluster.send("T").code, 0)
        cluster.stop()

    def test_store_not_opened(self) -> None:
        """A broker whose store cannot be opened is stopped by whoever hears that, at once, and nothing else fails."""
        cluster = Cluster()
        threads = cluster.env.threads
        threads.held.add("prepare")
        cluster.env.files.make_directories("/other/commitlog")
        cluster.env.files.create("/other/commitlog/0000000000000001*", b"x")
        other = Broker(cluster.env, cluster.configure({"storePathRootDir": "/other"}), cluster.sweeper)
        stopping = Deferred.fromCoroutine(self.run_until_failed(other))
        other.startService()
        self.assertNoResult(stopping)
        threads.held.clear()
        while threads.release("prepare"):
            cluster.pump()
        cluster.pump(7.0)
        self.assertIn("is not a CommitLog file", self.successResultOf(stopping))
        self.assertIs(other.state, BrokerState.STOPPED)
        cluster.stop()

    async def run_until_failed(self, broker: Broker) -> str:
        """Wait for a broker's start; stop it in the same turn of the reactor in which that failed; return why."""
        try:
            await broker.ready
        except SmartgoError as error:
            await broker.stopService()
            return str(error)
        return ""

    def test_during_recovery(self) -> None:
        """A broker told to stop while its store is being recovered gives that up, and opens no port."""
        env = FakeEnvironment()
        env.threads.held.add("prepare")
        cluster = Cluster(env)
        self.assertNoResult(cluster.service.ready)
        stopping = cluster.service.stopService()
        env.threads.held.clear()
        while env.threads.release("prepare"):
            cluster.pump()
        self.successResultOf(stopping)
        self.assertEqual(list(env.network.ports), [9876])
        self.assertEqual(env.files.locks, set())

    def test_store_failed(self) -> None:
        """A broker that ends because its store failed leaves its registries as one that dies, not as one stopped."""
        for word, noted in (("exit", False), ("readonly", True)):
            env = FakeEnvironment()
            cluster = Cluster(env, flushDiskType="SYNC_FLUSH", onStoreError=word)
            ended: list[str] = []
            self.patch(cluster.service, "_on_store_failed", ended.append)
            env.files.sync_error = errno.EIO
            cluster.send("T")
            cluster.pump(1.0)
            env.files.sync_error = 0
            self.assertEqual(len(ended), not noted)
            cluster.service.stopService()
            cluster.pump(7.0)
            info = cluster.ask(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO), REGISTRY).body
            found = ClusterInfo.decode(info)
            self.assertEqual((found.broker_addr_table, found.unregistered is not None), ({}, noted), word)
            cluster.stop()
            self.flushLoggedErrors()

    def test_silent_registry(self) -> None:
        """A registry that never answers does not hold up the stop of a broker that waits for it."""
        env = FakeEnvironment()
        env.network.listen("tcp:9999", Factory.forProtocol(Protocol))
        cluster = Cluster(env, namesrvAddr="127.0.0.1:9999")
        self.assertNoResult(cluster.service.ready)
        stopping = cluster.service.stopService()
        cluster.pump(3.5)
        self.successResultOf(stopping)


class ReadyTests(SynchronousTestCase):
    def said(self, env: FakeEnvironment) -> str:
        """The line at the end of a start."""
        with capturedLogs() as events:
            cluster = Cluster(env)
            self.successResultOf(cluster.service.ready)
            self.addCleanup(cluster.stop)
        (line,) = [one for one in map(formatEvent, events) if "store /store" in str(one)]
        return str(line)

    def test_ready(self) -> None:
        """A broker that takes messages is ready; one that takes none says so and why in the same line."""
        self.assertIn("broker broker-a is ready at 127.0.0.1:", self.said(FakeEnvironment()))

    def test_takes_nothing(self) -> None:
        """A broker whose disk is full is not called ready."""
        env = FakeEnvironment()
        env.files.total = 1 << 40
        env.files.free = 1 << 28
        said = self.said(env)
        self.assertIn("and takes no messages: ", said)
        self.assertNotIn("ready", said)
