"""Tests of L{smartgo.store.replicalog}: the stores of slaves, fed with the bytes of a master's."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from twisted.logger import capturedLogs

from smartgo.errors import BadRecord, OutOfPlace, ServiceNotAvailable
from smartgo.schema.consumequeue import PREFILL, Unit
from smartgo.schema.index import Geometry
from smartgo.schema.message import PREPARED, ROLLBACK, NewMessage, pack_host
from smartgo.schema.record import BLANK_MAGIC, BLANK_SIZE, encode, encode_blank
from smartgo.schema.topics import SCHEDULE_TOPIC
from smartgo.store.checkpoint import UNMARKED
from smartgo.store.interfaces import PutStatus, ReadStatus
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.store.stores import (
    ALL,
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
from tests.store.test_dispatch import Derived, Ear

GEOMETRY: Final = Geometry(20, 50)
FILES: Final = ("commitlog", "consumequeue")


class Source(NamedTuple):
    """A master: its machine, the bytes of its log, and the ends of records and blanks in them."""

    env: FakeEnvironment
    log: bytes
    ends: list[int]

    @property
    def files(self) -> dict[str, bytes]:
        """The log and queue files."""
        return content(self.env, *FILES)


def replica(**changes: Any) -> Any:
    """Settings of a slave's store."""
    return small(**{"replica": True, "index": True, "index_geometry": GEOMETRY, **changes})


def log_of(env: FakeEnvironment, begin: int, end: int) -> bytes:
    """The bytes of the log from C{begin}, where a file begins, to C{end}."""
    names = [name for name in env.files.list(f"{ROOT}/commitlog") if int(name) >= begin]
    return b"".join(env.files.read(f"{ROOT}/commitlog/{name}") for name in names)[: end - begin]


def index_of(env: FakeEnvironment) -> list[bytes]:
    """The index files, whose names are times."""
    return [data for _, data in sorted(content(env, "index").items())]


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of one size."""
    return (data[at : at + size] for at in range(0, len(data), size))


def step(number: int) -> list[NewMessage]:
    """Return the messages that a master appends in one go: one of each kind."""
    body = b"%d-" % number + b"." * (number * 37 % 211)
    kind = number % 9
    keys = b"KEYS\x01k%d x" % number
    if kind == 2:
        return [message(queue_id=1, body=body), message(queue_id=1, body=b""), message(queue_id=1, properties=keys)]
    if kind == 3:
        return [message(SCHEDULE_TOPIC, 2, body, tag_code=7)]
    if kind == 5:
        return [message(body=body, sys_flag=PREPARED if number % 2 else ROLLBACK)]
    if kind == 6:
        return [message("Six", 3, body, born_host=pack_host("::1", 4711))]
    if kind == 7:
        return [message("Tagged", 0, body, properties=b"TAGS\x01TagA\x02" + keys, tag_code=2598919)]
    return [message("T", number % 2, body, properties=keys)]


class ReplicaTestCase(StoreTestCase):
    def source(self, steps: int = 60, **changes: Any) -> Source:
        """A master with a log of several files, stopped."""
        env = FakeEnvironment()
        master = self.opened(env, small(index=True, index_geometry=GEOMETRY, **changes))
        ends = []
        for number in range(steps):
            appended = master.append(step(number))
            ends += [*appended.offsets, appended.end]
            master.end_run()
            env.clock.advance(0.2)
        begin, end = master.log_bounds()
        ends += range(LOG_SIZE, end, LOG_SIZE)
        self.stopped(master)
        return Source(env, log_of(env, begin, end), sorted(set(ends)))

    def slave(self, env: FakeEnvironment, **changes: Any) -> OpenStore:
        """A slave's store."""
        return self.opened(env, replica(**changes))

    def feed(self, slave: OpenStore, data: bytes, size: int = 1 << 20) -> None:
        """Append the log C{data}, which begins at offset 0, from the slave's end on."""
        for piece in cut(data[slave.log_bounds()[1] :], size):
            slave.append_raw(slave.log_bounds()[1], piece)

    def however_ended(self, slave: OpenStore, env: FakeEnvironment, log: bytes) -> Iterator[OpenStore]:
        """The slave again with the whole log: after a stop in order, a kill and a power failure as of now."""
        for machine in (env, killed(env), power_off(env)):
            if machine is env:
                self.stopped(slave)
            reopened = self.slave(machine)
            self.feed(reopened, log)
            yield reopened

    def equal(self, env: FakeEnvironment, source: Source, what: object = "") -> None:
        """The files of a stopped slave are those of its stopped master."""
        self.same(content(env, *FILES), source.files, what)
        self.assertEqual(index_of(env), index_of(source.env), what)


class EqualTests(ReplicaTestCase):
    """Log, queues and index of a slave are its master's, byte by byte."""

    def test_any_piece(self) -> None:
        """Whatever the size of the pieces, and wherever they are cut."""
        source = self.source()
        self.assertGreater(len(source.log), 3 * LOG_SIZE)
        random = Random(6)
        for size in (1, 2, 7, 8, 9, 100, 1000, LOG_SIZE, LOG_SIZE + 1, 1 << 20, None, None, None):
            env = FakeEnvironment()
            slave = self.slave(env)
            if size is not None:
                self.feed(slave, source.log, size)
            while (at := slave.log_bounds()[1]) < len(source.log):
                slave.append_raw(at, memoryview(source.log)[at : at + random.randrange(1, 900)])
                env.clock.advance(random.random() / 3)
            env.clock.advance(1)
            self.stopped(slave)
            self.equal(env, source, size)
            self.assertEqual(env.files.list(f"{ROOT}/quarantine"), [])

    def test_every_cut(self) -> None:
        """Two pieces that are cut anywhere in the last file's records."""
        source = self.source(24)
        begin = source.ends[-12]
        for at in range(begin, len(source.log) + 1):
            env = FakeEnvironment()
            slave = self.slave(env)
            slave.append_raw(0, source.log[:at])
            self.assertEqual(slave.log_bounds(), (0, at))
            slave.append_raw(at, source.log[at:])
            self.stopped(slave)
            self.equal(env, source, at)

    def test_from_a_master(self) -> None:
        """What a running master hands out piece by piece, hot or cold, while it appends, makes the slave its equal."""
        env, other = FakeEnvironment(), FakeEnvironment()
        other.host.memory = 5000
        master = self.opened(other, small(index=True, index_geometry=GEOMETRY))
        slave = self.slave(env)
        colds = 0
        for number in range(80):
            master.append(step(number))
            master.end_run()
            for _ in range(number % 4 * (number > 30)):
                at = slave.log_bounds()[1]
                if at < master.log_bounds()[1]:
                    piece = master.piece(at, 400)
                    colds += piece is None
                    slave.append_raw(at, self.now(master.piece_cold(at, 400)) if piece is None else piece)
        while (at := slave.log_bounds()[1]) < master.log_bounds()[1]:
            slave.append_raw(at, self.now(master.piece_cold(at, 400)))
        self.assertGreater(colds, 5)
        self.assertEqual(self.now(slave.crc(0, at)), self.now(master.crc(0, at)))
        for store in (master, slave):
            self.stopped(store)
        self.same(content(env, *FILES), content(other, *FILES))

    def test_master_of_rocketmq(self) -> None:
        """Records that older and newer writers make are taken as they are: no mark of ours is looked for."""
        odd = [
            message(properties=b"TAGS\x01a\x02"),  # a separator at the end, and no batch
            message(properties=b"A\x01\0\x02"),
            message(properties=b"A\x01b\x02"),
        ]
        log = b""
        for number, one in enumerate(odd):
            log += encode(one, number, len(log), EPOCH_MS)
        for at in range(len(log)):
            env = FakeEnvironment()
            slave = self.slave(env)
            self.feed(slave, log[:at], 50)
            self.now(slave.flush())
            slave = self.slave(killed(env))
            self.feed(slave, log)
            self.assertEqual(slave.bounds("T", 0), (0, 3))


