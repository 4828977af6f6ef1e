"""Replication between the stores of two brokers."""

from __future__ import annotations

from random import Random

from twisted.internet.defer import Deferred

from smartgo.ha.interfaces import SlaveState
from smartgo.store.interfaces import PutStatus
from smartgo.store.messagestore import MessageStore
from tests.fakes import FakeEnvironment
from tests.ha.pair import HERE, MAIN, PairCase
from tests.store.stores import ROOT, content, killed, message, power_off, small


class StoresTests(PairCase):
    """A master's store and a slave's, on a machine each, which the network and the time join."""

    def setUp(self) -> None:
        """Two empty machines; stores are small, and nearly all of their logs is thought to be on the disk."""
        super().setUp()
        self.far = FakeEnvironment()
        self.share(self.far)
        self.env.host.memory = self.far.host.memory = 1 << 10
        self._stores: list[MessageStore] = []

    def share(self, machine: FakeEnvironment) -> None:
        """Join a machine to the others."""
        machine.clock = self.clock
        machine.network = self.env.network

    def open(self, machine: FakeEnvironment, replica: bool = False) -> MessageStore:
        """Open the store there is on a machine."""
        store = MessageStore(machine, ROOT, small(replica=replica))
        self.successResultOf(store.open())
        store.startService()
        self._stores.append(store)
        return store

    def tearDown(self) -> None:
        """Stores stop after what replicates them."""
        services, self._services = self._services, []
        for service in reversed(services):
            self.stop(service)
        for store in self._stores:
            self.successResultOf(store.stopService())
        super().tearDown()

    def send(self, store: MessageStore, random: Random) -> None:
        """Append some messages, in a run."""
        for _ in range(random.randrange(1, 12)):
            store.append([message(random.choice("TUV"), random.randrange(3), random.randbytes(random.randrange(900)))])
        store.end_run()

    def follow(self, seed: int) -> None:
        """Let a slave follow, be killed or lose its power, and follow again."""
        random = Random(seed)
        there = self.open(self.env)
        self.make_master(there, batch=random.choice([100, 1000, 32768]))
        self.tail.logs[MAIN] = there
        there.append([message()])  # else a slave that is empty yet begins with a later file
        there.end_run()
        machine = self.far
        for _ in range(4):
            here = self.open(machine, replica=True)
            slave = self.make_slave(here, ack_flushed=random.random() < 0.5)
            for _ in range(random.randrange(6)):
                self.send(there, random)
                self.settle(random.choice([0, 0, 1]))
            if random.random() < 0.5:
                self.send(there, random)  # and end in the middle of it
            self.stop(slave)
            self._services.remove(slave)
            machine = random.choice([killed, power_off])(machine)
            self.share(machine)
        here = self.open(machine, replica=True)
        slave = self.make_slave(here)
        self.send(there, random)
        self.settle(3)
        self.assertEqual((slave.state, slave.behind), (SlaveState.FOLLOWING, 0), slave.reason)
        for store in (here, there):
            flushing = store.flush()
            self.settle(2)
            self.successResultOf(flushing)
        self.assertEqual(content(machine, "commitlog"), content(self.env, "commitlog"))
        self.assertEqual(content(machine, "consumequeue"), content(self.env, "consumequeue"))

    def test_equal(self) -> None:
        """However often a slave is killed or loses its power, its log and queues become those of the master."""
        for seed in range(12):
            self.follow(seed)
            self.tearDown()
            self.setUp()

    def test_sync(self) -> None:
        """A send of a SYNC_MASTER is safe when the slave has it, which goes by itself."""
        there, here = self.open(self.env), self.open(self.far, replica=True)
        master = self.make_master(there, sync=True)
        there.demand(master)
        self.tail.logs[MAIN] = there

        def sent() -> Deferred[PutStatus]:
            waiting = there.durable(there.append([message()]))
            there.end_run()
            assert waiting is not None
            return waiting

        self.assertEqual(self.successResultOf(sent()), PutStatus.SLAVE_NOT_AVAILABLE)
        slave = self.make_slave(here)
        waiting = sent()
        self.assertNoResult(waiting)
        self.settle()
        self.assertEqual(self.successResultOf(waiting), PutStatus.OK)
        slave.follow(None, None)
        self.settle()
        self.assertEqual(self.successResultOf(sent()), PutStatus.SLAVE_NOT_AVAILABLE)

    def test_lost_suffix(self) -> None:
        """A master that lost what it had not flushed, and its slave had, is followed no further."""
        there, here = self.open(self.env), self.open(self.far, replica=True)
        master = self.make_master(there)
        self.tail.logs[MAIN] = there
        slave = self.make_slave(here)
        there.append([message(body=b"lost")])
        there.end_run()
        self.settle()
        self.assertEqual(here.log_bounds(), there.log_bounds())
        again = power_off(self.env)  # before half a second is over
        self.share(again)
        self.stop(master)
        self._services.remove(master)
        self.tail.logs[MAIN] = there = self.open(again)
        self.make_master(there)
        self.settle(5)
        self.assertEqual((slave.state, slave.master), (SlaveState.DIVERGED, HERE))
        self.assertGreater(here.log_bounds()[1], there.log_bounds()[1])
