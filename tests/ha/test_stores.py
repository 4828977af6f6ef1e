"""Replication between the stores of two brokers."""

from __future__ import annotations

from random import Random

from twisted.internet.defer import Deferred

from smartgo.ha.interfaces import SlaveState
from smartgo.schema.record import encode
from smartgo.store.interfaces import PutStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.ha.pair import HERE, MAIN, PairCase
from tests.ha.torn import SECTOR
from tests.store.stores import ROOT, content, killed, message, power_off, small


class StoresTests(PairCase):
    """A master's store and a slave's, on a machine each, which the network and the time join."""

    def setUp(self) -> None:
        """Two empty machines; stores are small, and nearly all of their logs is thought to be on the disk."""
        super().setUp()
        self.far = FakeEnvironment()
        self.share(self.far)
        self.env.host.memory = self.far.host.memory = 1 << 10
        self._stores: list[OpenStore] = []

    def share(self, machine: FakeEnvironment) -> None:
        """Join a machine to the others."""
        machine.clock = self.clock
        machine.network = self.env.network

    def open(self, machine: FakeEnvironment, replica: bool = False) -> OpenStore:
        """Open the store there is on a machine."""
        store = self.successResultOf(open_store(machine, ROOT, small(replica=replica)))
        self._stores.append(store)
        return store

    def tearDown(self) -> None:
        """Stores stop after what replicates them."""
        services, self._services = self._services, []
        for service in reversed(services):
            self.stop(service)
        for store in self._stores:
            self.successResultOf(store.close())
        super().tearDown()

    def send(self, store: OpenStore, random: Random) -> None:
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
        there.add_ack_policy(master)
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

    def torn(self, there: OpenStore) -> FakeEnvironment:
        """The machine of a slave that had all of the master's log, whose power failure tore the head of a record."""
        while -there.log_bounds()[1] % SECTOR != 80:
            end = there.log_bounds()[1]
            probe = len(encode(message(body=b""), 0, 0, EPOCH_MS))
            there.append([message(body=b"f" * ((-80 - end - probe) % SECTOR))])
            there.end_run()
        start = there.log_bounds()[1]
        there.append([message(body=b"torn", reconsume_times=3, prepared_offset=77)])
        there.append([message(body=b"after")])
        there.end_run()
        log = b""
        while len(log) < there.log_bounds()[1]:
            log += bytes(self.successResultOf(there.piece_cold(len(log), 1 << 20)))
        here = self.open(self.far, replica=True)
        here.append_raw(0, log[: start + 66])
        self.clock.advance(1)
        here.append_raw(start + 66, log[start + 66 :])
        after = killed(self.far)
        self.share(after)
        (path,) = (path for path in self.far.files.files if path.startswith(f"{ROOT}/commitlog/"))
        sector = start // SECTOR * SECTOR
        synced = self.far.files.files[path].synced[sector : sector + SECTOR]
        after.files.files[path].data[sector : sector + SECTOR] = synced
        return after

    def test_torn_head(self) -> None:
        """A slave whose own power failure tore a record's head is its master's equal again, by itself."""
        there = self.open(self.env)
        self.make_master(there)
        self.tail.logs[MAIN] = there
        there.append([message(body=b"first")])
        there.end_run()
        machine = self.torn(there)
        here = self.open(machine, replica=True)
        self.assertLess(here.doubtful_from, here.log_bounds()[1])
        slave = self.make_slave(here)
        self.assertEqual(slave.state, SlaveState.CONNECTING)
        self.assertIn("torn", slave.reason)
        there.append([message(body=b"later")])
        there.end_run()
        self.settle(2)
        self.assertEqual((slave.state, slave.behind), (SlaveState.FOLLOWING, 0), slave.reason)
        for store in (here, there):
            flushing = store.flush()
            self.settle(2)
            self.successResultOf(flushing)
        self.assertEqual(content(machine, "commitlog"), content(self.env, "commitlog"))
        self.assertEqual(content(machine, "consumequeue"), content(self.env, "consumequeue"))

    def test_torn_head_of_another_history(self) -> None:
        """Where more than a torn head differs, the slave stops as before, and changes nothing."""
        there = self.open(self.env)
        self.make_master(there)
        self.tail.logs[MAIN] = there
        there.append([message(body=b"first")])
        there.end_run()
        machine = self.torn(there)
        here = self.open(machine, replica=True)
        end = here.log_bounds()[1]
        window, base, _ = there._commitlog.window(end - 1)
        window[end - 1 - base] ^= 1  # in the last record
        before = content(machine, "commitlog", "consumequeue")
        slave = self.make_slave(here)
        for _ in range(3):
            self.assertEqual(slave.state, SlaveState.DIVERGED)
            self.assertIn("differ between", slave.reason)
            self.settle(60)
        self.assertEqual(content(machine, "commitlog", "consumequeue"), before)
        window[end - 1 - base] ^= 1
        self.settle(63)
        self.assertEqual((slave.state, slave.behind), (SlaveState.FOLLOWING, 0), slave.reason)

    def test_killed_slave_compares(self) -> None:
        """A slave that was killed compares what it had not flushed, and confirms it as it is compared."""
        there = self.open(self.env)
        master = self.make_master(there, batch=100)
        self.tail.logs[MAIN] = there
        there.append([message(body=b"first")])
        there.end_run()
        here = self.open(self.far, replica=True)
        slave = self.make_slave(here)
        self.settle(3)
        self.send(there, Random(4))
        self.settle()
        self.assertEqual(here.log_bounds(), there.log_bounds())
        machine = killed(self.far)
        self.share(machine)
        self.stop(slave)
        self._services.remove(slave)
        here = self.open(machine, replica=True)
        begin, end = here.doubtful_from, here.log_bounds()[1]
        self.assertTrue(0 < begin < end)
        slave = self.make_slave(here)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)
        self.assertEqual((here.doubtful_from, master.slaves()[-1].confirmed), (end, end))