class VisibleTests(ReplicaTestCase):
    def test_at_the_last_byte(self) -> None:
        """A message can be read when its record's last byte is there, and not before; listeners and followers hear."""
        source = self.source(12)
        env = FakeEnvironment()
        slave = self.slave(env)
        ear = Ear(slave)
        slave.subscribe(ear)
        ends: list[int] = []
        slave.follow(ends.append)
        for at in range(len(source.log)):
            slave.append_raw(at, source.log[at : at + 1])
            known = sum(slave.bounds(*key)[1] for key in slave.queues())
            units = [unit for key in slave.queues() for unit in slave.units(*key, 0, 99)]
            self.assertEqual(
                (len(units), max([one.commitlog_offset + one.size for one in units], default=0) <= at + 1),
                (known, True),
            )
            self.assertEqual(sum(len(one[3]) for one in ear.heard), known)
        self.assertEqual(ends, list(range(1, len(source.log) + 1)))
        self.assertEqual(len(units), 15)  # one of 16 is prepared
        self.assertEqual([one[4] for one in ear.heard][-1], EPOCH_MS + 2200)

    def test_after_flush(self) -> None:
        """With dispatch_after_flush readers see what is flushed, wherever the flush fell (D6)."""
        source = self.source(30)
        for size in (10, 77, 300):
            env = FakeEnvironment()
            slave = self.slave(env, sync_flush=True)
            env.threads.held.add("flush")
            for piece in cut(source.log, size):
                before = [slave.bounds(*key) for key in slave.queues()]
                slave.append_raw(slave.log_bounds()[1], piece)
                self.assertEqual([slave.bounds(*key) for key in slave.queues()], before)
                env.threads.release("flush", 1)
                for key in slave.queues():
                    last = slave.units(*key, slave.bounds(*key)[1] - 1, 1)[0]
                    self.assertLessEqual(last.commitlog_offset + last.size, slave.flushed)
            env.threads.held.clear()
            env.threads.release("flush")
            self.stopped(slave)
            self.equal(env, source, size)

    def test_search(self) -> None:
        """A slave's messages are found by key as soon as they are whole."""
        source = self.source(20)
        env = FakeEnvironment()
        slave = self.slave(env)
        self.feed(slave, source.log, 100)
        env.clock.advance(0.1)
        found = self.now(slave.query("T", "k13", 9, 0, EPOCH_MS * 2))
        self.assertEqual(len(found.records), 1)

    def test_attached(self) -> None:
        """What follows the records is never shown a part of one."""
        source = self.source(20)
        env = FakeEnvironment()
        slave = self.slave(env)
        derived = Derived()
        slave._dispatchers.append(derived)
        for piece in cut(source.log, 33):
            slave.append_raw(slave.log_bounds()[1], piece)
        ends = {end for _, end in derived.told}
        self.assertLessEqual(ends, {*source.ends, *(base for base in range(0, len(source.log), LOG_SIZE))})
        self.assertEqual(max(ends), len(source.log))


