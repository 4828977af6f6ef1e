"""Tests of L{smartgo.store.recovery.recovery}, L{smartgo.store.storelayout} and L{smartgo.store.recovery.logscan}."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from twisted.logger import capturedLogs, formatEvent

from smartgo.errors import ForeignFile, StoreError
from smartgo.schema import regions
from smartgo.schema.checkpoint import Checkpoint as PeerCheckpoint
from smartgo.schema.message import pack_host
from smartgo.schema.record import BLANK_SIZE, HEAD_SIZE, encode, encode_blank
from smartgo.store.checkpoint import CheckpointFiles, CheckpointSlot
from smartgo.store.messagestore import MessageStore
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery import logscan as walk
from smartgo.store.recovery import recovery
from smartgo.store.recovery.progress import RecoveredSoFar
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.fakes import FakeEnvironment, FakeFile
from tests.store.stores import (
    LOG_SIZE,
    ROOT,
    StoreTestCase,
    content,
    held,
    killed,
    message,
    power_off,
    small,
    with_golden,
)

SECTOR = 512
OWN_FILES = ("smartgo.checkpoint", "smartgo.queues", "checkpoint")


def log_path(base: int = 0) -> str:
    """Path of a log file."""
    return f"{ROOT}/commitlog/{base:020d}"


def copied(env: FakeEnvironment) -> FakeEnvironment:
    """The same machine, to be tried more than once."""
    return killed(env)


def data(env: FakeEnvironment) -> dict[str, bytes]:
    """All of a store that is worth comparing: log and queues."""
    return content(env, "commitlog", "consumequeue")


class RecoveryTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def start(self, env: FakeEnvironment, **changes: Any) -> OpenStore:
        """An open store on a machine."""
        return self.opened(env, small(**changes))

    def refused(self, env: FakeEnvironment, kind: type[StoreError], **changes: Any) -> StoreError:
        """A store that does not open, and leaves everything as it was and nothing open."""
        before = {path: bytes(file.data) for path, file in env.files.files.items()}
        error = self.failureResultOf(open_store(env, ROOT, small(**changes)), kind).value
        env.files.files.pop(f"{ROOT}/lock", None)
        before.pop(f"{ROOT}/lock", None)
        self.same({path: bytes(file.data) for path, file in env.files.files.items()}, before)
        self.assertEqual((env.files.mappings, env.files.locks), ([], set()))
        assert isinstance(error, kind)
        return error

    def whole(self, store: OpenStore, topic: str = "T", queues: int = 1) -> list[list[bytes]]:
        """The bodies of all queues of a topic."""
        return [self.bodies(store, topic, queue_id) for queue_id in range(queues)]


class KilledTests(RecoveryTestCase):
    """The process is gone, the page cache is not: nothing is lost (section 1 of the durability contract)."""

    def test_any_moment(self) -> None:
        """Whenever the process is killed, all that was appended is there, in log and queues, also in an open run."""
        store = self.start(self.env)
        sent: list[list[bytes]] = [[], [], []]
        for number in range(120):
            body = b"%d" % number * (number % 40)
            store.append([message(queue_id=number % 3, body=body)])
            sent[number % 3].append(body)
            if number % 4 == 3:
                store.end_run()
            if number % 7 == 0:
                self.env.clock.advance(0.3)
            after = self.start(copied(self.env))
            self.assertEqual(self.whole(after, queues=3), sent)
            self.assertEqual(after.log_bounds(), store.log_bounds())
            self.stopped(after)

    def test_goes_on(self) -> None:
        """After the recovery appends follow the last record, with the next offset, and all survives the next kill."""
        env = self.env
        sent: list[bytes] = []
        for number in range(12):
            store = self.start(env)
            self.assertEqual(self.bodies(store), sent)
            end = store.log_bounds()[1]
            appended = store.append([message(body=b"%d" % number)])
            store.end_run()
            self.assertIn(appended.offset, (end, end - end % LOG_SIZE + LOG_SIZE))
            self.assertEqual(appended.queue_offset, number * 21)
            sent += [b"%d" % number, *self.fill(store, 20)]
            env = killed(env)

    def test_many_queues(self) -> None:
        """Many changed queue files are written back together before each is synced, few are not."""
        self.patch(recovery, "AT_ONCE", 20)
        for queues, expected in ((20, []), (21, [f"{ROOT}/consumequeue"])):
            env = FakeEnvironment()
            store = self.start(env)
            for queue_id in range(queues):
                store.append([message(queue_id=queue_id)])
            store.end_run()
            env = killed(env)
            self.start(env)
            self.assertEqual(env.files.written_back, expected)
            files = {path: file for path, file in env.files.files.items() if "/consumequeue/" in path}
            self.assertEqual(len(files), queues)
            self.assertEqual([path for path, file in files.items() if bytes(file.data) != file.synced], [])

    def test_said(self) -> None:
        """An unclean stop is said in one line at the start, with the messages that were recovered; no clean one is."""
        with capturedLogs() as events:
            store = self.start(self.env)
            self.fill(store, 7)
            env = killed(self.env)
            store = self.start(env)
            self.fill(store, 2)
            self.stopped(store)
            self.start(env)
        (said,) = [one for one in events if "not stopped cleanly" in one["log_format"]]
        self.assertEqual((said["log_level"].name, said["count"]), ("warn", 7))
        self.assertGreater(said["size"], 7 * HEAD_SIZE)

    def test_said_of_nothing(self) -> None:
        """Where nothing was stored after the last checkpoint that is said, not that 0 messages were recovered."""
        self.start(self.env)
        with capturedLogs() as events:
            self.stopped(self.start(killed(self.env)))
        (said,) = [formatEvent(one) for one in events if "not stopped cleanly" in one["log_format"]]
        self.assertIn("not stopped cleanly; no message was stored after the last checkpoint (0 B of the log", said)

    def test_names_before_checkpoints(self) -> None:
        """
        The names of log files are durable before a checkpoint says that their content is: also before the checkpoint in
        the middle of a recovery that makes queues anew. Else the store would not open after a power failure then.
        """
        store = self.start(self.env)
        for number in range(LOG_SIZE // 300):
            store.append([message(body=b"%d" % number * 300)])
            if number == 2:
                store.end_run()
                self.env.clock.pump([1.0] * 5)  # a checkpoint
        store.end_run()
        self.assertGreater(store.log_bounds()[1], LOG_SIZE)
        env = killed(self.env)
        for path in [path for path in env.files.files if "/consumequeue/" in path]:
            env.files.remove(path)
        env.files.synced_directories.clear()
        saves: list[bool] = []
        save = CheckpointFiles.save

        def noted(checkpoints: CheckpointFiles, checkpoint: CheckpointSlot) -> None:
            saves.append(f"{ROOT}/commitlog" in env.files.synced_directories)
            save(checkpoints, checkpoint)

        self.patch(CheckpointFiles, "save", noted)
        self.stopped(self.start(env))
        self.assertGreater(len(saves), 2)
        self.assertTrue(all(saves), saves)

    def test_then_power_failure(self) -> None:
        """What a killed process left in the page cache is on the disk once the store is open again."""
        store = self.start(self.env)
        sent = self.fill(store, 1)
        self.env.clock.advance(2)
        with held(self.env, "flush"):
            sent += self.fill(store, 33)  # the queue's second file is begun
            env = killed(self.env)
        store = self.start(env)
        sent += self.fill(store, 1)
        env.clock.advance(2)
        self.assertEqual(self.bodies(self.start(power_off(env))), sent)

    def test_inside_a_copy(self) -> None:
        """Killed while a record is copied, at any byte: the end is before it, its bytes are saved and zeroed (F5)."""
        store = self.start(self.env)
        self.fill(store, 5)
        self.env.clock.advance(2)
        before = store.log_bounds()[1]
        store.append([message(body=b"the last one")])
        end = store.log_bounds()[1]
        for at in range(before, end):
            env = copied(self.env)
            env.files.files[log_path()].data[at:end] = bytes(end - at)
            torn = bytes(env.files.files[log_path()].data[before:end]).rstrip(b"\0")
            after = self.start(env)
            self.assertEqual((after.log_bounds()[1], len(self.bodies(after))), (before, 5))
            self.assertFalse(any(env.files.files[log_path()].data[before:]))
            saved = env.files.list(f"{ROOT}/quarantine")
            self.assertEqual(len(saved), 1 if torn else 0)
            if torn:
                self.assertTrue(saved[0].startswith(f"{before:020d}-"))
                self.assertEqual(env.files.read(f"{ROOT}/quarantine/{saved[0]}"), torn)
            self.fill(after, 3)
            self.assertEqual(len(self.bodies(after)), 8)

    def test_inside_a_batch(self) -> None:
        """Killed while a batch is copied, at any byte, record ends included: all of it is there or nothing (D12)."""
        for host in (bytes(8), pack_host("fe80::1", 1)):
            self.env = FakeEnvironment()
            store = self.start(self.env)
            self.fill(store, 3)
            before = store.log_bounds()[1]
            store.append([message(body=b"of a batch", born_host=host) for _ in range(4)])
            end = store.log_bounds()[1]
            for at in range(before, end):
                env = copied(self.env)
                env.files.files[log_path()].data[at:end] = bytes(end - at)
                after = self.start(env)
                self.assertEqual((after.log_bounds()[1], len(self.bodies(after))), (before, 3), at)
                self.assertFalse(any(env.files.files[log_path()].data[before:]))
            after = self.start(copied(self.env))
            self.assertEqual((after.log_bounds()[1], len(self.bodies(after))), (end, 7))

    def test_alike_is_no_batch(self) -> None:
        """Single messages that could not look more alike do not go with the torn one after them."""
        store = self.start(self.env)
        for _ in range(3):
            store.append([message(body=b"alike")])
        end = store.log_bounds()[1]
        self.env.files.files[log_path()].data[end - 1] = 0
        self.assertEqual(len(self.bodies(self.start(killed(self.env)))), 2)

    def test_at_the_end_of_a_file(self) -> None:
        """Killed right after a blank, with or without the next file, the store goes on in the next file."""
        store = self.start(self.env)
        self.send(store, message(body=b"x" * (LOG_SIZE - BLANK_SIZE - HEAD_SIZE - 14)))
        self.assertEqual(store.log_bounds()[1], LOG_SIZE - BLANK_SIZE)
        store.append([message()])
        env = copied(self.env)
        env.files.files[log_path(LOG_SIZE)].data = bytearray(LOG_SIZE)
        for gone in (False, True):
            after = copied(env)
            if gone:
                del after.files.files[log_path(LOG_SIZE)]
            store = self.start(after)
            self.assertEqual((store.log_bounds(), len(self.bodies(store))), ((0, LOG_SIZE), 1))
            self.assertEqual(self.send(store, message()), [LOG_SIZE])
            self.stopped(store)
            self.assertEqual(len(self.bodies(self.start(after))), 2)

    def test_in_small_pieces(self) -> None:
        """The log is read in pieces; where these end, and how long a record is, makes no difference."""
        store = self.start(self.env)
        sent = []
        for number in range(40):
            sent.append(b"%d" % number * (number * 37 % 900))
            self.send(store, message(body=sent[-1]))
        data = self.env.files.files[log_path(LOG_SIZE)].data
        for piece in (64, 100, 256, 1000, 4096):
            self.patch(walk, "_CHUNK", piece)
            self.assertEqual(self.bodies(self.start(copied(self.env))), sent)
            torn = copied(self.env)
            torn.files.files[log_path(LOG_SIZE)].data[2500:] = bytes(len(data) - 2500)
            after = self.start(torn)
            count = len(self.bodies(after))
            self.assertEqual(self.bodies(after), sent[:count])
            self.assertTrue(LOG_SIZE + 1500 < after.log_bounds()[1] <= LOG_SIZE + 2500)
            self.assertFalse(any(torn.files.files[log_path(LOG_SIZE)].data[after.log_bounds()[1] - LOG_SIZE :]))

    def test_begins_at_the_checkpoint(self) -> None:
        """Recovery reads the log from the checkpoint on, not from its beginning (S9, S11)."""
        store = self.start(self.env)
        self.fill(store, 100)
        self.env.clock.advance(2)
        self.fill(store, 5)
        env = killed(self.env)
        read: list[str] = []
        read_at = env.files.read_at

        def noted(path: str, offset: int, size: int) -> bytes:
            if "commitlog" in path and size > 1000:
                read.append(path)
            return read_at(path, offset, size)

        self.patch(env.files, "read_at", noted)
        after = self.start(env)
        self.assertNotIn(log_path(0), read)
        self.assertEqual(len(self.bodies(after)), 105)

    def test_progress(self) -> None:
        """A recovery that takes long says every five seconds how far it is, and how long it will still take."""
        store = self.start(self.env)
        self.fill(store, 300)
        self.env.clock.advance(2)
        self.stopped(store)
        del self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
        env = killed(self.env)
        read_at = env.files.read_at

        def slow(path: str, offset: int, size: int) -> bytes:
            if "commitlog" in path and size > 1000:
                env.clock.rightNow += 2.0
                now = service.recovered_so_far
                if now is not None and now.read_bytes:
                    seen.append(now)
            return read_at(path, offset, size)

        seen: list[RecoveredSoFar] = []
        self.patch(env.files, "read_at", slow)
        service = MessageStore(env, ROOT, small())
        with capturedLogs() as logs:
            service.startService()
        after = self.successResultOf(service.opened)
        self.addCleanup(service.stopService)
        self.assertGreater(len(seen), 2)
        self.assertEqual({one.total_bytes for one in seen}, {after.log_bounds()[1]})
        self.assertEqual([one.percent for one in seen], sorted(one.percent for one in seen))
        self.assertLessEqual(seen[-1].percent, 100)
        self.assertIsNone(service.recovered_so_far)
        told = [one for one in logs if "recovering the store" in one["log_format"]]
        self.assertGreater(len(told), 2)
        self.assertEqual({one["total"] for one in told}, {after.log_bounds()[1]})
        self.assertEqual([one["done"] for one in told], sorted(one["done"] for one in told))
        for one in told:  # two seconds for each file that is left
            self.assertAlmostEqual(one["left"], (one["total"] - one["done"]) / LOG_SIZE * 2, places=5)

    def test_clock_set_back(self) -> None:
        """A clock that was set back, before or during the run, skips nothing."""
        store = self.start(self.env)
        self.fill(store, 10)
        self.env.clock.wall_offset_ms -= 1 << 40
        self.env.clock.advance(2)
        self.fill(store, 10)
        env = killed(self.env)
        env.clock.wall_offset_ms -= 1 << 40
        self.assertEqual(len(self.bodies(self.start(env))), 20)


class PowerTests(RecoveryTestCase):
    """The machine lost power: of what was not flushed any part may be on the disk, in any order (F4)."""

    def crashed(self, random: Random) -> FakeEnvironment:
        """The machine afterwards: a random part of the unflushed sectors survived."""
        after = killed(self.env)
        share = random.random()
        for file in after.files.files.values():
            synced = file.synced.ljust(len(file.data), b"\0")
            for at in range(0, len(synced), SECTOR):
                if random.random() > share:
                    file.data[at : at + SECTOR] = synced[at : at + SECTOR]
            file.synced = bytes(file.data)
        return after

    def history(self, random: Random, sync: bool) -> tuple[OpenStore, int, list[tuple[int, int, list[bytes]]]]:
        """A store in the middle of its work; the flushed position; and each append: end, queue, bodies."""
        store = self.start(self.env, sync_flush=sync)
        appends = []
        flushed = 0
        for number in range(random.randrange(1, 60)):
            queue_id = random.randrange(3)
            count = random.choice((1, 1, 1, 2, 5))
            bodies = [b"%d.%d-" % (number, one) + b"y" * random.randrange(150) for one in range(count)]
            appended = store.append([message(queue_id=queue_id, body=body) for body in bodies])
            appends.append((appended.end, queue_id, bodies))
            if random.random() < 0.5:
                store.end_run()
            if random.random() < 0.3:
                self.env.clock.advance(random.choice((0.1, 0.5, 1.0)))
            flushed = store.flushed
            if random.random() < 0.1:
                self.env.threads.held.symmetric_difference_update({random.choice(("flush", "checkpoint"))})
        return store, flushed, appends

    def test_any_loss(self) -> None:
        """What was flushed is there, what is lost is a suffix, batches are whole; a second recovery changes nothing."""
        for seed in range(250):
            random = Random(seed)
            self.env = FakeEnvironment()
            store, flushed, appends = self.history(random, seed % 2 == 0)
            env = self.crashed(random)
            after = self.start(env)
            end = after.log_bounds()[1]
            self.assertGreaterEqual(end, flushed, seed)
            expected: list[list[bytes]] = [[], [], []]
            for append_end, queue_id, bodies in appends:
                if append_end <= end:
                    expected[queue_id] += bodies
            self.assertEqual(self.whole(after, queues=3), expected, seed)
            first = data(killed(env))
            again = killed(env)
            second = self.start(again)
            self.assertEqual(second.log_bounds()[1], end, seed)
            self.same(data(again), first, seed)
            self.fill(second, 5)
            self.env.threads.held.clear()
            for lane in ("flush", "checkpoint"):
                self.env.threads.release(lane)
            self.stopped(store)
            for one in (after, second):
                self.stopped(one)

    def test_hole(self) -> None:
        """A page that did not make it, with later ones that did: the log ends there, however whole the rest is."""
        store = self.start(self.env)
        self.fill(store, 5)
        self.env.clock.advance(2)
        flushed = store.flushed
        offsets = self.send(store, *[message(body=b"x" * 100)] * 10)
        for lost in (3, 0):
            env = killed(self.env)
            at = offsets[lost]
            env.files.files[log_path()].data[at : at + 120] = bytes(120)
            after = self.start(env)
            self.assertEqual(after.log_bounds()[1], at)
            self.assertEqual(len(self.bodies(after)), 5 + lost)
            self.assertFalse(any(env.files.files[log_path()].data[at:]))
            self.assertEqual(len(env.files.list(f"{ROOT}/quarantine")), 1)
        self.assertEqual(offsets[0], flushed)

    def test_later_file_survived(self) -> None:
        """A later file behind a hole is set aside as it is; the log goes on in a new one."""
        store = self.start(self.env)
        self.fill(store, 100)
        names = self.env.files.list(f"{ROOT}/commitlog")
        self.assertGreater(len(names), 2)
        env = killed(self.env)
        env.files.files[log_path()].data[1000:1500] = bytes(500)
        second = bytes(env.files.files[log_path(LOG_SIZE)].data)
        after = self.start(env)
        self.assertLess(after.log_bounds()[1], 1000)
        self.assertEqual(env.files.list(f"{ROOT}/commitlog"), names[:1])
        aside = [name for name in env.files.list(f"{ROOT}/quarantine") if name.startswith(f"{LOG_SIZE:020d}")]
        self.assertEqual([env.files.read(f"{ROOT}/quarantine/{name}") for name in aside], [second])
        before = len(self.bodies(after))
        self.fill(after, 100)
        self.assertEqual(len(self.bodies(after)), before + 100)

    def test_short_file_at_the_tail(self) -> None:
        """A last file whose length was not on the disk yet is set aside, not fatal (S10)."""
        store = self.start(self.env)
        self.fill(store, 20)
        self.env.clock.advance(2)
        end = store.log_bounds()[1]
        while store.log_bounds()[1] < LOG_SIZE:
            self.send(store, message())
        for size in (0, 100):
            env = killed(self.env)
            env.files.files[log_path(LOG_SIZE)].data = bytearray(size)
            after = self.start(env)
            self.assertGreater(after.log_bounds()[1], end)
            self.assertLessEqual(after.log_bounds()[1], LOG_SIZE)
            self.assertEqual(env.files.list(f"{ROOT}/commitlog"), [f"{0:020d}"])
            self.assertEqual(len(env.files.list(f"{ROOT}/quarantine")), 1)
            self.fill(after, 50)


class DamageTests(RecoveryTestCase):
    def test_in_the_middle(self) -> None:
        """A bad record in flushed bytes with good ones behind it: it is set apart, and all others are there (S8)."""
        store = self.start(self.env)
        offsets = self.send(store, *[message(body=b"%d" % number * 50) for number in range(20)])
        self.env.clock.advance(2)
        self.stopped(store)
        end = store.log_bounds()[1]
        for remade in (True, False):  # the queue is made anew from the log, or the damage is found by the first read
            for at in (0, 4, 8, 30, HEAD_SIZE + 3, HEAD_SIZE + 50):
                self.patch(walk, "_CHUNK", 100 + at)
                env = killed(self.env)
                if remade:
                    del env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
                data = env.files.files[log_path()].data
                data[offsets[7] + at] ^= 0x20
                for _ in range(2):
                    after = self.start(env)
                    found = [bytes(one.body) for one in self.read_all(after)]
                    self.assertEqual(found, [b"%d" % number * 50 for number in range(20) if number != 7])
                    self.assertEqual((after.bounds("T", 0), after.log_bounds()[1]), ((0, 20), end))
                    found_at = [(one.offset, one.end) for one in after.damage.regions]
                    self.assertEqual(found_at, [(offsets[7], offsets[8])])
                    self.stopped(after)
                name = f"{ROOT}/quarantine/{offsets[7]:020d}-{offsets[8] - offsets[7]}"
                self.assertEqual(env.files.read(name + ".bytes"), bytes(data[offsets[7] : offsets[8]]))
                about = msgspec.json.decode(env.files.read(name + ".json"))
                self.assertEqual((about["offset"], about["saved"]), (offsets[7], posixpath.basename(name) + ".bytes"))
                if at in (30, HEAD_SIZE + 3):
                    self.assertEqual((about["topic"], about["queue_id"], about["queue_offset"]), ("T", 0, 7))
                listed = regions.decode(env.files.read(f"{ROOT}/{regions.PATH}"))
                self.assertEqual([one.offset for one in listed], [offsets[7]])

    def test_most_of_a_queue(self) -> None:
        """Every second record of a queue is damaged: the others keep their offsets when the queue is made anew."""
        store = self.start(self.env)
        offsets = self.send(store, *[message(body=b"%d" % number * 9) for number in range(12)])
        self.env.clock.advance(2)
        self.stopped(store)
        del self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
        for first in (0, 1):
            env = killed(self.env)
            for offset in offsets[first::2]:
                env.files.files[log_path()].data[offset + HEAD_SIZE] ^= 1
            after = self.start(env)
            found = [(one.queue_offset, bytes(one.body)) for one in self.read_all(after)]
            self.assertEqual(found, [(number, b"%d" % number * 9) for number in range(1 - first, 12, 2)])
            self.assertEqual(after.bounds("T", 0)[1], 12)
            self.assertEqual(self.send(after, message())[0], after.units("T", 0, 12, 1)[0].commitlog_offset)

    def test_put_right(self) -> None:
        """A region that somebody put right while the store was closed is no damage any more."""
        store = self.start(self.env)
        offsets = self.send(store, *[message() for _ in range(5)])
        self.stopped(store)
        data = self.env.files.files[log_path()].data
        data[offsets[2] + 8] ^= 1
        store = self.start(self.env)
        self.assertEqual(len(self.read_all(store)), 4)
        self.stopped(store)
        data[offsets[2] + 8] ^= 1
        store = self.start(self.env)
        self.assertEqual((len(self.bodies(store)), store.damage.regions), (5, []))
        self.assertEqual(self.env.files.read(f"{ROOT}/{regions.PATH}"), b"[]")

    def test_list_damaged(self) -> None:
        """A list of regions that cannot be read does not keep the store from opening; the damage is found again."""
        store = self.start(self.env)
        offsets = self.send(store, *[message() for _ in range(5)])
        self.stopped(store)
        self.env.files.files[log_path()].data[offsets[2] + 8] ^= 1
        for _ in range(2):
            store = self.start(self.env)
            self.assertEqual(len(self.read_all(store)), 4)
            self.assertEqual([one.offset for one in store.damage.regions], [offsets[2]])
            self.stopped(store)
            self.env.files.files[f"{ROOT}/{regions.PATH}"].data[0] ^= 1

    def test_behind_the_checkpoint(self) -> None:
        """The same where the flushed part went further than the checkpoint, and nothing is changed."""
        with_lanes = self.start(self.env)
        self.fill(with_lanes, 3)
        self.env.clock.advance(2)
        self.env.threads.held.add("checkpoint")
        offsets = self.send(with_lanes, *[message()] * 3)
        self.env.clock.advance(0.5)
        more = self.send(with_lanes, *[message()] * 3)
        self.env.clock.advance(0.5)
        env = killed(self.env)
        env.files.files[log_path()].data[offsets[1] + 8] ^= 1
        with capturedLogs() as logs:
            after = self.start(copied(env))
        self.assertEqual(after.log_bounds()[1], offsets[1])  # not known to be flushed: the checkpoint did not get there
        told = [one for one in logs if "whole records" in one["log_format"]]
        self.assertEqual([(one["count"], one["offset"]) for one in told], [(4, offsets[1])])
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.env.clock.advance(2)
        env = killed(self.env)
        env.files.files[log_path()].data[more[0] + 8] ^= 1
        self.assertEqual(self.start(env).log_bounds()[1], with_lanes.log_bounds()[1])  # below the checkpoint: not read

    def test_lost_tail(self) -> None:
        """Flushed bytes that are gone with nothing behind them are damage: the rest is served, no offset is reused."""
        store = self.start(self.env)
        offsets = self.send(store, *[message()] * 10)
        self.env.clock.advance(2)
        end = store.log_bounds()[1]
        del self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"]
        env = killed(self.env)
        env.files.files[log_path()].data[offsets[6] :] = bytes(LOG_SIZE - offsets[6])
        after = self.start(env)
        self.assertEqual((len(self.bodies(after)), after.log_bounds()[1], after.bounds("T", 0)[1]), (6, end, 10))
        self.assertEqual([(one.offset, one.end) for one in after.damage.regions], [(offsets[6], end)])
        self.assertEqual(after.append([message()]).queue_offset, 10)


class ForeignTests(RecoveryTestCase):
    def setUp(self) -> None:
        super().setUp()
        store = self.start(self.env)
        self.fill(store, 100, queues=2)
        self.stopped(store)

    def add(self, env: FakeEnvironment, path: str, content: bytes = b"") -> str:
        """Put a file into the store."""
        place = f"{ROOT}/{path}"
        env.files.make_directories(place.rpartition("/")[0])
        env.files.files[place] = FakeFile(content, 0)
        return place

    def test_names(self) -> None:
        """A file of a name that is none of ours is refused, and named (S15)."""
        for path in (
            "commitlog/notes.txt",
            "commitlog/0000",
            "commitlog/00000000000000000000.bak",
            "consumequeue/file",
            "consumequeue/T/file",
            "consumequeue/T/00",
            "consumequeue/T/-1/x",
            "consumequeue/a.b/0/x",
            "consumequeue/T/0/x",
        ):
            env = killed(self.env)
            self.add(env, path)
            error = self.refused(env, ForeignFile)
            self.assertIn(str(error).split()[0], f"{ROOT}/{path}")

    def test_own_places(self) -> None:
        """Where leftovers of ours are removed at start, only what we put there may lie, or nothing is removed (S15)."""
        for path in (
            "smartgo.spare",
            "smartgo.spare/key.txt",
            "smartgo.spare/1/x",
            "smartgo.spare/01",
            "smartgo.deleted",
            "smartgo.deleted/1",
            "smartgo.deleted/thesis.tex",
            "smartgo.deleted/1/thesis.tex",
            f"smartgo.deleted/1/{0:020d}/x",
        ):
            env = killed(self.env)
            self.leftovers(env)
            if "/" not in path:
                env.files.remove_tree(f"{ROOT}/{path}")
            self.add(env, path)
            self.assertIn(str(self.refused(env, ForeignFile)).split()[0], f"{ROOT}/{path}")
        env = killed(self.env)
        own = self.leftovers(env)
        self.start(env)
        self.assertFalse(set(own) & env.files.files.keys())

    def leftovers(self, env: FakeEnvironment) -> list[str]:
        """Return our files that a kill may leave."""
        return [self.add(env, "smartgo.spare/7"), self.add(env, f"smartgo.deleted/7/{0:020d}")]

    def test_names_of_others(self) -> None:
        """Files of others beside ours stay, whatever they are called."""
        others = [self.add(self.env, path, b"mine") for path in ("deleted/thesis.tex", "spare/key.txt", "spare/1")]
        self.stopped(self.start(self.env))
        self.assertEqual({bytes(self.env.files.files[one].data) for one in others}, {b"mine"})

    def test_ignored(self) -> None:
        """What a file system keeps in its root is no file of anybody, and the rest of the root is not our business."""
        env = killed(self.env)
        env.files.make_directories(f"{ROOT}/commitlog/lost+found")
        env.files.make_directories(f"{ROOT}/consumequeue/lost+found")
        self.add(env, "index/20260101000000000", b"index")
        self.add(env, "config/topics.json", b"{}")
        self.add(env, "timerwheel", b"5.x")
        self.assertEqual(len(self.bodies(self.start(env))), 50)

    def test_lengths(self) -> None:
        """Log files of another length than set or than the others are refused, and named; found is not set."""
        names = self.env.files.list(f"{ROOT}/commitlog")
        env = killed(self.env)
        self.assertIn(names[0], str(self.refused(env, ForeignFile, log_file_size=8192)))
        self.assertIn("400 B, not 800 B", str(self.refused(env, ForeignFile, queue_file_size=800)))
        self.assertEqual(self.start(env, log_file_size=None, queue_file_size=None).log_bounds()[0], 0)
        for name in names:
            for size in (0, LOG_SIZE - 1, LOG_SIZE + 1):
                env = killed(self.env)
                env.files.files[f"{ROOT}/commitlog/{name}"].data = bytearray(size)
                self.assertIn(name, str(self.refused(env, ForeignFile)))

    def test_offsets(self) -> None:
        """A log file whose name is no multiple of the length is refused."""
        env = killed(self.env)
        env.files.rename(log_path(), log_path(1))
        self.assertIn(f"{1:020d}", str(self.refused(env, ForeignFile)))

    def test_missing(self) -> None:
        """A log file that is missing is named, in the middle or at the end; without its first files a log goes on."""
        names = self.env.files.list(f"{ROOT}/commitlog")
        self.assertGreater(len(names), 3)
        for name in names[1:]:
            env = killed(self.env)
            del env.files.files[f"{ROOT}/commitlog/{name}"]
            self.assertIn(name, str(self.refused(env, StoreError)))
        env = killed(self.env)
        for name in names:
            del env.files.files[f"{ROOT}/commitlog/{name}"]
        self.assertIn("is missing", str(self.refused(env, StoreError)))
        env = killed(self.env)
        del env.files.files[f"{ROOT}/commitlog/{names[0]}"]
        store = self.start(env)
        self.assertEqual(store.log_bounds()[0], LOG_SIZE)
        minimum, maximum = store.bounds("T", 0)
        self.assertTrue(0 < minimum < maximum == 50)
        self.assertEqual(len(self.bodies(store)), maximum - minimum)

    def test_queues_without_log(self) -> None:
        """Queues without any log are not thrown away: the log may only not be mounted."""
        env = killed(self.env)
        for name in env.files.list(f"{ROOT}/commitlog"):
            del env.files.files[f"{ROOT}/commitlog/{name}"]
        for name in OWN_FILES:
            del env.files.files[f"{ROOT}/{name}"]
        self.assertIn("commitlog has no files", str(self.refused(env, StoreError)))

    def test_queues_without_flushed_log(self) -> None:
        """Names of queue files may outlive a power cut where no name of the log was flushed yet: the store is empty."""
        env = FakeEnvironment()
        self.fill(self.start(env), 50)
        after_crash = killed(env)
        for name in after_crash.files.list(f"{ROOT}/commitlog"):
            del after_crash.files.files[f"{ROOT}/commitlog/{name}"]
        env = killed(after_crash)
        store = self.start(env)
        self.assertEqual((store.queues(), any(map(any, content(env, "consumequeue").values()))), ([], False))
        sent = self.fill(store, 5)
        self.assertEqual((store.bounds("T", 0), self.bodies(store)), ((0, 5), sent))
        for name in ("abort", "smartgo.checkpoint"):  # without one of them nobody knows how it stopped
            env = killed(after_crash)
            del env.files.files[f"{ROOT}/{name}"]
            self.assertIn("commitlog has no files", str(self.refused(env, StoreError)))

    def test_log_elsewhere(self) -> None:
        """The log may lie in a directory of its own."""
        env = FakeEnvironment()
        store = self.opened(env, small(commitlog_directory="/elsewhere/log"))
        self.fill(store, 50)
        self.stopped(store)
        self.assertEqual(len(env.files.list("/elsewhere/log")), 2)
        self.assertFalse(env.files.list(f"{ROOT}/commitlog"))
        self.assertEqual(len(self.bodies(self.opened(env, small(commitlog_directory="/elsewhere/log")))), 50)


class RocketTests(RecoveryTestCase):
    """Stores that a RocketMQ broker left, or had in between."""

    SETTINGS = StoreSettings(memory_count=10_000, memory_size=1 << 30)

    def expect_all(self, env: FakeEnvironment, name: str = "store-a-crash", lost: int = 0, **changes: Any) -> OpenStore:
        """The store opens with all messages but the last ones."""
        store = self.opened(env, replace(self.SETTINGS, **changes))
        manifest = golden_store.read(name).manifest
        expected = {one["physicalOffset"] for one in manifest["messages"][: len(manifest["messages"]) - lost]}
        found = set()
        for topic, queue_id in store.queues():
            found |= {one.physical_offset for one in self.read_all(store, topic, queue_id)}
        self.assertEqual(found, expected)
        return store

    def last(self, number: int = 1) -> dict[str, Any]:
        """The last messages of the golden store."""
        message: dict[str, Any] = golden_store.read("store-a-crash").manifest["messages"][-number]
        return message

    def test_torn_tail(self) -> None:
        """After a crash of RocketMQ a torn last record is cut, wherever it is torn (F29)."""
        last = self.last()
        base = LOG_SIZE_GOLDEN * (last["physicalOffset"] // LOG_SIZE_GOLDEN)
        begin, size = last["physicalOffset"] - base, last["storeSize"]
        for at in range(1, size, 37):
            env = with_golden("store-a-crash")
            env.files.files[log_path(base)].data[begin + at : begin + size] = bytes(size - at)
            store = self.expect_all(env, lost=1)
            self.assertEqual(store.log_bounds()[1], last["physicalOffset"])
            self.assertFalse(any(env.files.files[log_path(base)].data[begin:]))

    def test_damage(self) -> None:
        """Damage that no crash can have made is set apart also there: one message is missing, no other."""
        env = with_golden("store-a-crash")
        messages = golden_store.read("store-a-crash").manifest["messages"]
        middle = messages[250]["physicalOffset"]
        env.files.files[log_path()].data[middle + 8] ^= 1
        env.files.files[f"{ROOT}/checkpoint"].data[:16] = PeerCheckpoint(1, 1).pack()[:16]
        store = self.opened(env, self.SETTINGS)
        found = {
            one.physical_offset for topic, queue_id in store.queues() for one in self.read_all(store, topic, queue_id)
        }
        self.assertEqual({one["physicalOffset"] for one in messages} - found, {middle})
        self.assertEqual([one.offset for one in store.damage.regions], [middle])

    def test_everything_missing(self) -> None:
        """Without any queue file, and without the checkpoint, all queues are made anew, to the same bytes."""
        for name in golden_store.NAMES:
            env = with_golden(name)
            before = content(env, "consumequeue")
            for path in before:
                del env.files.files[path]
            del env.files.files[f"{ROOT}/checkpoint"]
            self.expect_all(env, name, queue_file_size=golden_store.QUEUE_SIZE)
            self.same(content(env, "consumequeue"), before)

    def test_preallocated(self) -> None:
        """The empty file that RocketMQ made ahead is kept, and used when it is its turn."""
        env = with_golden("store-a-crash")
        store = self.expect_all(env)
        self.assertEqual(len(env.files.list(f"{ROOT}/commitlog")), 3)
        while store.log_bounds()[1] < 3 * LOG_SIZE_GOLDEN:
            self.send(store, message(body=b"x" * 100_000))
        self.assertEqual(len(env.files.list(f"{ROOT}/commitlog")), 4)
        self.stopped(store)
        self.assertGreater(len(self.bodies(self.opened(env, self.SETTINGS))), 10)

    def test_had_it_in_between(self) -> None:
        """What RocketMQ added after our stop is there, though our checkpoint says that the log ended before."""
        store = self.start(self.env)
        self.fill(store, 5)
        self.stopped(store)
        env = killed(self.env)
        end = store.log_bounds()[1]
        record = encode(message(body=b"theirs", properties=b"TAGS\x01a\x02"), 5, end, 1_700_000_100_000)
        env.files.files[log_path()].data[end : end + len(record)] = record
        times = PeerCheckpoint(1_700_000_100_000, 1_700_000_100_000).pack()
        env.files.files[f"{ROOT}/checkpoint"].data[:] = times
        after = self.start(env)
        self.assertEqual(self.bodies(after)[5:], [b"theirs"])  # and its trailing 0x02 is no mark of ours
        self.assertEqual(self.send(after, message()), [end + len(record)])

    def test_five_in_between(self) -> None:
        """RocketMQ 5 ends all properties with 0x02: after a crash of it these are single messages, not a torn batch."""
        store = self.start(self.env)
        sent = self.fill(store, 3)
        end = store.log_bounds()[1]
        self.stopped(store)
        now = self.env.clock.wall_ms()
        for places in (
            [("T", 0, 3, now + 1), ("T", 0, 4, now + 2), ("T", 0, 5, now + 3)],
            [("T", 0, 3, now), ("T", 1, 0, now), ("T", 0, 4, now)],
            [("T", 0, 3, now), ("U", 0, 4, now), ("T", 0, 4, now)],
            [("T", 0, 3, now), ("T", 0, 9, now), ("T", 0, 4, now)],
        ):
            env = killed(self.env)
            raw = env.files.files[log_path()].data
            at = end
            for topic, queue_id, queue_offset, stored_ms in places:
                theirs = message(topic, queue_id, b"theirs", properties=b"a\x01b\x02")
                record = encode(theirs, queue_offset, at, stored_ms)
                raw[at : at + len(record)] = record
                at += len(record)
            env.files.files[f"{ROOT}/abort"] = FakeFile(b"", 0)
            blank = killed(env)
            blank.files.files[log_path()].data[at : at + 8] = encode_blank(LOG_SIZE - at)
            store = self.start(blank)  # what ends a file is no torn batch either
            self.assertEqual(store.log_bounds()[1], LOG_SIZE)
            store = self.start(env)  # the last one may be: nothing shows that it is none
            self.assertEqual(store.log_bounds()[1], at - len(record))
            first = sum(one[:3] in (("T", 0, 3), ("T", 0, 4)) for one in places[:2])
            self.assertEqual(self.bodies(store), sent + [b"theirs"] * first)

    def test_cut_it_in_between(self) -> None:
        """RocketMQ may also have cut the log below our checkpoint, and left old bytes behind a shorter record."""
        store = self.start(self.env)
        offsets = self.send(store, *[message(body=b"ours" * 20)] * 5)
        self.stopped(store)
        env = killed(self.env)
        record = encode(message(body=b"theirs"), 3, offsets[3], 1_700_000_100_000)
        raw = env.files.files[log_path()].data
        raw[offsets[3] : offsets[3] + len(record)] = record
        queue = env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"].data
        unit = offsets[3].to_bytes(8, "big") + len(record).to_bytes(4, "big") + bytes(8)
        queue[60:100] = unit + bytes(20)
        env.files.files[f"{ROOT}/checkpoint"].data[:] = PeerCheckpoint(1_700_000_100_000, 1_700_000_100_000).pack()
        after = self.start(env)
        self.assertEqual(self.bodies(after), [b"ours" * 20] * 3 + [b"theirs"])
        self.assertFalse(any(raw[offsets[3] + len(record) :]))

    def test_checkpoint_damaged(self) -> None:
        """With our own checkpoint damaged a store is opened as RocketMQ's, after a stop or a kill."""
        store = self.start(self.env)
        sent = self.fill(store, 50)
        for env in (killed(self.env), self.env):
            if env is self.env:
                self.stopped(store)
            for raw in (b"", bytes(4096), b"\xff" * 4096):
                after = killed(env)
                after.files.files[f"{ROOT}/smartgo.checkpoint"].data = bytearray(raw)
                self.assertEqual(self.bodies(self.start(after)), sent)


