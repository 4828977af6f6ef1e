"""Tests of L{smartgo.store.recovery.repair}: a slave whose own power failure tore a record's head."""

from __future__ import annotations

from typing import Any

from smartgo.errors import LogsDiffer, LogTorn, ServiceNotAvailable
from smartgo.ha.doubt import Doubt
from smartgo.schema.record import encode
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.queuerebuild import QueueRebuild
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.ha.torn import SECTOR, crossing, filled
from tests.store.stores import ROOT, StoreTestCase, content, killed, message, power_off, small


def log_with(left: int, topic: str = "T", queue_id: int = 0) -> tuple[bytes, int, bytes]:
    """A log, where the record in it is whose head is torn, and that record; some records follow it."""
    log = b""
    for number in range(3):
        log += encode(message(topic, queue_id), number, len(log), EPOCH_MS)
    log += filled(log, left, topic, queue_id, 3)
    start = len(log)
    record = crossing(log, left, topic, queue_id, 4)
    log += record
    for number in range(5, 8):
        log += encode(message(topic, queue_id), number, len(log), EPOCH_MS)
    return log, start, record


class RepairTests(StoreTestCase):
    def slave(self, env: FakeEnvironment, **changes: Any) -> OpenStore:
        """A slave's store."""
        return self.opened(env, small(replica=True, **changes))

    def torn(self, log: bytes, start: int, flushed: int, **changes: Any) -> FakeEnvironment:
        """A slave that flushed that much of the record at C{start}, and lost its power when it had the whole log."""
        env = FakeEnvironment()
        slave = self.slave(env, **changes)
        slave.append_raw(0, log[: start + flushed])
        env.clock.advance(1)
        self.assertEqual(slave.flushed, start + flushed)
        slave.append_raw(start + flushed, log[start + flushed :])
        after = killed(env)
        (path,) = (path for path in env.files.files if path.startswith(f"{ROOT}/commitlog/"))
        sector = start // SECTOR * SECTOR
        after.files.files[path].data[sector : sector + SECTOR] = env.files.files[path].synced[sector : sector + SECTOR]
        return after

    def compared(self, slave: OpenStore, log: bytes) -> dict[int, bytes]:
        """Compare with the master's log; what is torn."""
        doubt = Doubt(slave, slave.doubtful_from)
        try:
            doubt.take(memoryview(log)[doubt.position :])
        except LogTorn as error:
            return dict(error.records)
        slave.believe()
        return {}

    def expected(self, log: bytes, **changes: Any) -> dict[str, bytes]:
        """The files of a slave that lost nothing."""
        env = FakeEnvironment()
        slave = self.slave(env, **changes)
        slave.append_raw(0, log)
        env.clock.advance(1)
        self.stopped(slave)
        return content(env, "commitlog", "consumequeue")

    def check(self, env: FakeEnvironment, log: bytes, what: object = "", **changes: Any) -> None:
        """A slave on this machine can be made its master's equal, and is."""
        slave = self.slave(env, **changes)
        if slave.doubtful_from < slave.log_bounds()[1] and (found := self.compared(slave, log)):
            self.now(slave.repair(found))
        slave.append_raw(slave.log_bounds()[1], log[slave.log_bounds()[1] :])
        env.clock.advance(1)
        self.assertEqual(slave.doubtful_from, slave.log_bounds()[1])
        self.stopped(slave)
        self.same(content(env, "commitlog", "consumequeue"), self.expected(log, **changes), what)
        again = self.slave(env, **changes)
        self.assertEqual(again.doubtful_from, again.log_bounds()[1])
        self.stopped(again)

    def test_each_field(self) -> None:
        """Whatever part of the head is gone, log and queues are the master's after the repair."""
        repaired = 0
        for left, flushed in ((33, 17), (34, 13), (34, 21), (40, 20), (72, 64), (76, 65), (80, 66), (84, 77), (90, 84)):
            for queue_id in (0, 3):
                log, start, _ = log_with(left, queue_id=queue_id)
                for after_flush in (False, True):
                    env = self.torn(log, start, flushed, dispatch_after_flush=after_flush)
                    slave = self.slave(killed(env), dispatch_after_flush=after_flush)
                    if slave.log_bounds()[1] > start:  # else recovery has seen it
                        repaired += 1
                        self.assertLessEqual(slave.doubtful_from, start)
                        self.assertEqual([*self.compared(slave, log)], [start])
                    self.check(env, log, (left, flushed, queue_id), dispatch_after_flush=after_flush)
        self.assertGreater(repaired, 20)

    def test_doubt_stays(self) -> None:
        """Until it was compared it stays in doubt, however often the slave is stopped or killed meanwhile."""
        log, start, record = log_with(80)
        env = self.torn(log, start, 66)
        for end in (killed, power_off, None, killed, None, None):
            slave = self.slave(env)
            self.assertEqual((slave.doubtful_from <= start, slave.log_bounds()[1]), (True, len(log)), end)
            self.assertEqual(self.compared(slave, log), {start: record})
            if end is None:
                self.stopped(slave)
            env.clock.advance(3)
            env = (end or killed)(env)
        self.check(env, log)

    def test_doubt_stays_while_queues_are_made_anew(self) -> None:
        """A start that fails while it makes queues anew leaves in doubt what was."""
        log, start, record = log_with(80)
        env = self.torn(log, start, 66)
        env.clock.advance(2)
        for path in content(env, "consumequeue"):
            env.files.remove(path)

        def fail(*args: object) -> None:
            raise OSError(5, "Input/output error")

        patch = self.patch(QueueRebuild, "make_anew", fail)
        self.failureResultOf(open_store(env, ROOT, small(replica=True)), OSError)
        patch.restore()
        slave = self.slave(killed(env))
        self.assertEqual(self.compared(slave, log), {start: record})

    def test_master_doubts_nothing(self) -> None:
        """A slave that becomes a master believes what it has."""
        log, start, _ = log_with(80)
        env = self.torn(log, start, 66)
        master = self.opened(env)
        self.assertEqual(master.doubtful_from, master.log_bounds()[1])
        env.clock.advance(3)
        slave = self.slave(killed(env))
        self.assertEqual(slave.doubtful_from, slave.log_bounds()[1])

    def test_believed(self) -> None:
        """What was compared and is equal is not in doubt any more, after the next flush for good."""
        env = FakeEnvironment()
        slave = self.slave(env)
        log, _, _ = log_with(80)
        half = len(log) - 100
        slave.append_raw(0, log[:half])
        env = killed(env)
        slave = self.slave(env)
        self.assertEqual(slave.doubtful_from, 0)
        self.assertEqual(self.compared(slave, log), {})
        self.assertEqual(slave.doubtful_from, slave.log_bounds()[1])
        slave.append_raw(slave.log_bounds()[1], log[slave.log_bounds()[1] :])
        env.clock.advance(2)
        slave = self.slave(killed(env))
        self.assertEqual((slave.doubtful_from, slave.log_bounds()[1]), (len(log), len(log)))

    def test_over_files(self) -> None:
        """What is in doubt goes over several log files, with blanks between them, of any length."""
        for size in (1000, 1024, 3001):
            source = FakeEnvironment()
            master = self.opened(source, small(log_file_size=size))
            for number in range(60):
                self.send(master, message(body=b"b" * (number * 41 % 300)))
            end = master.log_bounds()[1]
            log = b"".join(bytes(self.now(master.piece_cold(base, size))) for base in range(0, end, size))
            self.stopped(master)
            env = FakeEnvironment()
            slave = self.slave(env, log_file_size=size)
            slave.append_raw(0, log)
            slave = self.slave(killed(env), log_file_size=size)
            self.assertEqual((slave.doubtful_from, slave.log_bounds()[1]), (0, end))
            self.assertEqual(self.compared(slave, log), {})
            self.assertEqual(slave.doubtful_from, end)

    def test_killed_on_the_way(self) -> None:
        """A repair that a kill or a power failure ends anywhere can be done again."""
        log, start, _ = log_with(34, queue_id=3)
        for held in ((), ("checkpoint",), ("flush",), ("checkpoint", "flush")):
            for end in (killed, power_off):
                env = self.torn(log, start, 13)
                slave = self.slave(env)
                found = self.compared(slave, log)
                self.assertEqual([*found], [start])
                env.threads.held.update(held)
                repairing = slave.repair(found)
                if "checkpoint" in held:
                    self.assertNoResult(repairing)
                else:
                    self.now(repairing)
                self.check(end(env), log, (held, end))
                env.threads.held.clear()
                for lane in held:
                    env.threads.release(lane)
                if "checkpoint" in held:
                    self.now(repairing)
                self.check(end(env), log, (held, end))
                self.stopped(slave)
                self.same(content(env, "commitlog", "consumequeue"), self.expected(log))

    def test_stopped_on_the_way(self) -> None:
        """A stop in the middle of a repair ends in order; the rest is done after the next start."""
        log, start, _ = log_with(80)
        env = self.torn(log, start, 66)
        slave = self.slave(env)
        found = self.compared(slave, log)
        env.threads.held.add("checkpoint")
        repairing = slave.repair(found)
        stopping = slave.close()
        env.threads.held.clear()
        env.threads.release("checkpoint")
        self.now(stopping)
        self.failureResultOf(repairing)
        self.check(env, log)

    def test_flush_on_the_way(self) -> None:
        """What is flushed while the checkpoint is written does not count for what is put right then."""
        log, start, _ = log_with(80)
        env = self.torn(log, start, 66)
        slave = self.slave(env)
        found = self.compared(slave, log)
        env.threads.held.add("checkpoint")
        repairing = slave.repair(found)
        flushing = slave.flush()
        env.clock.advance(1)
        env.threads.held.clear()
        env.threads.release("checkpoint")
        self.now(repairing)
        self.assertLessEqual(slave.flushed, start)
        env.clock.advance(1)
        self.now(flushing)
        self.assertEqual(slave.flushed, len(log))
        self.check(power_off(env), log)

    def test_twice(self) -> None:
        """Two repairs of the same do no more than one."""
        log, start, _ = log_with(80)
        env = self.torn(log, start, 66)
        slave = self.slave(env)
        found = self.compared(slave, log)
        env.threads.held.add("checkpoint")
        repairs = [slave.repair(found) for _ in range(2)]
        env.threads.held.clear()
        env.threads.release("checkpoint")
        for one in repairs:
            self.now(one)
        self.assertEqual(len(self.bodies(slave)), 8)
        self.stopped(slave)

    def test_refused(self) -> None:
        """What is no record, or one of another length, is not put anywhere; nor where newer log files follow."""
        log, start, record = log_with(80)
        env = self.torn(log, start, 66)
        slave = self.slave(env)
        before = content(env, "commitlog", "consumequeue")
        other = encode(message(), 4, start, EPOCH_MS)
        for wrong in (b"", other, other + record[len(other) :], log[start + len(record) :]):
            self.failureResultOf(slave.repair({start: wrong}), LogsDiffer)
        self.same(content(env, "commitlog", "consumequeue"), before)
        self.assertLessEqual(slave.doubtful_from, start)
        self.stopped(slave)
        self.failureResultOf(slave.repair({start: record}), ServiceNotAvailable)

    def test_no_checkpoint(self) -> None:
        """Where the disk takes no checkpoint nothing is put right."""
        log, start, record = log_with(80)
        env = self.torn(log, start, 66)
        slave = self.slave(env)
        env.files.sync_error = 5
        self.failureResultOf(slave.repair({start: record}), ServiceNotAvailable)
        self.assertNotEqual(bytes(slave.stored(start, len(record))), record)

    def test_files_follow(self) -> None:
        """A torn record with newer log files behind it is left as it is."""
        env = FakeEnvironment()
        master = self.opened(env, small(log_file_size=1024))
        for _ in range(20):
            self.send(master, message())
        self.stopped(master)
        slave = self.slave(env, log_file_size=1024)
        end = slave.log_bounds()[1]
        self.assertGreater(end, 1024)
        slave._checkpointer.doubtful_from = 0
        first = bytes(slave.stored(0, int.from_bytes(slave.stored(0, 4), "big")))
        self.failureResultOf(slave.repair({0: first}), LogsDiffer)
        self.assertEqual((slave.log_bounds()[1], len(self.bodies(slave))), (end, 20))
        self.stopped(slave)