class RefusedTests(ReplicaTestCase):
    def test_append(self) -> None:
        """A slave's store takes no message, a master's no bytes; a slave that can take bytes refuses nothing else."""
        slave = self.slave(FakeEnvironment())
        self.assertRaises(ServiceNotAvailable, slave.append, [message()])
        self.assertIsNone(slave.refusal)
        master = self.opened(FakeEnvironment())
        self.assertRaises(ServiceNotAvailable, master.append_raw, 0, b"x")
        self.stopped(slave)
        self.assertRaises(ServiceNotAvailable, slave.append_raw, 0, b"x")

    def test_out_of_place(self) -> None:
        """Bytes for another place than the log's end are refused, and nothing is written."""
        source = self.source(3)
        env = FakeEnvironment()
        slave = self.slave(env)
        for offset in (-LOG_SIZE, 1, LOG_SIZE + 1):
            self.assertRaises(OutOfPlace, slave.append_raw, offset, source.log)
        self.assertEqual(slave.log_bounds(), (0, 0))
        slave.append_raw(0, source.log[:50])
        before = content(env, "commitlog")
        for offset in (0, 49, 51, LOG_SIZE):
            self.assertRaises(OutOfPlace, slave.append_raw, offset, source.log)
        self.same(content(env, "commitlog"), before)
        self.assertEqual(slave.log_bounds(), (0, 50))

    def test_no_way_back(self) -> None:
        """A log that was begun, and has no whole record yet, may begin in a later file, but not in one before."""
        source = self.source(3)
        slave = self.slave(FakeEnvironment())
        self.assertRaises(BadRecord, slave.append_raw, 2 * LOG_SIZE, b"no record")
        self.assertEqual(slave.log_bounds(), (2 * LOG_SIZE, 2 * LOG_SIZE))
        for offset in (0, LOG_SIZE):
            self.assertRaises(OutOfPlace, slave.append_raw, offset, source.log)

    def test_nothing(self) -> None:
        """No bytes change nothing."""
        slave = self.slave(FakeEnvironment())
        slave.append_raw(0, b"")
        self.assertEqual(slave.log_bounds(), (0, 0))

    def test_no_room_for_a_log_file(self) -> None:
        """Where no log file can be had, what fits is in, and the rest is taken later."""
        source = self.source()
        env = FakeEnvironment()
        slave = self.slave(env, disk_free_minimum=0, disk_full_ratio=1.0)
        slave.append_raw(0, source.log[:10])
        env.files.free = 3000
        error = self.assertRaises(ServiceNotAvailable, slave.append_raw, 10, source.log[10:])
        self.assertIn("no room for a CommitLog file", str(error))
        self.assertEqual(slave.log_bounds()[1] % LOG_SIZE, 0)
        self.assertRaises(ServiceNotAvailable, self.feed, slave, source.log)
        env.files.free = 1 << 39
        env.clock.advance(5)
        self.feed(slave, source.log, 100)
        self.stopped(slave)
        self.same(content(env, *FILES), source.files)

    def test_no_room_for_a_queue_file(self) -> None:
        """A record whose unit has no room is taken back, and taken when there is room, wherever its queue begins."""
        for first in (0, 20, 25):
            log = b""
            for number in range(4):
                log += encode(message(), first + number, len(log), EPOCH_MS)
            env = FakeEnvironment()
            slave = self.slave(env, disk_free_minimum=0, disk_full_ratio=1.0, index=False)
            env.files.free = 100
            self.assertRaises(ServiceNotAvailable, slave.append_raw, 0, log)
            self.assertEqual(slave.log_bounds(), (0, 0))
            env.files.free = 1 << 39
            slave.append_raw(0, log)
            self.assertEqual(slave.bounds("T", 0), (first, first + 4))
            self.assertEqual(len(self.bodies(slave)), 4)

    def test_flush_failed(self) -> None:
        """After a failed flush nothing is taken any more (D4)."""
        source = self.source(3)
        env = FakeEnvironment()
        slave = self.slave(env)
        slave.append_raw(0, source.log[:50])
        env.files.sync_error = 5
        env.clock.advance(1)
        self.assertRaises(ServiceNotAvailable, slave.append_raw, 50, source.log[50:])


class BadTests(ReplicaTestCase):
    """Bytes that are not records, which are taken back."""

    def changed(self, record: bytes, at: int, form: str, value: int) -> bytes:
        """A record with another number in one place."""
        return record[:at] + struct.pack(form, value) + record[at + struct.calcsize(form) :]

    def cases(self, record: bytes, at: int) -> dict[str, bytes]:
        """All that can be wrong with a record of the topic C{T}, with a body, at a physical offset."""
        body = 88
        topic = record.index(b"\x01T", body)
        return {
            "size 0": self.changed(record, 0, ">i", 0),
            "size negative": self.changed(record, 0, ">i", -5),
            "size too small": self.changed(record, 0, ">i", 90),
            "size one less": self.changed(record, 0, ">i", len(record) - 1),
            "size beyond the file": self.changed(record, 0, ">i", LOG_SIZE),
            "no room for a blank": self.changed(record, 0, ">i", LOG_SIZE - at % LOG_SIZE - BLANK_SIZE + 1),
            "magic": self.changed(record, 4, ">i", 17),
            "nothing": bytes(len(record)),
            "crc": self.changed(record, 8, ">i", 17),
            "queue id": self.changed(record, 12, ">i", -1),
            "queue offset": self.changed(record, 20, ">q", -1),
            "physical offset": self.changed(record, 28, ">q", at + 1),
            "hosts": self.changed(record, 36, ">i", 0x30),
            "stored": self.changed(record, 56, ">q", 0),
            "body length": self.changed(record, 84, ">i", 1 << 30),
            "body": self.changed(record, body, ">B", record[body] ^ 1),
            "topic length": self.changed(record, topic, ">b", 2),
            "topic": self.changed(record, topic + 1, ">B", ord("/")),
            "properties length": self.changed(record, topic + 2, ">h", 1),
            "blank too small": encode_blank(100),
            "blank too big": encode_blank(LOG_SIZE),
        }

    def test_every_class(self) -> None:
        """Whatever is wrong, and however it comes: the log ends before it, in zeros, and goes on with the right one."""
        good = self.source(5).log
        at = len(good)
        record = encode(message(body=b"the next"), 2, at, EPOCH_MS + 5000)
        after = encode(message(body=b"one more"), 3, at + len(record), EPOCH_MS + 5000)
        for name, bad in self.cases(record, at).items():
            for size in (1, 30, 1 << 20):
                env = FakeEnvironment()
                slave = self.slave(env)
                slave.append_raw(0, good[:20])
                self.assertRaises(BadRecord, self.feed, slave, good + bad + after, size)
                self.assertEqual(slave.log_bounds(), (0, at), name)
                self.assertEqual(slave.bounds("T", 0), (0, 2))
                self.assertFalse(any(env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[at:]), name)
                slave = self.slave(killed(env)) if size == 30 else slave
                self.assertEqual(slave.log_bounds(), (0, at), name)
                self.feed(slave, good + record + after, size)
                self.assertEqual(self.bodies(slave)[-2:], [b"the next", b"one more"], name)

    def test_flush_is_waited_for(self) -> None:
        """Who waits for a flush of what is taken back waits for what is left; the store can be stopped meanwhile."""
        source = self.source(10)
        at = source.ends[3]
        for held_back in (False, True):
            env = FakeEnvironment()
            slave = self.slave(env)
            with held(env, "flush"):
                slave.append_raw(0, source.log[: at + 50])
                env.clock.advance(0.5)
                waiting = slave.flush()
                if held_back:
                    stopping = slave.close()
                else:
                    env.threads.release("flush", 1)
                    waiting = slave.flush()
                    self.assertRaises(BadRecord, slave.append_raw, at + 50, bytes(1000))
            if held_back:
                self.assertEqual(self.now(stopping), None)
            self.assertEqual((self.now(waiting), slave.flushed), (PutStatus.OK, at))

    def test_known_early(self) -> None:
        """What can be no record is known from its first 8 bytes."""
        for start in (bytes(8), b"\0\0\1\0ABCD", encode_blank(17), struct.pack(">ii", LOG_SIZE - 7, BLANK_MAGIC)):
            slave = self.slave(FakeEnvironment())
            slave.append_raw(0, start[:7])
            self.assertEqual(slave.log_bounds(), (0, 7))
            self.assertRaises(BadRecord, slave.append_raw, 7, start[7:])
            self.assertEqual(slave.log_bounds(), (0, 0))

    def test_flush_under_way(self) -> None:
        """Bytes that take the place of bad ones count as flushed only after a flush of their own."""
        good = self.source(5).log
        at = len(good)
        record = encode(message(body=b"." * 200), 2, at, EPOCH_MS + 5000)
        bad = self.changed(record, 12, ">i", -1)
        for moment in range(3):
            env = FakeEnvironment()
            slave = self.slave(env, index=False)
            env.threads.held.add("flush")
            slave.append_raw(0, good + bad[:250])
            env.clock.advance(0.5)
            self.assertEqual(len(env.threads.waiting["flush"]), 1)
            if moment == 0:
                env.threads.release("flush")
                self.assertEqual(slave.flushed, at + 250)
            self.assertRaises(BadRecord, slave.append_raw, at + 250, bad[250:])
            if moment == 1:
                env.threads.release("flush")
            slave.append_raw(at, record[:230])
            env.threads.release("flush", 1)
            self.assertEqual(slave.flushed, at)
            slave.append_raw(at + 230, record[230:])
            env.clock.advance(0.5)
            env.threads.release("flush")
            self.assertEqual(slave.flushed, at + len(record))
            after = self.slave(power_off(env), index=False)
            self.assertEqual(self.bodies(after)[-1], b"." * 200)


