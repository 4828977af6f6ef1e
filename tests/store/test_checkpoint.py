"""Tests of L{smartgo.store.checkpoint} and L{smartgo.store.checkpointer}."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import ServiceNotAvailable
from smartgo.schema.checkpoint import Checkpoint as PeerCheckpoint
from smartgo.store.checkpoint import SLOT, CheckpointFiles, CheckpointSlot, QueueEntry, QueueTable, Timestamps
from smartgo.store.checkpointer import fresh_directories
from smartgo.store.interfaces import PutStatus
from smartgo.store.mappedfile import MappedFile
from smartgo.store.openstore import OpenStore
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, held, killed, message, power_off, small

OWN = f"{ROOT}/smartgo.checkpoint"
TABLE = f"{ROOT}/smartgo.queues"
PEER = f"{ROOT}/checkpoint"
ABORT = f"{ROOT}/abort"


def checkpoint(position: int, **changes: Any) -> CheckpointSlot:
    """Some checkpoint."""
    times = Timestamps(position + 1, position + 2, 3)
    return CheckpointSlot(False, position, position + 5, 7, 4096, 400, times, times)._replace(**changes)


class FreshDirectoriesTests(SynchronousTestCase):
    def test_order(self) -> None:
        """The directories of new files come once each, in the order of the files, whatever hashes the process has."""
        topics = [f"T{number}" for number in range(20)]
        files = [MappedFile(f"/q/{topic}/0/{0:020d}", 0, 400, fresh=topic != "T3") for topic in topics]
        expected = [f"/q/{topic}{queue}" for topic in topics if topic != "T3" for queue in ("/0", "")]
        expected.insert(2, "/q")
        self.assertEqual(fresh_directories(files), expected)


class CheckpointsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.env.files.make_directories(ROOT)
        self.checkpoints = self.fresh()

    def fresh(self) -> CheckpointFiles:
        """As after a start."""
        return CheckpointFiles(self.env.files, ROOT)

    def save(self, *positions: int) -> None:
        """Write checkpoints one after another."""
        self.checkpoints.load()
        self.checkpoints.open()
        for position in positions:
            self.checkpoints.save(checkpoint(position))
        self.checkpoints.close()

    def loaded(self) -> int | None:
        """The position of the checkpoint that is found."""
        found = self.fresh().load()
        return None if found is None else found.position

    def test_nothing(self) -> None:
        """Where nothing was written nothing is found."""
        self.assertIsNone(self.fresh().load())
        self.assertIsNone(self.fresh().load_table())
        self.assertEqual(self.fresh().load_peer(), (0, 0, 0))

    def test_all_fields(self) -> None:
        """What was written last is found, every field; RocketMQ's file has its timestamps and its length."""
        self.save(10, 20)
        expected = checkpoint(20, before=checkpoint(10).written)
        self.assertEqual(self.fresh().load(), expected)
        data = bytes(self.env.files.files[PEER].data)
        self.assertEqual(data, PeerCheckpoint(21, 22, 3).pack())
        self.assertEqual(len(self.env.files.files[OWN].data), 4096)
        slot = SLOT.parse(bytes(self.env.files.files[OWN].data[:120]))
        self.assertEqual((slot.magic, slot.position, slot.sequence), (b"SMARTGO1", 20, 2))

    def test_goes_on(self) -> None:
        """Later processes go on with the sequence."""
        for position in range(10, 80, 10):
            self.save(position)
            self.assertEqual(self.loaded(), position)

    def test_torn_slot(self) -> None:
        """Whichever byte of the newest slot is wrong, the one before is found; with both wrong none is."""
        self.save(10, 20)
        good = bytes(self.env.files.files[OWN].data)
        self.env.files.files[PEER].data[:24] = PeerCheckpoint(11, 12, 3).pack()[:24]  # it is written afterwards
        for at in range(124):
            data = self.env.files.files[OWN].data
            data[at] ^= 0x10
            self.assertEqual(self.loaded(), 10, at)
            data[2048 + at] ^= 0x10
            self.assertIsNone(self.loaded())
            self.env.files.files[OWN].data = bytearray(good)
        self.assertEqual(self.loaded(), 20)
        self.env.files.files[OWN].data = bytearray(good[:2100])
        self.assertEqual(self.loaded(), 20)

    def test_somebody_else(self) -> None:
        """Other timestamps in RocketMQ's file than ours, or those before, mean that the store was RocketMQ's since."""
        self.save(10, 20)
        for times, found in (((21, 22, 3), 20), ((11, 12, 3), 20), ((22, 22, 3), None), ((0, 0, 0), None)):
            self.env.files.files[PEER].data[:24] = PeerCheckpoint(*times).pack()[:24]
            self.assertEqual(self.loaded(), found)
        del self.env.files.files[PEER]
        self.assertEqual(self.loaded(), 20)

    def test_wrong_length(self) -> None:
        """A checkpoint file of a wrong length is made anew."""
        self.env.files.create(OWN, b"short")
        self.env.files.create(PEER, b"")
        self.save(10)
        self.assertEqual(self.loaded(), 10)

    def test_newer_fields(self) -> None:
        """What RocketMQ 5 keeps in its file beside the timestamps is left there."""
        self.env.files.create(PEER, PeerCheckpoint(1, 2, 3, 4, 5).pack())
        self.save(10)
        self.assertEqual(PeerCheckpoint.unpack(bytes(self.env.files.files[PEER].data)), (11, 12, 3, 4, 5))

    def test_table(self) -> None:
        """The table of queues comes back; with any byte wrong, or cut anywhere, it counts as missing."""
        table = QueueTable(77, 5, [QueueEntry("T", 1, 2, 3), QueueEntry("\u6807", 0, 0, 1 << 40)], {"gone": 9})
        self.checkpoints.save_table(table)
        self.assertEqual(self.fresh().load_table(), table)
        good = bytes(self.env.files.files[TABLE].data)
        for at in range(len(good)):
            for data in (good[:at], good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]):
                self.env.files.files[TABLE].data = bytearray(data)
                self.assertIsNone(self.fresh().load_table())


class CheckpointerTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def position(self, env: FakeEnvironment | None = None) -> int:
        """Position of the checkpoint on the disk."""
        found = CheckpointFiles((env or self.env).files, ROOT).load()
        assert found is not None
        return found.position

    def start(self, **changes: Any) -> OpenStore:
        """An open store."""
        return self.opened(self.env, small(**changes))

    def test_after_a_flush(self) -> None:
        """A checkpoint follows a flush, the next not within a second; at last all is in one, and nothing runs."""
        store = self.start()
        first = self.send(store, message()) and store.log_bounds()[1]
        self.assertEqual(self.position(), 0)
        self.env.clock.advance(0.5)
        self.assertEqual(self.position(), first)
        self.send(store, message())
        self.env.clock.advance(0.5)
        self.assertEqual((self.position(), store.flushed), (first, 2 * first))
        self.env.clock.advance(0.5)
        self.assertEqual(self.position(), 2 * first)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_many_bytes(self) -> None:
        """Enough bytes of log bring the next checkpoint before its time (S9)."""
        store = self.start(sync_flush=True, checkpoint_bytes=1000)
        self.send(store, message())
        for _ in range(30):
            self.send(store, message())
            self.assertLess(store.log_bounds()[1] - self.position(), 1000)

    def test_queues_first(self) -> None:
        """Before a checkpoint claims them, units are on the disk, and so are the names of new files."""
        store = self.start()
        self.env.files.synced_directories.clear()
        with held(self.env, "checkpoint"):
            self.send(store, message(), message(queue_id=1))
            self.env.clock.advance(0.5)
            self.assertEqual(self.position(), 0)
        for queue_id in (0, 1):
            file = self.env.files.files[f"{ROOT}/consumequeue/T/{queue_id}/{0:020d}"]
            self.assertEqual(file.synced, bytes(file.data))
            for directory in (f"/T/{queue_id}", "/T", ""):
                self.assertIn(f"{ROOT}/consumequeue{directory}", self.env.files.synced_directories)
        self.assertEqual(self.position(), store.log_bounds()[1])

    def test_only_what_is_flushed(self) -> None:
        """A checkpoint claims no more than what is flushed at its start, also while more is appended."""
        store = self.start()
        self.send(store, message())
        self.env.clock.advance(2)
        with held(self.env, "flush"):
            self.send(store, message())
            self.env.clock.advance(2)
            self.send(store, message())
        position = self.position()
        self.assertLess(position, store.log_bounds()[1])
        self.assertLessEqual(position, store.flushed)
        self.env.clock.pump([0.5] * 6)
        self.assertEqual(self.position(), store.log_bounds()[1])

    def test_refused_write(self) -> None:
        """A checkpoint claims nothing that the disk refused to take into a mapped file, though each sync succeeds."""
        store = self.start()
        self.send(store, message())
        self.env.clock.advance(2)
        position = self.position()
        self.send(store, message())
        self.env.files.refused_writes.append(f"{ROOT}/consumequeue/T/0/{0:020d}")
        saved = self.now(Deferred.fromCoroutine(store._checkpointer.save(table=True)))
        self.assertIs(saved, PutStatus.FLUSH_DISK_TIMEOUT)
        self.assertEqual(self.position(), position)
        self.assertRaises(ServiceNotAvailable, store.append, [message()])

    def test_table_never_ahead(self) -> None:
        """After a power failure the table of queues asks for nothing that was lost with the log."""
        store = self.start()
        for number in range(200):
            self.send(store, message(queue_id=number % 7))
            self.env.clock.advance(0.07)
            after = self.opened(power_off(self.env))
            for queue_id in range(7):
                self.assertEqual(len(self.bodies(after, queue_id=queue_id)), after.bounds("T", queue_id)[1])
            self.assertEqual(self.flushLoggedErrors(), [])

    def test_table_when_files_come(self) -> None:
        """The table is written when a queue gets a file, and not otherwise."""
        store = self.start()
        self.send(store, message())
        self.env.clock.advance(2)
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        self.assertEqual(table.queues, [QueueEntry("T", 0, 0, 1)])
        before = self.env.files.files[TABLE]
        self.send(store, *[message()] * 15)
        self.env.clock.advance(2)
        self.assertIs(self.env.files.files[TABLE], before)
        self.send(store, *[message()] * 15)
        self.env.clock.advance(2)
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        self.assertEqual(table.queues, [QueueEntry("T", 0, 0, 31)])

    def test_table_cannot_be_written(self) -> None:
        """Without room for the table the checkpoint waits, is tried again, and the store lives on."""
        store = self.start()
        self.env.files.fail[TABLE] = errno.ENOSPC
        self.send(store, message())
        self.env.clock.advance(0.5)
        self.assertEqual(self.position(), 0)
        self.assertEqual(self.now(store.flush()), PutStatus.FLUSH_DISK_TIMEOUT)
        self.send(store, message())
        self.env.files.fail.clear()
        self.env.clock.pump([1] * 6)
        self.assertEqual(self.position(), store.log_bounds()[1])
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_index_meanwhile(self) -> None:
        """A flush is answered when its checkpoint is written, though the index asks for another table meanwhile."""
        store = self.start()
        self.send(store, message())
        self.env.threads.held.add("checkpoint")
        flushed = store.flush()
        self.env.clock.advance(0.5)
        self.assertNoResult(flushed)
        for _ in range(3):
            store._checkpointer.index_changed()
            self.env.threads.release("checkpoint", 1)
        self.assertEqual(self.successResultOf(flushed), PutStatus.OK)
        self.assertEqual(self.position(), store.log_bounds()[1])

    def test_too_many_open_files(self) -> None:
        """A queue file that cannot be opened to be synced makes the checkpoint wait, not fail."""
        store = self.start(open_mappings=1)
        for queue_id in range(40):
            self.send(store, message(queue_id=queue_id))
        opens = self.env.files.map

        def refuse(path: str, writable: bool = True, scattered: bool = False) -> Any:
            raise OSError(errno.EMFILE, "Too many open files", path)

        self.patch(self.env.files, "map", refuse)
        self.env.clock.advance(0.5)
        self.assertEqual(self.position(), 0)
        self.patch(self.env.files, "map", opens)
        self.env.clock.pump([1] * 6)
        self.assertEqual(self.position(), store.log_bounds()[1])
        self.assertIsNone(store.refusal)

    def test_many_files(self) -> None:
        """However many queues were written to, few of their files are open at a time, and each is synced once."""
        store = self.start(open_mappings=20)
        mappings = store._checkpointer._mappings
        pinned: list[int] = []
        synced: list[str] = []
        pin = mappings.pin

        def counted(file: MappedFile) -> Any:
            found = pin(file)
            pinned.append(sum(one.pins for one in mappings._open))
            synced.append(file.path)
            return found

        self.patch(mappings, "pin", counted)
        for stop in (False, True):
            synced.clear()
            for queue_id in range(100):
                self.send(store, message(queue_id=queue_id))
            if stop:
                self.now(store.close())
            else:
                self.env.clock.advance(0.5)
                files = [file for queue in store._checkpointer._queues for file in queue.files.files]
                self.assertEqual(([file.fresh for file in files], len(files)), ([False] * 100, 100))
            self.assertEqual(self.position(), store.log_bounds()[1])
            queues = [path for path in synced if "consumequeue" in path]
            self.assertEqual((len(queues), len(set(queues))), (100, 100))
            self.assertLess(max(pinned), 20)

    def test_written_back(self) -> None:
        """Many files are written back together, once, before each is synced; few are not."""
        store = self.start(open_mappings=20)
        for count, expected in ((2, []), (100, [f"{ROOT}/consumequeue/T/0"])):
            for queue_id in range(count):
                self.send(store, message(queue_id=queue_id))
            self.env.clock.advance(2)
            self.assertEqual(self.position(), store.log_bounds()[1])
            self.assertEqual(self.env.files.written_back, expected)

    def test_removed_meanwhile(self) -> None:
        """Files of a topic that is deleted while others are synced are left out, and the checkpoint is written."""
        store = self.start(open_mappings=20)
        for queue_id in range(40):
            self.send(store, message(queue_id=queue_id))
            if queue_id == 14:
                self.send(store, *(message("Gone", queue_id=queue_id) for queue_id in range(4)))
        with capturedLogs() as events, held(self.env, "checkpoint"):
            self.env.clock.advance(0.5)
            gone = store.delete_topic("Gone")
        self.assertEqual((self.position(), store.refusal), (store.log_bounds()[1], None))
        self.env.clock.pump([1] * 6)
        self.successResultOf(gone)
        self.assertEqual([event for event in events if event["log_level"] >= LogLevel.warn], [])

    def test_opened_later(self) -> None:
        """Where files cannot be opened midway the rest is synced later; a power cut loses nothing after that."""
        store = self.start(open_mappings=20)
        for queue_id in range(40):
            self.send(store, message(queue_id=queue_id))
        opens = self.env.files.map
        left = [25]

        def refuse(path: str, writable: bool = True, scattered: bool = False) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.EMFILE, "Too many open files", path)
            return opens(path, writable, scattered)

        self.patch(self.env.files, "map", refuse)
        self.env.clock.advance(0.5)
        self.assertEqual(self.position(), 0)
        self.patch(self.env.files, "map", opens)
        self.env.clock.pump([1] * 6)
        self.assertEqual(self.position(), store.log_bounds()[1])
        again = self.opened(power_off(self.env), small())
        self.assertEqual([again.bounds("T", queue_id) for queue_id in range(40)], [(0, 1)] * 40)

    def test_stop_fails(self) -> None:
        """A stop in which no checkpoint can be written, the one under way included, leaves no call behind."""
        store = self.start()
        self.send(store, message())
        self.env.clock.advance(2)
        with held(self.env, "checkpoint"):
            self.send(store, message("U"))
            self.env.clock.advance(1.5)
            self.env.files.fail[TABLE] = errno.ENOSPC
            stopping = store.close()
            self.assertNoResult(stopping)
        self.failureResultOf(stopping, OSError)
        self.assertEqual((self.env.clock.getDelayedCalls(), self.env.files.mappings), ([], []))
        self.assertIn(ABORT, self.env.files.files)

    def test_nothing_after_the_lock(self) -> None:
        """No checkpoint or table is written once the directory is let go, whatever was asked for during the stop."""
        for fails in (False, True):
            env = self.env = FakeEnvironment()
            store = self.start()
            self.send(store, message())
            env.clock.advance(2)
            writes: list[bool] = []
            for method in ("save", "save_table"):
                original = getattr(CheckpointFiles, method)

                def noted(one: CheckpointFiles, *args: Any, _original: Any = original) -> None:
                    writes.append(ROOT in env.files.locks)  # noqa: B023
                    _original(one, *args)

                self.patch(CheckpointFiles, method, noted)
            env.threads.held.add("checkpoint")
            self.send(store, message("U"))
            env.clock.advance(1.5)
            if fails:
                env.files.fail[TABLE] = errno.ENOSPC
            stopping = store.close()
            asked = [Deferred.fromCoroutine(store._checkpointer.save(table=True)) for _ in range(2)]
            while env.threads.release("checkpoint", 1):
                pass
            for one in asked:
                self.assertEqual(self.successResultOf(one), PutStatus.FLUSH_DISK_TIMEOUT)
            stopping.addErrback(lambda failure: failure.trap(OSError) and None)
            self.successResultOf(stopping)
            env.clock.advance(60)
            self.assertNotEqual(writes, [])
            self.assertNotIn(False, writes)
            self.assertEqual((env.clock.getDelayedCalls(), env.files.mappings, env.files.locks), ([], [], set()))

    def test_rockets_timestamps(self) -> None:
        """RocketMQ's file tells the store times that its recovery may count on."""
        store = self.start()
        self.env.clock.advance(10)
        self.send(store, message())
        self.env.clock.advance(2)
        self.assertEqual(CheckpointFiles(self.env.files, ROOT).load_peer(), (EPOCH_MS + 10_000, EPOCH_MS + 10_000, 0))

    def test_clean_stop(self) -> None:
        """A stop writes the exact table and a clean checkpoint, and takes the marker away at last."""
        store = self.start()
        self.assertIn(ABORT, self.env.files.files)
        self.assertEqual(bytes(self.env.files.files[ABORT].data), b"")
        self.fill(store, 50, queues=3)
        end = store.log_bounds()[1]
        self.stopped(store)
        self.assertNotIn(ABORT, self.env.files.files)
        found = CheckpointFiles(self.env.files, ROOT).load()
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert found is not None
        assert table is not None
        self.assertEqual((found.clean, found.position, found.flushed), (True, end, end))
        self.assertEqual([one.next_offset for one in table.queues], [17, 17, 16])
        self.assertEqual(table.position, end)
        after = power_off(self.env)
        self.assertEqual(self.opened(after).log_bounds()[1], end)

    def test_stop_while_writing(self) -> None:
        """A stop waits for the checkpoint under way."""
        store = self.start()
        self.send(store, message())
        self.env.threads.held.add("checkpoint")
        self.env.clock.advance(0.5)
        stopping = store.close()
        self.assertNoResult(stopping)
        self.env.threads.release("checkpoint", 1)
        self.assertIn(ABORT, self.env.files.files)
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.successResultOf(stopping)
        self.assertNotIn(ABORT, self.env.files.files)
        self.assertEqual(self.opened(killed(self.env)).bounds("T", 0), (0, 1))
