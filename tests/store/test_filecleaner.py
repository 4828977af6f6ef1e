"""Tests of L{smartgo.store.filecleaner}, in stores on a fake disk."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import Any

from zope.interface import implementer

from smartgo.errors import NoSuchMessage, ServiceNotAvailable
from smartgo.schema import regions
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.regions import Region
from smartgo.store.filecleaner import RemovedFiles
from smartgo.store.interfaces import ILogNeed, ReadStatus
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.expiry import ExpiredUnits
from smartgo.store.retention import RemovalReason, RetentionRules
from tests.fakes import FakeEnvironment
from tests.store.stores import ALL, LOG_SIZE, ROOT, StoreTestCase, held, killed, message, power_off, small
from tests.store.test_dispatch import Derived

DAY = 86_400
LOG = ROOT + "/commitlog"
QUEUE = ROOT + "/consumequeue/T/0"
UNITS = 20  # in a queue file


class CleanerTestCase(StoreTestCase):
    """A store with old files."""

    def setUp(self) -> None:
        """Make the machine."""
        self.env = FakeEnvironment()
        self.env.clock.advance(3600)

    def store(self, env: FakeEnvironment | None = None, index: bool = False, **rules: Any) -> OpenStore:
        """An open store that removes files."""
        values: dict[str, Any] = {"free_minimum": 0, "hours": tuple(range(24)), **rules}
        retention = RetentionRules(**values)
        settings = small(retention=retention, disk_free_minimum=0, disk_full_ratio=retention.full_ratio, index=index)
        return self.opened(self.env if env is None else env, settings)

    def names(self, directory: str = LOG, env: FakeEnvironment | None = None) -> list[int]:
        """The offsets at which the files of a directory begin."""
        return [int(name) for name in (env or self.env).files.list(directory)]

    def advance(self, seconds: float, step: float = 0.1) -> None:
        """Let time go by, in steps so short that each pause is seen to end."""
        for _ in range(round(seconds / step)):
            self.env.clock.advance(step)

    def files_of_days(self, store: OpenStore, days: int, queues: int = 1) -> list[bytes]:
        """Fill at least a file a day; return the bodies."""
        bodies: list[bytes] = []
        for day in range(days):
            for number in range(20):
                body = b"%d-%d" % (day, number) + b"." * 100
                bodies.append(body)
                self.send(store, message("T", number % queues, body))
                self.env.clock.advance(1.0)
            self.env.clock.advance(DAY)
        return bodies


@implementer(ILogNeed)
class Need:
    """A need of the log."""

    def __init__(self, at: int) -> None:
        """@param at: files that end there or behind it are needed."""
        self.at = at

    def release(self, end: int) -> bool:
        """See L{ILogNeed}."""
        return end < self.at

    def obstacle(self, end: int) -> str | None:
        """See L{ILogNeed}."""
        return "it is needed" if end >= self.at else None


class RemovalTests(CleanerTestCase):
    """The removed files, and their order."""

    def test_age(self) -> None:
        """Log files go when their last message is 72 h old; what is younger can be read as before, from 21 on."""
        store = self.store()
        bodies = self.files_of_days(store, 6)
        begin, end = store.log_bounds()
        self.assertEqual(self.names()[0], begin)
        self.assertGreater(begin, 0)
        first, last = store.bounds("T", 0)
        self.assertEqual(last, len(bodies))
        self.assertEqual(self.bodies(store), bodies[first:])
        self.assertEqual(end, store.log_bounds()[1])
        oldest = self.now(store.stored_ms("T", 0, first))
        self.assertLess(self.env.clock.wall_ms() - oldest, (72 + 25) * 3_600_000)
        result = store.read("T", 0, 0, ALL, None)
        self.assertEqual((result.status, result.next_offset), (ReadStatus.OFFSET_TOO_SMALL, first))
        self.assertEqual(result.minimum, first)

    def test_queue_files(self) -> None:
        """Queue files whose messages are all gone go after the log's; the last one of a queue never does."""
        store = self.store()
        self.files_of_days(store, 3)
        self.send(store, message("Other"))
        self.files_of_days(store, 5)
        first = store.bounds("T", 0)[0]
        self.assertEqual(self.names(QUEUE)[0], first // UNITS * UNITS * 20)
        self.assertGreater(store.cleaner.removed.queue_files, 0)
        self.assertEqual(store.bounds("Other", 0), (1, 1))
        self.assertEqual(self.names(ROOT + "/consumequeue/Other/0"), [0])
        self.assertEqual(self.send(store, message("Other"))[0], store._by_key["Other", 0].unit(1).commitlog_offset)  # type: ignore[union-attr]
        self.assertEqual(store.bounds("Other", 0), (1, 2))
        self.assertEqual(self.env.files.list(ROOT + "/smartgo.deleted"), [])

    def test_figures(self) -> None:
        """What was removed is counted, by reason, and listeners hear which messages are gone."""
        store = self.store(log_size=3 * LOG_SIZE)
        told: list[ExpiredUnits] = []
        store.cleaner.expiry.listeners.append(told.append)
        self.fill(store, 200)
        self.advance(60)
        removed = store.cleaner.removed
        begin = store.log_bounds()[0]
        self.assertEqual((removed.log_files, removed.log_bytes), (begin // LOG_SIZE, begin))
        self.assertEqual(removed.by_reason[RemovalReason.SIZE], removed.log_files)
        self.assertEqual(told[0].begin, 0)
        self.assertEqual([one.begin for one in told[1:]], [one.end for one in told[:-1]])
        self.assertEqual(told[-1], ("T", 0, told[-1].begin, store.bounds("T", 0)[0]))

    def test_idle(self) -> None:
        """A store with one log file has no timer, and one without rules has none at all."""
        store = self.store()
        self.send(store, message())
        self.now(store.flush())
        self.advance(120)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.stopped(store)
        store = self.opened(self.env, small())
        self.fill(store, 200)
        self.now(store.flush())
        self.advance(120)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """A store that stops leaves no timer, whatever it was about to do."""
        store = self.store(log_size=2 * LOG_SIZE)
        self.fill(store, 200)
        self.env.clock.advance(10)
        self.stopped(store)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_soon_after_the_start(self) -> None:
        """Where its size is limited, a log that is too large at the start is looked at after 10 s, another after 60."""
        store = self.store(hours=())
        self.fill(store, 200)
        self.stopped(store)
        count = len(self.names())
        self.assertGreater(count, 3)
        store = self.store(hours=range(24), reserved=0.0)
        self.advance(59)
        self.assertEqual(len(self.names()), count)
        self.stopped(store)
        store = self.store(hours=(), log_size=3 * LOG_SIZE)
        self.advance(9)
        self.assertEqual(len(self.names()), count)
        self.advance(3)
        self.assertEqual(len(self.names()), 3)
        self.assertEqual(store.cleaner.removed.by_reason[RemovalReason.SIZE], count - 3)

    def test_batches(self) -> None:
        """Files go ten at a look, with a pause between two of them, so that others can use the disk."""
        store = self.store(log_size=LOG_SIZE)
        self.fill(store, 1000)
        count = len(self.names())
        self.assertGreater(count, 12)
        self.advance(10)
        self.assertEqual(len(self.names()), count)
        seen = []
        for _ in range(90):
            self.advance(0.1)
            seen.append(count - len(self.names()))
        steps = [after - before for before, after in pairwise(seen)]
        self.assertEqual((max(steps), seen[-1]), (1, 10))

    def test_asked(self) -> None:
        """Somebody can ask for it: expired files go at once at any hour, for twenty looks."""
        store = self.store(hours=())
        self.files_of_days(store, 6)
        self.advance(60)
        self.assertEqual(store.log_bounds()[0], 0)
        plan = self.now(store.cleaner.plan())
        self.assertEqual(plan.removals[0].file.base, 0)
        self.assertEqual(store.log_bounds()[0], 0)
        store.cleaner.clean()
        self.advance(3)
        self.assertEqual(store.log_bounds()[0], plan.removals[-1].file.base + LOG_SIZE)

    def test_damage(self) -> None:
        """A damaged region is forgotten with its file, and nothing that was checked in it is remembered."""
        store = self.store(hours=())
        self.files_of_days(store, 6)
        end = store.log_bounds()[1]
        store.damage.add([Region(100, 50, "body CRC differs"), Region(end - 50, 50, "body CRC differs")])
        store.cleaner.clean()
        self.advance(3)
        self.assertGreater(store.log_bounds()[0], 150)
        self.assertEqual([one.offset for one in store.damage.regions], [end - 50])
        listed = regions.decode(self.env.files.read(f"{ROOT}/{regions.PATH}"))
        self.assertEqual(listed, store.damage.regions)

    def test_dispatchers(self) -> None:
        """What is derived from the log follows its beginning; the index drops files that lead to nothing."""
        store = self.store(log_size=3 * LOG_SIZE)
        derived = Derived()
        store._dispatchers.append(derived)
        self.fill(store, 200)
        self.advance(60)
        begins = [value for name, value in derived.told if name == "expire"]
        self.assertEqual(begins[-1], store.log_bounds()[0])
        self.assertEqual(begins, sorted(set(begins)))

    def test_rules_changed(self) -> None:
        """Other rules count from the next look on."""
        store = self.store(hours=())
        self.fill(store, 200)
        self.advance(60)
        self.assertEqual(store.log_bounds()[0], 0)
        store.cleaner.change_rules(RetentionRules(free_minimum=0, log_size=2 * LOG_SIZE))
        self.advance(30)
        self.assertEqual(len(self.names()), 2)

    def test_clock_set(self) -> None:
        """A clock that jumps a day, or a month, forward expires nothing for ten minutes (reliability H9)."""
        store = self.store()
        self.fill(store, 200)
        self.advance(100)
        self.env.clock.wall_offset_ms += 30 * DAY * 1000
        self.advance(590)
        self.assertEqual(store.log_bounds()[0], 0)
        self.advance(60)
        self.assertGreater(store.log_bounds()[0], 0)

    def test_lookups(self) -> None:
        """A message that is gone is not found by its id, key, time or offset, and each says so clearly."""
        store = self.store(index=True, log_size=3 * LOG_SIZE)
        offsets = [self.send(store, message(body=b"%d" % n, properties=b"KEYS\x01k%d" % n))[0] for n in range(200)]
        self.advance(60)
        first = store.bounds("T", 0)[0]
        self.assertGreater(first, 0)
        self.failureResultOf(store.at(offsets[0]), NoSuchMessage)
        self.assertEqual(self.now(store.stored_ms("T", 0, 0)), -1)
        self.assertEqual(self.now(store.offset_at("T", 0, 1)), first)
        found = self.now(store.query("T", "k0", 10, 0, 1 << 60))
        self.assertEqual(found.records, [])
        self.assertEqual(len(self.now(store.query("T", "k199", 10, 0, 1 << 60)).records), 1)
        self.assertEqual(store.units("T", 0, 0, 1)[0].commitlog_offset, offsets[first])


class HeldTests(CleanerTestCase):
    """Files that somebody reads."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.store(log_size=2 * LOG_SIZE)
        self.fill(self.log, 200)

    def slice_of_the_oldest(self) -> None:
        """Have somebody hold a slice of the oldest file."""
        self.log._commitlog.slice(0, 100)
        mapping = self.log._commitlog.files.files[0].mapping
        assert mapping is not None
        self.env.files.slices_of.add(mapping.path)

    def test_slave(self) -> None:
        """The file that a slave is being sent stays, for 120 s at most; those before it go."""
        position = [2 * LOG_SIZE + 10]
        self.log.cleaner.readers.append(lambda: position)
        self.advance(110)
        self.assertEqual(self.names()[0], 2 * LOG_SIZE)
        self.advance(40)
        self.assertEqual(len(self.names()), 2)

    def test_slave_goes_on(self) -> None:
        """It goes as soon as the slave is past it."""
        position = [10]
        self.log.cleaner.readers.append(lambda: position)
        self.advance(30)
        self.assertEqual(self.names()[0], 0)
        position[0] = 1 << 40
        self.advance(10)
        self.assertEqual(len(self.names()), 2)

    def test_needed(self) -> None:
        """A file that is needed stays however long it takes, with those behind it; the plan says why."""
        need = Need(3 * LOG_SIZE)
        self.log.cleaner.needs.append(need)
        self.advance(400)
        self.assertEqual(self.names()[0], 2 * LOG_SIZE)
        plan = self.now(self.log.cleaner.plan())
        self.assertEqual(plan, ([], "it is needed"))
        self.assertEqual(self.log.cleaner.obstacle, "it is needed")
        need.at = 1 << 40
        self.advance(20)
        self.assertIsNone(self.log.cleaner.obstacle)
        self.assertEqual(len(self.names()), 2)

    def test_slices(self) -> None:
        """A file of which a client is being sent a slice is out of reach at once, and removed when that is written."""
        self.slice_of_the_oldest()
        self.advance(20)
        self.assertGreater(self.log.log_bounds()[0], 0)
        self.assertEqual(self.names()[0], 0)
        self.assertEqual(self.log.read("T", 0, 0, ALL, None).status, ReadStatus.OFFSET_TOO_SMALL)
        self.env.files.slices_of.clear()
        self.advance(5)
        self.assertNotEqual(self.names()[0], 0)

    def test_slices_too_long(self) -> None:
        """After 120 s it is removed whoever has a slice: that stays as it is."""
        self.slice_of_the_oldest()
        self.advance(125)
        self.assertEqual(self.names()[0], 0)
        self.advance(15)
        self.assertEqual(len(self.names()), 2)

    def test_closed_with_slices(self) -> None:
        """A store that is closed removes what it had taken out of the log."""
        self.slice_of_the_oldest()
        self.advance(20)
        begin = self.log.log_bounds()[0]
        self.assertEqual(self.names()[0], 0)
        self.stopped(self.log)
        self.assertEqual(self.names()[0], begin)

    def test_cannot_be_removed(self) -> None:
        """A file that the system does not let go is tried again; the log is whole meanwhile."""
        path = LOG + "/" + "0" * 20
        self.env.files.fail[path] = errno.EIO
        self.advance(40)
        self.assertEqual(self.names()[0], 0)
        before = self.log.cleaner.removed.log_files
        self.assertEqual(before, 0)
        del self.env.files.fail[path]
        self.advance(20)
        self.assertEqual(len(self.names()), 2)
        self.send(self.log, message())

    def test_removed_by_hand(self) -> None:
        """A file that somebody else removed counts as removed."""
        self.env.clock.advance(9)
        del self.env.files.files[LOG + "/" + "0" * 20]
        self.advance(20)
        self.assertEqual(len(self.names()), 2)


class SlaveTests(CleanerTestCase):
    """A slave removes its own files, by its own rules, as RocketMQ's slaves do."""

    def test_own_rules(self) -> None:
        """It removes what its rules say whatever its master keeps, and goes on copying; so after a restart."""
        master = self.store(forcible=False)
        env = FakeEnvironment()
        rules = RetentionRules(free_minimum=0, forcible=False, log_size=3 * LOG_SIZE)
        settings = small(retention=rules, disk_free_minimum=0, replica=True)
        slave = self.opened(env, settings)
        for _ in range(3):
            self.fill(master, 100)
            while slave.log_bounds()[1] < master.log_bounds()[1]:
                at = slave.log_bounds()[1]
                piece = master.piece(at, 1000)
                assert piece is not None
                slave.append_raw(at, bytes(piece))
            for _ in range(700):  # the first look is a minute after a start
                env.clock.advance(0.1)
            begin, end = slave.log_bounds()
            self.assertEqual((master.log_bounds()), (0, end))
            self.assertLessEqual(end - begin, 3 * LOG_SIZE)
            first = slave.bounds("T", 0)[0]
            self.assertEqual(self.bodies(slave), self.bodies(master)[first:])
            self.stopped(slave)
            slave = self.opened(env, settings)
            self.assertEqual((slave.log_bounds(), slave.bounds("T", 0)[0]), ((begin, end), first))

    def test_master_keeps(self) -> None:
        """What the master still has does not expire, and expires when the master has removed it."""
        minimum = 0
        store = self.store()
        store.cleaner.masters.append(lambda: minimum)
        self.fill(store, 300)
        self.advance(130, 1.0)
        self.env.clock.advance(100 * 3600.0)
        self.advance(130, 1.0)
        self.assertEqual(store.log_bounds()[0], 0)
        minimum = 2 * LOG_SIZE
        self.advance(30, 1.0)
        self.assertEqual(store.log_bounds()[0], minimum)


class KilledTests(CleanerTestCase):
    """A process that is killed, or a machine that loses power, at every step of the removal."""

    def check(self, env: FakeEnvironment, bodies: list[bytes], gone: int) -> None:
        """The store opens, has all messages that it may not have lost, and removes the rest later."""
        store = self.store(env, log_size=3 * LOG_SIZE)
        first, end = store.bounds("T", 0)
        self.assertEqual(end, len(bodies))
        self.assertLessEqual(first, gone)
        self.assertEqual(self.bodies(store), bodies[first:])
        self.assertEqual(store.bounds("Quiet", 0)[1], 1)
        self.env, before = env, self.env
        self.send(store, message(body=b"new"))
        self.assertEqual(store.bounds("T", 0)[1], len(bodies) + 1)
        self.advance(90)
        self.assertLessEqual(len(self.names()), 4)
        first = store.bounds("T", 0)[0]
        self.assertEqual(self.bodies(store), [*bodies, b"new"][first:])
        self.assertEqual(self.names(QUEUE)[0], first // UNITS * UNITS * 20)
        self.assertEqual(store.bounds("Quiet", 0), (1, 1))
        self.stopped(store)
        self.env = before

    def test_every_step(self) -> None:
        """Whatever was done last, the next start has every message that is left, and goes on."""
        for machine in (killed, power_off):
            for steps in range(60):
                env = self.env = FakeEnvironment()
                store = self.store(log_size=3 * LOG_SIZE)
                self.send(store, message("Quiet"))
                bodies = self.fill(store, 200)
                self.now(store.flush())
                lanes = ("remove", "prepare", "checkpoint")
                with held(env, *lanes):
                    env.clock.advance(60)
                    for _ in range(steps):
                        if not any(env.threads.release(lane, 1) for lane in lanes):
                            env.clock.advance(0.1)
                    gone = store.bounds("T", 0)[0]
                    after = machine(env)
                done = len(self.names(env=env)) <= 3
                self.stopped(store)
                self.check(after, bodies, max(gone, len(bodies)))
                if steps > 40 and not done:
                    self.fail("nothing was removed")

    def test_left_queue_files(self) -> None:
        """Queue files that a killed process did not come to are removed by the next."""
        store = self.store(log_size=3 * LOG_SIZE)
        self.fill(store, 200)
        with held(self.env, "checkpoint"):
            self.advance(60)
            self.env = killed(self.env)
        self.assertEqual(self.names(QUEUE)[0], 0)
        store = self.store(log_size=1000 * LOG_SIZE)
        self.advance(70)
        first = store.bounds("T", 0)[0]
        self.assertEqual(self.names(QUEUE)[0], first // UNITS * UNITS * 20)

    def test_log_file_comes_back(self) -> None:
        """A log file whose removal did not become durable is the oldest one again, and goes again."""
        store = self.store(log_size=3 * LOG_SIZE)
        self.send(store, message("Quiet"))
        bodies = self.fill(store, 200)
        before = killed(self.env)
        self.advance(60)
        self.stopped(store)
        begin = store.log_bounds()[0]
        back = f"{LOG}/{begin - LOG_SIZE:020d}"
        self.env.files.files[back] = before.files.files[back]
        self.check(self.env, bodies, len(bodies))


class FullDiskTests(CleanerTestCase):
    """A disk that is full: sends are refused, reads go on, retention makes room, sends go on without a restart."""

    def used(self) -> float:
        """The share of the disk in use."""
        return 1 - self.env.files.free / self.env.files.total

    def send_until_refused(self, store: OpenStore, most: int = 5000) -> int:
        """Send until a message is refused; return how many were taken."""
        for number in range(most):
            try:
                self.send(store, message(body=b"%d" % number + b"." * 100))
            except ServiceNotAvailable:
                return number
            if number % 20 == 0:
                self.now(store.flush())
        return most

    def test_retention_keeps_it_open(self) -> None:
        """With retention a small disk takes messages for good, and never passes 85 %."""
        self.env.files.total = 40 * LOG_SIZE
        self.env.files.free = 40 * LOG_SIZE
        store = self.store()
        most = 0.0
        for number in range(6000):
            self.send(store, message(body=b"%d" % number + b"." * 100))
            if number % 10 == 0:
                self.advance(2.0)
            most = max(most, self.used())
        self.assertGreater(store.log_bounds()[1], 200 * LOG_SIZE)
        self.assertLess(most, 0.855)  # queue files of a small disk are a share of it
        self.assertIsNone(store.refusal)
        first, end = store.bounds("T", 0)
        self.assertEqual((end, len(self.bodies(store))), (6000, 6000 - first))

    def test_refused_and_back(self) -> None:
        """What fills a disk is refused with the reason; reads go on; messages are taken within one look of room."""
        self.env.files.total = 40 * LOG_SIZE
        self.env.files.free = 40 * LOG_SIZE
        store = self.store()
        sent = self.send_until_refused(store)
        assert store.refusal is not None
        self.assertEqual(store.refusal.kind, RefusalKind.DISK_FULL)
        self.assertEqual(len(self.bodies(store)), sent)
        self.advance(70)
        self.assertIsNone(store.refusal)
        self.assertLessEqual(self.used(), 0.85)
        self.send(store, message(body=b"again"))
        self.assertEqual(self.bodies(store)[-1], b"again")

    def test_no_room_for_a_file(self) -> None:
        """Where the disk is too small for the next file the oldest one makes room for it."""
        self.env.files.total = self.env.files.free = 8 * LOG_SIZE
        store = self.store(full_ratio=1.0, forcible_ratio=1.0)
        sent = self.send_until_refused(store)
        assert store.refusal is not None
        self.assertEqual(store.refusal.kind, RefusalKind.NO_ROOM)
        self.assertEqual(len(self.bodies(store)), sent)
        self.advance(70)
        self.assertIsNone(store.refusal)
        self.send(store, message(body=b"again"))

    def test_of_others(self) -> None:
        """No message is removed where other files fill the disk: sends are refused until somebody makes room."""
        store = self.store()
        self.fill(store, 200)
        self.env.files.free = self.env.files.total // 50
        self.advance(70)
        self.assertEqual(store.log_bounds()[0], 0)
        assert store.refusal is not None
        self.assertEqual(store.refusal.kind, RefusalKind.DISK_FULL)
        self.env.files.free = self.env.files.total // 2
        self.advance(10)
        self.assertIsNone(store.refusal)
        self.assertEqual(store.log_bounds()[0], 0)

    def test_removed_nothing(self) -> None:
        """A store that has removed nothing says so."""
        store = self.store()
        self.assertEqual(store.cleaner.removed, RemovedFiles(0, 0, 0, dict.fromkeys(RemovalReason, 0)))