class RestartTests(ReplicaTestCase):
    """A slave that is stopped, killed or loses its power anywhere goes on where its whole records end."""

    def each_cut(self, source: Source) -> Iterator[tuple[int, int]]:
        """
        Each place in the last record of the first file, the blank behind it, and the first record of the next; and the
        end of the whole record or blank before it.
        """
        number = source.ends.index(LOG_SIZE)
        for at in range(source.ends[number - 2], source.ends[number + 1] + 10):
            yield at, max(end for end in source.ends if end <= at)

    def test_killed(self) -> None:
        """Killed at any byte: the end is that of the last whole record, the rest is saved, and is sent again."""
        source = self.source(30)
        kept = FakeEnvironment()
        slave = self.slave(kept)
        for at, whole in self.each_cut(source):
            slave.append_raw(slave.log_bounds()[1], source.log[slave.log_bounds()[1] : at])
            env = killed(kept)
            if at % 50 == 0:
                kept.clock.advance(0.5)
            again = self.slave(env)
            if whole == LOG_SIZE == again.log_bounds()[1] + LOG_SIZE - source.ends[source.ends.index(LOG_SIZE) - 1]:
                whole = source.ends[source.ends.index(LOG_SIZE) - 1]  # it cannot know that all of the blank had come
            self.assertEqual(again.log_bounds(), (0, whole), at)
            saved = env.files.list(f"{ROOT}/quarantine")
            torn = source.log[whole:at].rstrip(b"\0")
            self.assertEqual([env.files.read(f"{ROOT}/quarantine/{name}") for name in saved], [torn] if torn else [])
            self.feed(again, source.log, 97)
            env.clock.advance(1)
            self.stopped(again)
            self.same(content(env, *FILES), source.files, at)

    def test_stopped(self) -> None:
        """After a clean stop anywhere the log ends in zeros after the last whole record; nothing needs saving."""
        source = self.source(30)
        for at, whole in self.each_cut(source):
            if at % 3:
                continue
            env = FakeEnvironment()
            slave = self.slave(env)
            slave.append_raw(0, source.log[:at])
            if at % 2:
                env.clock.advance(0.5)
            self.stopped(slave)
            self.assertFalse(any(log_of(env, 0, 1 << 30)[whole:]))
            slave = self.slave(env)
            self.assertEqual(slave.log_bounds(), (0, whole), at)
            self.assertEqual(env.files.list(f"{ROOT}/quarantine"), [])
            self.feed(slave, source.log)
            env.clock.advance(1)
            self.stopped(slave)
            self.equal(env, source, at)

    def test_power_failure(self) -> None:
        """When the power fails, flushed records are there, what was torn is not, and all is as the master's after."""
        source = self.source(50)
        random = Random(7)
        for case in range(150):
            env = FakeEnvironment()
            slave = self.slave(env)
            stop = random.randrange(1, len(source.log))
            while (at := slave.log_bounds()[1]) < stop:
                slave.append_raw(at, source.log[at : at + random.randrange(1, 300)])
                env.clock.advance(random.random() / 4)
            flushed = slave.flushed
            after = killed(env)
            for path, file in after.files.files.items():
                if "/commitlog/" in path:  # any sector may be on the disk, or not
                    for sector in range(0, len(file.data), 512):
                        if random.random() < 0.5:
                            file.data[sector : sector + 512] = file.synced[sector : sector + 512].ljust(512, b"\0")
            again = self.slave(after)
            end = again.log_bounds()[1]
            self.assertIn(end, [0, *source.ends])
            self.assertGreaterEqual(end, max([0, *(one for one in source.ends if one <= flushed and one % LOG_SIZE)]))
            self.feed(again, source.log, 500)
            after.clock.advance(1)
            self.stopped(again)
            self.same(content(after, *FILES), source.files, case)

    def test_torn_properties(self) -> None:
        """NUL in the properties of what was not flushed means that the record is torn, whatever follows it."""
        first = encode(message(properties=b"A\x01" + b"b" * 600), 0, 0, EPOCH_MS)
        second = encode(message(), 1, len(first), EPOCH_MS)
        env = FakeEnvironment()
        slave = self.slave(env)
        slave.append_raw(0, first + second)
        env = killed(env)
        env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[512:600] = bytes(88)
        slave = self.slave(env)
        self.assertEqual(slave.log_bounds(), (0, 0))
        slave.append_raw(0, first + second)
        self.assertEqual(len(self.bodies(slave)), 2)

    def test_checkpoint(self) -> None:
        """A checkpoint's position is that of a whole record, however flushes and pieces fall together."""
        source = self.source(40)
        for size in (13, 50, 99):
            env = FakeEnvironment()
            slave = self.slave(env, checkpoint_bytes=1)
            positions = set()
            for piece in cut(source.log, size):
                slave.append_raw(slave.log_bounds()[1], piece)
                env.clock.advance(0.5)
                positions.add(slave._checkpointer._saved)
            self.assertEqual(positions - {0, *source.ends}, set())
            self.assertGreater(len(positions), 20)