LOG_SIZE_GOLDEN = golden_store.LOG_SIZE


class Crash(Exception):
    """The process ends here."""


class CrashPointTests(RecoveryTestCase):
    """The process is killed during recovery or stop, before any of its changes to a file."""

    CHANGES = (
        "create", "replace", "append", "overwrite", "zero", "rename", "remove", "allocate", "create_sparse",
        "sync_directory", "make_directories",
    )  # fmt: skip

    def crash_at(self, env: FakeEnvironment, number: int) -> Callable[[], int]:
        """Let the change of that number raise L{Crash}; return what counts the changes."""
        count = 0

        def counted(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                raise Crash
            return original(*args, **named)

        for name in self.CHANGES:
            original = getattr(env.files, name)
            setattr(env.files, name, lambda *args, _original=original, **named: counted(_original, *args, **named))
        return lambda: count

    def every_crash(self, env: FakeEnvironment, expected: dict[str, bytes]) -> None:
        """Whichever change is the last, the next recovery ends with the bytes that an undisturbed one does."""
        number = 0
        while True:
            number += 1
            broken = killed(env)
            count = self.crash_at(broken, number)
            opening = open_store(broken, ROOT, small())
            if count() < number:
                self.successResultOf(opening)
                break
            self.failureResultOf(opening, Crash)
            for after in (killed(broken), power_off(broken)):
                self.start(after)
                self.same(data(after), expected, number)
        self.assertGreater(number, 3)

    def undisturbed(self, env: FakeEnvironment) -> dict[str, bytes]:
        """The bytes after a recovery without a crash."""
        after = killed(env)
        self.start(after)
        return data(after)

    def settled(self, env: FakeEnvironment) -> FakeEnvironment:
        """The machine with everything on its disk."""
        after = killed(env)
        for file in after.files.files.values():
            file.synced = bytes(file.data)
        return after

    def test_torn_tail(self) -> None:
        """Cutting a torn tail and a torn batch over two files."""
        store = self.start(self.env)
        self.fill(store, 20, queues=3)
        self.env.clock.advance(2)
        self.fill(store, 60, queues=3)
        env = self.settled(self.env)
        env.files.files[log_path(LOG_SIZE)].data[500:700] = bytes(200)
        env = self.settled(env)
        self.every_crash(env, self.undisturbed(env))

    def test_rebuild(self) -> None:
        """Making queues anew."""
        store = self.start(self.env)
        self.fill(store, 60, queues=3)
        self.stopped(store)
        env = self.settled(self.env)
        expected = data(env)
        for path in (f"{ROOT}/consumequeue/T/1/{0:020d}", f"{ROOT}/consumequeue/T/2/{0:020d}"):
            del env.files.files[path]
        self.every_crash(env, expected)

    def test_foreign(self) -> None:
        """Taking over a store of RocketMQ whose queues lag behind."""
        store = self.start(self.env)
        self.fill(store, 30, queues=3)
        self.env.clock.advance(5)
        self.fill(store, 30, queues=3)
        env = self.settled(self.env)
        for name in ("smartgo.checkpoint", "smartgo.queues"):
            del env.files.files[f"{ROOT}/{name}"]
        expected = data(env)
        env.files.files[f"{ROOT}/consumequeue/T/1/{0:020d}"].data[380:] = bytes(20)
        self.every_crash(self.settled(env), expected)

    def test_stop(self) -> None:
        """A stop that is cut short anywhere is a kill: nothing is lost, and the marker goes last."""
        number = 0
        while True:
            number += 1
            env = FakeEnvironment()
            store = self.start(env)
            sent = self.fill(store, 40)
            count = self.crash_at(env, number)
            stopping = store.close()
            if count() < number:
                self.successResultOf(stopping)
                break
            stopping.addErrback(lambda failure: failure.trap(Crash) and None)
            self.successResultOf(stopping)
            self.flushLoggedErrors(Crash)
            self.assertEqual(self.bodies(self.start(killed(env))), sent)
        self.assertGreater(number, 2)


class CancelTests(RecoveryTestCase):
    def test_stopped_while_recovering(self) -> None:
        """A stop during recovery ends it soon, lets everything go, and the next start is as good (F30)."""
        store = self.start(self.env)
        sent = self.fill(store, 50)
        env = killed(self.env)
        env.threads.held.add("prepare")
        again = MessageStore(env, ROOT, small())
        again.startService()
        stopping = again.stopService()
        self.assertNoResult(stopping)
        env.threads.held.clear()
        env.threads.release("prepare")
        self.assertIn("cancelled", str(self.failureResultOf(again.opened, StoreError).value))
        self.successResultOf(stopping)
        self.assertEqual((env.files.mappings, env.files.locks), ([], set()))
        self.assertEqual(self.bodies(self.start(env)), sent)


class ReplicaTests(RecoveryTestCase):
    def test_no_marks(self) -> None:
        """A slave's records may end with 0x02 for other reasons: none is cut for that."""
        store = self.start(self.env)
        self.fill(store, 3)
        env = killed(self.env)
        end = store.log_bounds()[1]
        record = encode(message(properties=b"a\x01b\x02"), 3, end, 1_700_000_000_000)
        env.files.files[log_path()].data[end : end + len(record)] = record
        self.assertEqual(len(self.bodies(self.start(copied(env)))), 3)
        self.assertEqual(len(self.bodies(self.start(copied(env), replica=True))), 4)
