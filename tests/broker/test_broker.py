"""The start and the stop of a broker."""

from __future__ import annotations

from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment


class StopTests(SynchronousTestCase):
    def test_during_recovery(self) -> None:
        """A broker told to stop while its store is being recovered gives that up, and opens no port."""
        env = FakeEnvironment()
        env.threads.held.add("prepare")
        cluster = Cluster(env)
        self.assertNoResult(cluster.broker.ready)
        stopping = cluster.broker.stopService()
        env.threads.held.clear()
        while env.threads.release("prepare"):
            cluster.pump()
        self.successResultOf(stopping)
        self.assertEqual(list(env.network.ports), [9876])
        self.assertEqual(env.files.locks, set())

    def test_silent_registry(self) -> None:
        """A registry that never answers does not hold up the stop of a broker that waits for it."""
        env = FakeEnvironment()
        env.network.listen("tcp:9999", Factory.forProtocol(Protocol))
        cluster = Cluster(env, namesrvAddr="127.0.0.1:9999")
        self.assertNoResult(cluster.broker.ready)
        stopping = cluster.broker.stopService()
        cluster.pump(3.5)
        self.successResultOf(stopping)