class BeginTests(ReplicaTestCase):
    """A slave whose log begins where its master's last file does."""

    def setUp(self) -> None:
        self.from_source = self.source(150, queue_file_size=100)
        self.base = len(self.from_source.log) // LOG_SIZE * LOG_SIZE

    def late(self, env: FakeEnvironment) -> OpenStore:
        """A slave that has all from the last file on."""
        return self.fed(self.slave(env, queue_file_size=100))

    def fed(self, slave: OpenStore) -> OpenStore:
        """The slave, which was empty, with all from the last file on."""
        for at in range(self.base, len(self.from_source.log), 100):
            slave.append_raw(at, self.from_source.log[at : at + 100])
        return slave

    def check(self, env: FakeEnvironment, slave: OpenStore) -> None:
        """Check that the queues equal the master's from their first message in that file on."""
        self.assertEqual(slave.log_bounds(), (self.base, len(self.from_source.log)))
        master = self.opened(self.from_source.env, small(queue_file_size=100))
        middles = 0
        for key in slave.queues():
            first, end = slave.bounds(*key)
            units = [one for one in master.units(*key, 0, 999) if one.commitlog_offset >= self.base]
            self.assertEqual((slave.units(*key, 0, 999), end), (units, master.bounds(*key)[1]))
            self.assertEqual(first, end - len(units))
            self.assertEqual(len(self.bodies(slave, *key)), len(units))
            if first:
                middles += first % 5 != 0
                result = slave.read(*key, first - 1, ALL, None)
                self.assertEqual((result.status, result.minimum), (ReadStatus.OFFSET_TOO_SMALL, first))
                directory = f"{ROOT}/consumequeue/{key[0]}/{key[1]}"
                name = env.files.list(directory)[0]
                self.assertEqual(int(name), first // 5 * 100)
                filled = env.files.read(f"{directory}/{name}")[: first % 5 * 20]
                self.assertEqual(filled, PREFILL.pack() * (first % 5))
        self.assertGreater(middles, 0)
        self.stopped(master)

    def test_begins(self) -> None:
        """Its first file has that name, its queues begin in the middle, as RocketMQ's do; what is before is gone."""
        env = FakeEnvironment()
        slave = self.late(env)
        self.check(env, slave)
        self.assertEqual(env.files.list(f"{ROOT}/commitlog"), [f"{self.base:020d}"])
        self.assertEqual(slave.last_file(), self.base)
        env.clock.advance(0.1)
        found = self.now(slave.query("T", "k148", 9, 0, EPOCH_MS * 2))
        self.assertEqual(len(found.records), 1)
        self.stopped(slave)

    def test_again(self) -> None:
        """All that is the same after a clean stop, a kill, and with the queues made anew."""
        env = FakeEnvironment()
        slave = self.late(env)
        self.check(env, self.slave(killed(env), queue_file_size=100))
        env.clock.advance(2)
        other = killed(env)
        self.check(other, self.slave(other, queue_file_size=100))
        self.stopped(slave)
        without = killed(env)
        for path in content(env, "consumequeue"):
            without.files.remove(path)
        for other in (env, without):
            slave = self.slave(other, queue_file_size=100)
            self.check(other, slave)
            self.stopped(slave)

    def test_again_at_once(self) -> None:
        """Killed after any of its first bytes, it goes on there, and begins elsewhere while it has no whole record."""
        for count in range(200):
            env = FakeEnvironment()
            slave = self.slave(env, queue_file_size=100)
            slave.append_raw(self.base - LOG_SIZE, self.from_source.log[self.base - LOG_SIZE :][:count])
            env = killed(env)
            slave = self.slave(env, queue_file_size=100)
            begin, end = slave.log_bounds()
            self.assertEqual(begin, self.base - LOG_SIZE if count else 0)
            if end == begin:
                self.check(env, self.fed(slave))
                self.assertEqual(env.files.list(f"{ROOT}/commitlog"), [f"{self.base:020d}"])
                self.stopped(slave)

    def test_names_without_units(self) -> None:
        """Where a power failure left names of queue files, and no unit, each queue begins where its log does."""
        for held_lanes in ((), ("flush",), ("checkpoint",), ("flush", "checkpoint")):
            env = FakeEnvironment()
            slave = self.slave(env, queue_file_size=100)
            env.threads.held.update(held_lanes)
            self.fed(slave)
            env.clock.advance(1)
            after = power_off(env)
            slave = self.slave(after, queue_file_size=100)
            for at in range(max(self.base, slave.log_bounds()[1]), len(self.from_source.log), 100):
                slave.append_raw(at, self.from_source.log[at : at + 100])
                for key in slave.queues():  # the first message can be read at once
                    self.assertEqual(len(self.bodies(slave, *key)), len(slave.units(*key, 0, 999)))
            self.check(after, slave)
            self.stopped(slave)
            slave = self.slave(after, queue_file_size=100)
            self.check(after, slave)
            self.stopped(slave)

    def test_with_an_empty_file(self) -> None:
        """A log of files without a byte in them is an empty one."""
        env = FakeEnvironment()
        env.files.make_directories(f"{ROOT}/commitlog")
        for base in (0, LOG_SIZE):
            env.files.allocate(f"{ROOT}/commitlog/{base:020d}", LOG_SIZE)
        slave = self.late(env)
        self.check(env, slave)
        self.assertEqual(env.files.list(f"{ROOT}/commitlog"), [f"{self.base:020d}"])

    def test_followers_begin_there(self) -> None:
        """What follows the records begins with the first of them."""
        env = FakeEnvironment()
        slave = self.slave(env, queue_file_size=100)
        derived = Derived()
        slave._dispatchers.append(derived)
        slave.append_raw(self.base, self.from_source.log[self.base :])
        self.assertEqual(derived.told, [("recover", self.base), ("dispatch", self.from_source.ends[-1])])


class HalfBatchTests(ReplicaTestCase):
    """A slave whose master was lost in the middle of a batch (reliability D12)."""

    def setUp(self) -> None:
        self.source_env = FakeEnvironment()
        master = self.opened(self.source_env, small())
        self.send(master, message(body=b"first"))
        batch = master.append([message(body=b"of batch %d" % number) for number in range(3)])
        master.end_run()
        self.send(master, message(body=b"last"))
        self.batch, self.after = batch.offset, batch.end
        self.marked_from = master.marked_from
        self.log = log_of(self.source_env, *master.log_bounds())
        self.all = self.bodies(master)
        self.stopped(master)

    def cuts(self) -> Iterator[int]:
        """Ends of a log that has a part of the batch."""
        yield from range(self.batch + 1, self.after, 37)
        yield self.after - 1

    def following(self, cut: int, size: int) -> tuple[FakeEnvironment, OpenStore]:
        """Return a slave that was told of the marks, and has the log up to C{cut}."""
        env = FakeEnvironment()
        slave = self.slave(env)
        self.now(slave.learn_marks(self.marked_from))
        self.feed(slave, self.log[:cut], size)
        return env, slave

    def test_promoted(self) -> None:
        """However the slave ended, as a master it has the batch as a whole or not at all, and goes on."""
        self.assertEqual(self.marked_from, 0)
        for cut in self.cuts():
            env, slave = self.following(cut, 50)
            self.assertEqual((self.bodies(slave), slave.log_bounds()[1]), ([b"first"], cut))
            for machine in (killed(env), power_off(env), env):
                if machine is env:
                    self.stopped(slave)
                master = self.opened(machine)
                self.assertEqual(master.marked_from, 0)
                self.assertIn(self.bodies(master), ([b"first"], []) if machine is not env else ([b"first"],))
                self.assertLessEqual(master.log_bounds()[1], self.batch)
                self.send(master, message(body=b"new"))
                self.assertEqual(self.bodies(master)[-1], b"new")
                self.stopped(master)

    def test_goes_on(self) -> None:
        """A slave gets the rest of the batch, at once or after it ended in any way; nothing is seen twice."""
        for cut in self.cuts():
            env, slave = self.following(cut, 1000)
            for machine in (killed(env), power_off(env)):
                again = self.slave(machine)
                self.now(again.learn_marks(self.marked_from))
                self.feed(again, self.log)
                self.assertEqual(self.bodies(again), self.all)
                self.stopped(again)
            self.feed(slave, self.log[: self.after])
            self.assertEqual(self.bodies(slave), self.all[:-1])
            self.feed(slave, self.log)
            self.assertEqual(self.bodies(slave), self.all)
            self.stopped(slave)

    def test_unknown(self) -> None:
        """Of a master that does not tell of marks each record counts, whatever its properties end with."""
        env = FakeEnvironment()
        slave = self.slave(env)
        self.feed(slave, self.log[: self.after - 1])
        self.assertEqual(self.bodies(slave), self.all[:3])
        self.stopped(slave)
        self.assertEqual(self.bodies(self.opened(env)), self.all[:3])

    def test_other_master(self) -> None:
        """A slave that follows a master which tells of no marks believes in none any more."""
        env, slave = self.following(self.batch, 1000)
        self.now(slave.learn_marks(UNMARKED))
        self.feed(slave, self.log[: self.after - 1])
        self.assertEqual(self.bodies(slave), self.all[:3])
        self.assertEqual(self.bodies(self.opened(killed(env))), self.all[:3])

    def test_bad_record(self) -> None:
        """A bad record within a batch takes back the part before it."""
        _, slave = self.following(self.batch, 1000)
        bad = bytearray(self.log)
        bad[bad.index(b"of batch 2")] ^= 1
        with self.assertRaises(BadRecord):
            self.feed(slave, bytes(bad))
        self.assertEqual(slave.log_bounds()[1], self.batch)
        self.feed(slave, self.log)
        self.assertEqual(self.bodies(slave), self.all)


class RoleTests(ReplicaTestCase):
    """The same directory in the other role."""

    def test_slave_becomes_master(self) -> None:
        """It goes on where its whole records end; its own batches are all or none, its master's stay as they are."""
        marked = message(properties=b"A\x01b\x02")  # of an old client, at the end: no batch of ours
        source = self.source(31)
        log = source.log + encode(marked, self.count(source), len(source.log), EPOCH_MS + 9000)
        for at in (len(source.log), len(log), len(log) - 7):
            whole = len(log) if at == len(log) else len(source.log)
            env = FakeEnvironment()
            slave = self.slave(env)
            slave.append_raw(0, log[:at])
            env = killed(env)
            master = self.opened(env)
            self.assertEqual(master.log_bounds(), (0, whole))
            self.assertIsNone(master.refusal)
            before = self.bodies(master)
            appended = master.append([message(body=b"1"), message(body=b"2"), message(body=b"3")])
            master.end_run()
            self.assertEqual((appended.offset, appended.queue_offset), (whole, len(before)))
            self.assertEqual(self.bodies(master), [*before, b"1", b"2", b"3"])
            half = killed(env)
            half.files.files[f"{ROOT}/commitlog/{whole // LOG_SIZE * LOG_SIZE:020d}"].data[
                appended.offsets[2] % LOG_SIZE : appended.end % LOG_SIZE
            ] = bytes(appended.end - appended.offsets[2])
            self.assertEqual(self.opened(half).log_bounds(), (0, whole))
            self.stopped(master)
            self.assertEqual(self.opened(env).log_bounds(), (0, appended.end))

    def count(self, source: Source) -> int:
        """Return the number of messages in queue 0 of the topic."""
        store = self.opened(killed(source.env))
        return store.bounds("T", 0)[1]

    def test_master_becomes_slave(self) -> None:
        """It goes on with the bytes of the new master, whatever their batches look like, and may be a master again."""
        source = self.source(31)
        env = killed(source.env)
        log = source.log
        slave = self.slave(env)
        number = self.count(source)
        for part in range(3):
            log += encode(message(properties=b"A\x01b\x02"), number + part, len(log), EPOCH_MS + 9000)
        for stop in (len(log) - 120, len(log) - 60, len(log)):
            self.feed(slave, log[:stop])
            self.stopped(slave)
            slave = self.slave(env)
        self.assertEqual(slave.log_bounds(), (0, len(log)))
        self.stopped(slave)
        self.assertEqual(self.opened(env).bounds("T", 0), (0, number + 3))

    def test_rocketmq_slave(self) -> None:
        """The directory of a RocketMQ broker, stopped or killed, is taken as it is, and gone on with."""
        for name in golden_store.NAMES:
            env = with_golden(name)
            master = self.opened(killed(env), StoreSettings())
            before, end = content(env, *FILES), master.log_bounds()[1]
            slave = self.opened(env, StoreSettings(replica=True))
            self.assertEqual(slave.log_bounds(), (0, end))
            self.same(content(env, *FILES), before)
            first = slave.bounds("Plain", 0)[1]
            slave.append_raw(end, encode(message("Plain", body=b"new"), first, end, EPOCH_MS))
            self.assertEqual(self.bodies(slave, "Plain")[-1], b"new")

    def test_ends_with_a_file(self) -> None:
        """A slave that has just a whole file goes on as a master in the next."""
        source = self.source()
        env = FakeEnvironment()
        slave = self.slave(env)
        slave.append_raw(0, source.log[:LOG_SIZE])
        self.stopped(slave)
        master = self.opened(env)
        self.assertEqual(master.append([message()]).offset, LOG_SIZE)


class StepTests(ReplicaTestCase):
    """Queue offsets that do not continue their queue."""

    def log(self, *numbers: int, begin: int = 0, **changes: Any) -> bytes:
        """Records with these queue offsets."""
        log = b""
        for number in numbers:
            log += encode(message(body=b"%d" % number, **changes), number, begin + len(log), EPOCH_MS)
        return log

    def units(self, slave: OpenStore) -> list[Unit]:
        """All units of the queue."""
        return slave.units("T", 0, 0, 99)

    def fed(self, *numbers: int) -> list[OpenStore]:
        """Slaves that got these, in one piece and in many."""
        found = []
        for size in (40, 1 << 20):
            slave = self.slave(FakeEnvironment())
            self.feed(slave, self.log(*numbers), size)
            found.append(slave)
        return found

    def read(self, slave: OpenStore) -> list[int]:
        """The numbers that can be read."""
        return [int(bytes(one.body)) for one in self.read_all(slave)]

    def test_one_wrong(self) -> None:
        """One that is out of step costs its own message, and the others keep their places."""
        for wrong in (1, 7, 900, 1 << 40):
            for slave in self.fed(0, 1, 2, wrong, 4, 5):
                self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([0, 1, 2, 4, 5], (0, 6)))
                self.assertEqual(self.units(slave)[3].size, PREFILL.size)

    def test_one_too_many(self) -> None:
        """One that has another's offset is left out."""
        for slave in self.fed(0, 1, 9, 2, 3):
            self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([0, 1, 2, 3], (0, 4)))

    def test_gap(self) -> None:
        """Two that count on from further ahead are believed: the master has lost what was between."""
        for slave in self.fed(0, 1, 50, 51, 52):
            self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([0, 1, 50, 51, 52], (0, 53)))
            self.assertEqual({one.size for one in self.units(slave)[2:50]}, {PREFILL.size})

    def test_impossible(self) -> None:
        """What falls back, or jumps beyond all bounds, is left out, and what counts on is taken."""
        for slave in self.fed(0, 1, 2, 3, 1, 2, 2_000_000, 2_000_001, 1 << 50, 4, 5):
            self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([0, 1, 2, 3, 4, 5], (0, 6)))

    def test_impossible_queue(self) -> None:
        """A record of a queue that no topic has is left out, told of once, and stops nobody."""
        log = self.log(0, 1)
        log += self.log(0, 1, 2, begin=len(log), queue_id=(1 << 31) - 1)
        log += self.log(0, begin=len(log), queue_id=1 << 16)
        log += self.log(2, 3, begin=len(log))
        env = FakeEnvironment()
        slave = self.slave(env)
        with capturedLogs() as logs:
            self.feed(slave, log)
        self.assertEqual((self.read(slave), list(slave.queues())), ([0, 1, 2, 3], [("T", 0)]))
        self.assertEqual(len([one for one in logs if "no topic has" in one["log_format"]]), 1)
        reopened = self.slave(killed(env))
        self.assertEqual((self.read(reopened), list(reopened.queues())), ([0, 1, 2, 3], [("T", 0)]))
        self.assertEqual(reopened.log_bounds(), (0, len(log)))

    def test_first_is_impossible(self) -> None:
        """A queue does not begin where none can."""
        for slave in self.fed(1 << 50, 3, 4):
            self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([3, 4], (3, 5)))

    def test_no_room_for_a_gap(self) -> None:
        """Where the disk has no room for what is missing, nothing is lost: it is taken later."""
        env = FakeEnvironment()
        slave = self.slave(env, disk_free_minimum=0, disk_full_ratio=1.0, index=False)
        log = self.log(0, 1, 50, 51, 52)
        two = self.log(0, 1, 50)
        slave.append_raw(0, two)
        env.files.free = 100
        self.assertRaises(ServiceNotAvailable, slave.append_raw, len(two), log[len(two) :])
        self.assertEqual(slave.log_bounds(), (0, len(two)))
        env.files.free = 1 << 39
        self.feed(slave, log)
        self.assertEqual(self.read(slave), [0, 1, 50, 51, 52])

    def test_deleted_at_the_master(self) -> None:
        """A queue that begins again at 0 was deleted with its topic: what the topic had is gone, now and later."""
        for after_flush in (False, True):
            env = FakeEnvironment()
            slave = self.slave(env, sync_flush=after_flush)
            other = self.log(0, 1, queue_id=1)
            log = other + self.log(0, 1, 2, begin=len(other))
            log += self.log(0, begin=len(log))
            slave.append_raw(0, log[:300])
            self.feed(slave, log)
            self.assertEqual((self.read(slave), slave.bounds("T", 0), slave.bounds("T", 1)), ([0], (0, 1), (0, 0)))
            again = self.log(0, begin=len(log), queue_id=1)
            self.feed(slave, log + again)
            self.assertEqual(slave.bounds("T", 1), (0, 1))
            for machine in (killed(env), power_off(env)):
                reopened = self.slave(machine)
                self.feed(reopened, log + again)
                self.assertEqual((self.read(reopened), reopened.bounds("T", 1)), ([0], (0, 1)))
            self.stopped(slave)
            self.assertEqual(self.read(self.slave(env)), [0])
            self.assertEqual(env.files.list(f"{ROOT}/smartgo.deleted"), [])

    def test_killed_before_the_table(self) -> None:
        """A slave that is killed before its table of queues tells of a deletion goes on with the master's offsets."""
        for count in range(1, 4):
            env = FakeEnvironment()
            slave = self.slave(env)
            log = self.log(0, 1, 2, 3, 4)
            self.feed(slave, log)
            env.clock.advance(2)
            env.threads.held.add("checkpoint")
            log += self.log(*range(count), begin=len(log))
            self.feed(slave, log)
            after = killed(env)
            env.threads.held.clear()
            env.threads.release("checkpoint")
            log += self.log(count, begin=len(log))
            for _ in range(2):
                slave = self.slave(after)
                self.assertEqual(self.read(slave)[:count], list(range(count)))
                self.feed(slave, log)
                self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([*range(count + 1)], (0, count + 1)))
                after = killed(after)

    def test_no_room_for_a_deletion(self) -> None:
        """Where it cannot be written down that a topic was deleted, the slave waits for room with what comes next."""
        env = FakeEnvironment()
        slave = self.slave(env)
        log = self.log(0, 1, 2)
        self.feed(slave, log)
        env.files.fail[f"{ROOT}/smartgo.deleted/1.mark"] = errno.ENOSPC
        again = log + self.log(0, begin=len(log))
        self.assertRaises(ServiceNotAvailable, slave.append_raw, len(log), again[len(log) :])
        self.assertEqual((self.read(slave), slave.log_bounds()), ([0, 1, 2], (0, len(log))))
        env.files.fail.clear()
        self.feed(slave, again)
        self.assertEqual(self.read(slave), [0])

    def test_deleted_and_begun_elsewhere(self) -> None:
        """Messages that a topic of the same name has already got in a queue that is new stay when an old one begins."""
        for after_flush in (False, True):
            env = FakeEnvironment()
            slave = self.slave(env, sync_flush=after_flush)
            log = self.log(0, 1, 2)
            self.feed(slave, log)
            log += self.log(0, 1, begin=len(log), queue_id=1)
            log += self.log(0, begin=len(log))
            for at in range(len(log) - 400, len(log), 100):
                slave.append_raw(slave.log_bounds()[1], log[slave.log_bounds()[1] : at])
            env.clock.advance(0)
            self.feed(slave, log)
            log += self.log(2, begin=len(log), queue_id=1)
            self.feed(slave, log)
            for reopened in self.however_ended(slave, env, log):
                self.assertEqual(
                    (self.read(reopened), reopened.bounds("T", 0), reopened.bounds("T", 1)), ([0], (0, 1), (0, 3))
                )
                self.assertEqual([one.queue_offset for one in self.read_all(reopened, "T", 1)], [0, 1, 2])

    def test_deleted_here(self) -> None:
        """A topic that is deleted here while a record of it comes keeps that record."""
        env = FakeEnvironment()
        slave = self.slave(env)
        log = self.log(0, 1, 2)
        slave.append_raw(0, log[:-5])
        self.now(slave.delete_topic("T"))
        self.feed(slave, log)
        self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([2], (2, 3)))
        self.assertEqual(self.read(self.slave(killed(env))), [2])

    def test_deleted_since(self) -> None:
        """
        Of a topic that is deleted with what it had up to a place, queues that began later stay, readable or not yet.

        Queues that began before go, with what came for them since: none holds messages of two topics of one name.
        """
        for after_flush in (False, True):
            for again in (False, True):
                with self.subTest(after_flush=after_flush, again=again):
                    self.check_deleted_since(after_flush, again)

    def check_deleted_since(self, after_flush: bool, again: bool) -> None:
        """@param again: whether a queue that was there begins anew, too."""
        env = FakeEnvironment()
        slave = self.slave(env, sync_flush=after_flush)
        log = self.log(0, 1, 2)
        log += self.log(0, 1, begin=len(log), queue_id=1)
        self.feed(slave, log)
        since = len(log)
        log += self.log(2, begin=len(log), queue_id=1)  # the master deletes the topic here
        log += self.log(0, 1, begin=len(log), queue_id=7)
        if again:
            log += self.log(0, begin=len(log))
        env.threads.held.add("flush")
        slave.append_raw(since, log[since:])
        self.assertEqual(slave.bounds("T", 7), (0, 0) if after_flush else (0, 2))
        deleting = slave.delete_topic("T", since)
        env.threads.held.discard("flush")
        env.threads.release("flush")
        self.feed(slave, log)
        self.now(deleting)
        log += self.log(2, begin=len(log), queue_id=7)
        self.feed(slave, log)
        for reopened in self.however_ended(slave, env, log):
            self.assertEqual([one.queue_offset for one in self.read_all(reopened, "T", 7)], [0, 1, 2])
            self.assertEqual((self.read(reopened), reopened.bounds("T", 1)), ([0] if again else [], (0, 0)))

    def test_deleted_while_odd(self) -> None:
        """A queue whose last message was out of step begins like any other when its topic is made anew."""
        slave = self.slave(FakeEnvironment())
        log = self.log(0, 1, 5)
        self.feed(slave, log)
        self.now(slave.delete_topic("T"))
        since = len(log)
        log += self.log(0, 1, begin=since)
        self.feed(slave, log)
        self.now(slave.delete_topic("T", since))
        self.assertEqual(self.read(slave), [0, 1])

    def test_no_offsets_are_kept(self) -> None:
        """A slave whose queue is made anew keeps no offsets free of which an old table tells: the master gives them."""
        env = FakeEnvironment()
        slave = self.slave(env)
        log = self.log(0, 1, 2, 3)
        self.feed(slave, log)
        self.stopped(slave)
        table = env.files.read(f"{ROOT}/smartgo.queues")
        slave = self.slave(env)
        self.feed(slave, log + self.log(0, 1, begin=len(log)))
        env = killed(env)
        env.files.files[f"{ROOT}/smartgo.queues"].data[:] = table
        env.files.remove(f"{ROOT}/consumequeue/T/0/{0:020d}")
        slave = self.slave(env)
        self.assertEqual((self.read(slave), slave.bounds("T", 0)), ([0, 1], (0, 2)))
