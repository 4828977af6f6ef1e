"""A master and a slave with a network in memory between them."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.master import Master, MasterSettings
from smartgo.ha.slave import Slave, SlaveSettings
from smartgo.net.link import Link
from smartgo.store.replicatedlog import IReplicatedLog
from tests.fakes import FakeEnvironment
from tests.ha.fakes import FakeLog, FakeTail, Said
from tests.remoting.doubles import sweeper_of

PORT = 10912
HERE = f"127.0.0.1:{PORT}"
MAIN = "127.0.0.1:10911"


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that differ from place to place."""
    return Random(seed).randbytes(size)


def accept(master: Master, address: Any) -> Link | None:
    """Let a peer come to the port of a master."""
    return master._listener._ports[0].buildProtocol(address)


class PairCase(SynchronousTestCase):
    """
    Holds a network in memory, and that nothing is left in it at the end.

    @ivar there: the master's log, 1000 bytes in files of 400.
    @ivar here: the slave's, empty.
    @ivar tail: asks the master's log at L{MAIN}.
    """

    def setUp(self) -> None:
        """Nobody is there yet."""
        self.env = FakeEnvironment()
        self.clock = self.env.clock
        self.said = Said()
        self.sweeper = sweeper_of(self.clock)
        self.sweeper.peer_warnings = self.said
        self.there = FakeLog(noise(1000), file_size=400)
        self.here = FakeLog()
        self.tail = FakeTail({MAIN: self.there})
        self._services: list[Master | Slave] = []

    def make_master(self, log: IReplicatedLog | None = None, **options: Any) -> Master:
        """Start a master that listens at L{HERE}, of C{there} unless told otherwise."""
        tls, admits = options.pop("tls", None), options.pop("admits", None)
        log = self.there if log is None else log
        master = Master(self.env, log, f"tcp:{PORT}", self.sweeper, MasterSettings(**options), tls, admits)
        master.startService()
        self._services.append(master)
        return master

    def make_slave(self, log: IReplicatedLog | None = None, **options: Any) -> Slave:
        """Start a slave of the master at L{HERE}, of C{here} unless told otherwise."""
        tls = options.pop("tls", None)
        log = self.here if log is None else log
        slave = Slave(self.env, log, self.tail, self.sweeper, SlaveSettings(**options), tls)
        slave.startService()
        slave.follow(HERE, MAIN)
        self._services.append(slave)
        self.settle()
        return slave

    def settle(self, seconds: float = 0.0, step: float = 1.0) -> None:
        """Let time go by in steps, and bytes and turns in each until all is quiet."""
        while True:
            for _ in range(8):
                self.env.network.pump()
                self.clock.advance(0)
            if seconds <= 0:
                return
            self.clock.advance(min(step, seconds))
            seconds -= step

    def stop(self, service: Master | Slave) -> None:
        """Stop one of them."""
        stopping = service.stopService()
        self.settle(1)
        self.successResultOf(stopping)

    def tearDown(self) -> None:
        """Nothing is left when all have stopped."""
        for service in reversed(self._services):
            self.stop(service)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.env.network.ports, {})
