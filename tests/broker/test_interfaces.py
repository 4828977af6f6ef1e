"""The interface of a broker to processors, stages, the REST API and gateways."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.broker import Broker
from smartgo.broker.interfaces import IBroker, IBrokerService, ISendStage
from smartgo.broker.stages.sendstages import send_stages
from tests.broker.doubles import FakeBroker
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment


class ProvidedTests(SynchronousTestCase):
    """The providers of the interfaces."""

    def test_broker(self) -> None:
        """A broker offers all of it once its store is open."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        verifyObject(IBroker, cluster.broker)
        self.assertEqual((cluster.broker.is_slave, cluster.broker.is_without_master()), (False, False))
        self.assertIsNone(cluster.broker.registries_informed())
        verifyObject(IBroker, FakeBroker())

    def test_service(self) -> None:
        """A broker that was not started has its settings, and none of what needs the store."""
        env = FakeEnvironment()
        cluster = Cluster(env)
        service = Broker(env, cluster.configure({"storePathRootDir": "/other"}), cluster.sweeper)
        verifyObject(IBrokerService, service)
        self.assertIsNone(service.opened)
        self.assertEqual(service.settings.current.broker.broker_name, "broker-a")
        self.assertIs(cluster.service.opened, cluster.broker)
        cluster.stop()
        verifyObject(IBroker, cluster.broker)  # it can be asked after the stop too

    def test_stages(self) -> None:
        """Every stage of a broker is one."""
        for stage in send_stages(FakeBroker()):
            verifyObject(ISendStage, stage)
