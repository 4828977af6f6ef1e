"""Tests of L{smartgo.ha.master} and L{smartgo.ha.slave}, one with the other."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.ha.interfaces import IFollowing, IMasterTail, IReplicating, SlaveState
from smartgo.ha.master import Master
from smartgo.ha.slave import Slave
from tests.fakes import FakeEnvironment
from tests.ha.fakes import FakeLog, FakeTail, Said
from tests.ha.test_transfer import noise

HERE = "127.0.0.1:10912"
MAIN = "127.0.0.1:10911"


class PairTests(SynchronousTestCase):
    """A slave follows a master."""

    def setUp(self) -> None:
        """A master that listens, and a slave with nothing."""
        self.env = FakeEnvironment()
        self.said = Said()
        self.there = FakeLog(noise(1000), file_size=400)
        self.here = FakeLog()
        self.tail = FakeTail({MAIN: self.there})
        self.master = Master(self.env, self.there, "tcp:10912", self.said)
        self.slave = Slave(self.env, self.here, self.tail)
        self.master.startService()
        self.addCleanup(self.stop)

    def settle(self) -> None:
        """Let bytes and turns go by until all is quiet."""
        for _ in range(20):
            self.env.network.pump()
            self.env.clock.advance(0)

    def stop(self) -> None:
        """Nothing is left when both have stopped."""
        stopping = [self.slave.stopService(), self.master.stopService()]
        self.settle()
        for one in stopping:
            self.successResultOf(one)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.env.network.ports, {})

    def test_interfaces(self) -> None:
        """Both are what the broker knows them by."""
        verifyObject(IReplicating, self.master)
        verifyObject(IFollowing, self.slave)
        verifyObject(IMasterTail, self.tail)

    def test_follows(self) -> None:
        """An empty slave gets the newest file, then all that is written."""
        self.slave.startService()
        self.assertEqual((self.slave.state, self.slave.behind), (SlaveState.NO_MASTER, -1))
        self.slave.follow(HERE, MAIN)
        self.settle()
        self.assertEqual((self.slave.state, self.slave.reason, self.slave.behind), (SlaveState.FOLLOWING, "", 0))
        self.assertEqual((self.here.begin, bytes(self.here.data)), (800, bytes(self.there.data[800:])))
        self.there.append(noise(5000))
        self.settle()
        self.assertEqual(self.here.data, self.there.data[800:])
        self.assertEqual(self.master.confirmed, self.there.end)
        (seen,) = self.master.slaves()
        self.assertEqual((seen.confirmed, seen.sent), (6000, 6000))
        self.assertRegex(seen.address, r"^127\.0\.0\.1:\d+$")
