"""What a broker offers to processors, stages, the REST API and gateways."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.stages.sendstages import send_stages
from tests.broker.doubles import FakeBroker
from tests.broker.fakecluster import Cluster


class ProvidedTests(SynchronousTestCase):
    """Who provides the interfaces."""

    def test_broker(self) -> None:
        """A broker offers all of it once its store is open."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        verifyObject(IBroker, cluster.broker)
        self.assertEqual((cluster.broker.is_slave, cluster.broker.is_without_master()), (False, False))
        self.assertIsNone(cluster.broker.registries_informed())
        verifyObject(IBroker, FakeBroker())

    def test_stages(self) -> None:
        """Every stage of a broker is one."""
        for stage in send_stages(FakeBroker()):
            verifyObject(ISendStage, stage)
