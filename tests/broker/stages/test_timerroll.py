"""Waiting messages outlive their log file: they are written again before retention removes it."""

from __future__ import annotations

import errno
from collections import Counter
from typing import Any

from twisted.logger import LogLevel, capturedLogs, formatEvent

from smartgo.broker.stages.timerroll import TimerRoll, rolled_copy, warn_of_undelivered
from smartgo.errors import MessageIllegal, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.properties import decode, encode
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.timers import original_of, waiting_due_ms
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.interfaces import Appended
from smartgo.store.logcopies import LogCopies
from smartgo.store.opening import open_store
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings
from smartgo.store.timer import waiting
from tests.broker.stages.test_timerdelivery import HOST, NOW, Timers, timed
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, message, power_off, small

HOUR = 3600.0


def expiring(**changes: Any) -> StoreSettings:
    """Return the settings of a store whose log files are soon full, and go after an hour."""
    rules = RetentionRules(reserved=HOUR, hours=tuple(range(24)))
    return small(**{"log_file_size": 8192, "queue_file_size": 4000, "retention": rules, **changes})


class Rolling(Timers):
    """A store whose log files are soon full, and go after an hour."""

    def __init__(self, case: StoreTestCase, env: FakeEnvironment, **settings: Any) -> None:
        """@param settings: of the store, that are not those of L{expiring}."""
        self.settings = settings
        super().__init__(case, env, 8)
        self.roll = TimerRoll(env.clock, self.store, self.timers)
        self.store.cleaner.needs.append(self.roll)

    def begin(self) -> int:
        """Return the physical offset where the log begins."""
        return self.store.log_bounds()[0]

    def open(self, limit: int) -> None:
        """Open a store with rules of retention."""
        settings = expiring(timers=True, timers_in_memory=limit, **self.settings)
        self.store = self.case.successResultOf(open_store(self.env, ROOT, settings))

    def fill(self, count: int) -> None:
        """Append plain messages."""
        for _ in range(count):
            self.send(message("Plain", body=b"x" * 200))

    def stop(self) -> None:
        """Stop in order."""
        self.roll.stop()
        super().stop()


class RollTests(StoreTestCase):
    """One store."""

    def setUp(self) -> None:
        """Begin."""
        self.env = FakeEnvironment()
        self.env.clock.wall_offset_ms = NOW
        self.timers = Rolling(self, self.env)

    def again(self, env: FakeEnvironment) -> Rolling:
        """The same store in another process."""
        env.clock.wall_offset_ms = self.env.clock.wall_offset_ms
        self.env = env
        self.timers = Rolling(self, env)
        return self.timers

    def tearDown(self) -> None:
        """Nothing is left."""
        self.timers.stop()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def busy(self, hours: int) -> None:
        """Let hours pass in which the log grows."""
        for _ in range(hours * 6):
            self.timers.fill(20)
            self.timers.advance(600, 10.0)

    def test_all_come(self) -> None:
        """Messages that wait for ten times as long as the log is kept come at their time, once, and none is early."""
        due = {str(number): NOW + 1000 * (number * 300 + 7000) for number in range(120)}
        self.timers.send(*[timed(at, key) for key, at in due.items()])
        self.busy(12)
        first = self.timers.store.log_bounds()[0]
        self.assertGreater(first, 50_000)
        self.assertGreater(self.timers.roll.rolled, 60)
        self.assertEqual(Counter(self.timers.bodies()), Counter(list(due)))
        for at, body, _ in self.timers.delivered:
            self.assertTrue(0 <= at - due[body] <= 10_000, (body, at - due[body]))
        self.assertEqual(self.timers.timers.count, 0)

    def test_many_files_of_a_slot(self) -> None:
        """Messages of one slot that is in several files are written again file by file; all come, once."""
        self.patch(waiting, "FILE_LIMIT", 5)
        at = NOW + 8 * 3_600_000
        self.timers.send(*[timed(at + number, str(number)) for number in range(200)])
        self.busy(9)
        self.assertGreaterEqual(self.timers.roll.rolled, 200)
        self.assertEqual(Counter(self.timers.bodies()), Counter(map(str, range(200))))

    def test_killed(self) -> None:
        """A kill between the copies and the next checkpoint neither loses a message nor delivers it twice."""
        due = {str(number): NOW + 1000 * (number * 300 + 7000) for number in range(120)}
        self.timers.send(*[timed(at, key) for key, at in due.items()])
        bodies: list[str] = []
        for _ in range(24):
            self.timers.fill(60)
            self.timers.advance(1800 - 7, 10.0)
            bodies += self.timers.bodies()
            self.again(killed(self.env))
        self.assertGreater(self.timers.store.log_bounds()[0], 50_000)
        self.timers.advance(20, 1.0)
        bodies += self.timers.bodies()
        self.assertEqual(Counter(bodies), Counter(list(due)))

    def test_recalled(self) -> None:
        """A recall is written again too, and counts."""
        at = NOW + 8 * 3_600_000
        self.timers.send(timed(at, "a"), timed(at, "b"), timed(at, "x", TIMER_DEL_UNIQKEY="a"))
        self.busy(5)
        self.assertGreater(self.timers.roll.rolled, 2)
        self.assertEqual(self.timers.timers.count, 1)
        self.busy(4)
        self.assertEqual(self.timers.bodies(), ["b"])

    def test_refused(self) -> None:
        """While the store takes nothing no message is written again; all are later."""
        self.timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(20)])
        self.timers.fill(100)
        self.timers.store.hold_back("not the master")
        self.timers.advance(3700, 10.0)
        self.assertEqual(self.timers.roll.rolled, 0)
        self.assertEqual(self.timers.timers.count, 20)
        self.timers.store.hold_back(None)
        self.timers.advance(60, 1.0)
        self.assertEqual(self.timers.timers.count, 20)
        self.busy(8)
        self.assertEqual(len(self.timers.bodies()), 20)

    def test_refused_for_long(self) -> None:
        """While messages cannot be written again their file stays, however long; the plan of retention says why."""
        timers = self.timers
        timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(5)])
        timers.fill(100)
        timers.store.hold_back("not the master")
        timers.advance(3 * HOUR, 10.0)
        self.assertEqual(timers.begin(), 0)
        plan = self.now(timers.store.cleaner.plan())
        self.assertEqual(plan.removals, [])
        self.assertEqual(plan.kept, "timed messages wait in it that cannot be written again: not the master")
        timers.store.hold_back(None)
        self.busy(8)
        self.assertGreater(timers.begin(), 0)
        self.assertEqual(timers.bodies(), [str(number) for number in range(5)])

    def test_not_ready(self) -> None:
        """While it is not known what waits, no file goes that may have a timed message; those before the first go."""
        self.timers.fill(50)
        self.timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(5)])
        place = self.timers.store.units(TIMER_TOPIC, 0, 0, 1)[0].commitlog_offset // 8192 * 8192
        self.timers.fill(50)
        env = killed(self.env)
        read = env.files.read

        def broken(path: str, limit: int | None = None) -> bytes:
            if path.startswith(ROOT + "/timer/"):
                raise OSError(errno.EIO, "Input/output error")
            return read(path, limit)

        self.patch(env.files, "read", broken)
        env.files.create(ROOT + "/timer/checkpoint", b"x")
        timers = self.again(env)
        timers.advance(2 * HOUR, 5.0)
        self.assertFalse(timers.timers.ready)
        self.assertGreater(place, 0)
        self.assertEqual(timers.begin(), place)
        plan = self.now(timers.store.cleaner.plan())
        self.assertEqual(plan, ([], "timed messages may wait in it, and the timer log is not ready"))
        self.patch(env.files, "read", read)
        self.busy(8)
        self.assertGreater(timers.begin(), place)
        self.assertEqual(timers.bodies(), [str(number) for number in range(5)])

    def test_lost_record(self) -> None:
        """A waiting message whose record is gone does not keep the others from being written again."""
        keys = [str(number) for number in range(100)]
        self.timers.send(*[timed(NOW + 8 * 3_600_000, key) for key in keys])
        self.timers.fill(100)
        self.timers.advance(20, 1.0)
        gone = sum(unit.commitlog_offset < 8192 for unit in self.timers.store.units(TIMER_TOPIC, 0, 0, 100))
        self.timers.stop()
        self.env.files.remove(ROOT + "/commitlog/" + "0" * 20)
        self.again(self.env)
        self.assertEqual(self.timers.begin(), 8192)
        self.busy(9)
        self.assertGreater(gone, 0)
        self.assertEqual(sorted(self.timers.bodies()), sorted(keys[gone:]))

    def test_flushed_before(self) -> None:
        """A file with waiting messages goes after their copies are flushed, so that a power failure loses none."""
        timers = self.timers
        timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(5)])
        timers.fill(100)
        timers.advance(3500, 10.0)
        while not timers.roll.rolled:
            timers.advance(0.1, 0.1)
        copied = timers.store.log_bounds()[1]
        self.assertLess(timers.store.flushed, copied)
        while not timers.begin():
            self.assertLess(timers.begin(), 8192)
            timers.store.cleaner.clean()
            if timers.begin():
                self.assertGreaterEqual(timers.store.flushed, copied)
            timers.advance(0.1, 0.1)
        self.again(power_off(self.env))
        self.busy(9)
        self.assertEqual(self.timers.bodies(), [str(number) for number in range(5)])

    def test_full_disk(self) -> None:
        """On a full disk, where sends are refused, messages are written again all the same, and their file goes."""
        timers = self.timers
        timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(5)])
        timers.fill(100)
        self.full_disk()
        timers.advance(2 * HOUR, 5.0)
        self.assertRaises(ServiceNotAvailable, timers.fill, 1)
        self.assertEqual(timers.roll.rolled, 5)
        self.assertGreater(timers.begin(), 0)
        self.env.files.free = self.env.files.total // 2
        timers.advance(30, 1.0)
        self.busy(8)
        self.assertEqual(timers.bodies(), [str(number) for number in range(5)])

    def test_nothing_gained(self) -> None:
        """On a full disk a file stays whose copies would take what it gives back."""
        timers = self.timers
        timers.send(*[timed(NOW + 8 * 3_600_000 + number, str(number)) for number in range(60)])
        timers.fill(100)
        self.full_disk()
        timers.advance(2 * HOUR, 5.0)
        begin, end = timers.store.log_bounds()
        self.assertEqual(begin, 0)
        plan = self.now(timers.store.cleaner.plan())
        self.assertIn("the disk is full, and the copies would take what the file gives back", plan.kept)
        timers.advance(HOUR, 5.0)
        self.assertEqual(timers.store.log_bounds(), (begin, end))
        self.env.files.free = self.env.files.total // 2
        timers.advance(30, 1.0)
        self.busy(8)
        self.assertEqual(sorted(timers.bodies()), sorted(str(number) for number in range(60)))

    def full_disk(self) -> None:
        """Let the disk be full, and the store notice."""
        self.env.files.free = self.env.files.total // 20
        self.timers.fill(1)
        self.timers.advance(5, 1.0)
        refusal = self.timers.store.refusal
        self.assertEqual(refusal and refusal.kind, RefusalKind.DISK_FULL)

    def test_full_disk_of_a_slave(self) -> None:
        """On a full disk a broker that may not be a master writes nothing."""
        self.timers.send(timed(NOW + 8 * 3_600_000, "a"))
        self.timers.fill(100)
        self.full_disk()
        self.timers.store.hold_back("not the master")
        end = self.timers.store.log_bounds()[1]
        self.timers.advance(2 * HOUR, 5.0)
        self.assertEqual(self.timers.store.log_bounds(), (0, end))
        plan = self.now(self.timers.store.cleaner.plan())
        self.assertEqual(plan.kept, "timed messages wait in it that cannot be written again: not the master")

    def test_large(self) -> None:
        """A message above a limit that was lowered since is written again as the others are."""
        due = NOW + 8 * 3_600_000
        large = timed(due, "x" * 900)
        self.timers.send(timed(due, "a"), large, timed(due + 1, "b"))
        self.timers.fill(100)
        self.timers.stop()
        self.timers = Rolling(self, self.env, max_message_size=500)
        self.timers.advance(2 * HOUR, 5.0)
        self.assertEqual((self.timers.roll.rolled, self.timers.timers.count), (3, 3))
        self.assertGreater(self.timers.begin(), 0)

    def test_too_large(self) -> None:
        """A message that fits into no log file any more is given up; the others are written again."""
        due = NOW + 8 * 3_600_000
        self.timers.send(timed(due, "a"), timed(due, "x" * 900), timed(due + 1, "b"))
        self.timers.fill(100)
        append = LogCopies.append

        def refuse(copies: LogCopies, message: NewMessage) -> Appended:
            if len(message.body) > 500:
                raise MessageIllegal("it does not fit")
            return append(copies, message)

        self.patch(LogCopies, "append", refuse)
        with capturedLogs() as logged:
            self.timers.advance(2 * HOUR, 5.0)
        self.assertEqual((self.timers.roll.rolled, self.timers.timers.count), (2, 2))
        self.assertGreater(self.timers.begin(), 0)
        self.assertTrue([one for one in logged if one["log_level"] is LogLevel.error])

    def test_long_properties(self) -> None:
        """A copy of a message with properties near the limit has its exact time, and not the delay."""
        for missing in (5, 20):
            properties = {names.TIMER_DELAY_SEC: "5", names.TIMER_OUT_MS: "5000", names.REAL_TOPIC: "T", "a": ""}
            room = names.SIZE_LIMIT - len(encode(properties)) - missing
            full = encode({**properties, "a": "x" * room})
            stored = StoredMessage(0, 0, 0, 0, 1, 0, 777, 0, 5, HOST, 1234, HOST, 2, 0, b"body", "t", full)
            copy = rolled_copy(stored, 5678)
            found = decode(copy.properties)
            self.assertLessEqual(len(copy.properties), names.SIZE_LIMIT)
            self.assertEqual(waiting_due_ms(found, 999_999), 5678)
            self.assertEqual((found["a"], found[names.REAL_TOPIC]), ("x" * room, "T"))

    def test_switched_off(self) -> None:
        """A broker that delivers no timed messages warns if its log has some; a slave does not."""
        self.timers.send(timed(NOW + 5000, "a"), timed(NOW + 5000, "b"))
        for changes, warnings in (({"timers": False}, 1), ({"replica": True}, 0)):
            store = self.opened(killed(self.env), expiring(**changes))
            with capturedLogs() as logged:
                warn_of_undelivered(store)
            words = [formatEvent(one) for one in logged if one["log_level"] is LogLevel.warn]
            self.assertEqual(len(words), warnings)
            self.assertTrue(all("of the 2 timed messages" in one for one in words))
            self.stopped(store)

    def test_copy(self) -> None:
        """The copy has the exact time, a counter and a mark."""
        properties = {names.TIMER_DELAY_SEC: "5", names.TIMER_OUT_MS: "5000", names.REAL_TOPIC: "T", names.TAGS: "A"}
        stored = StoredMessage(
            0, 0, 0, 0, 1, 0, 777, 0, 5, HOST, 1234, HOST, 2, 0, b"body", "t", encode(properties)
        )  # fmt: skip
        copy: NewMessage = rolled_copy(stored, 5678)
        found = decode(copy.properties)
        self.assertEqual(found, {**properties, names.TIMER_ROLL_TIMES: "1", names.TIMER_DELIVER_MS: "5678"})
        self.assertEqual(waiting_due_ms(found, 999_999), 5678)
        self.assertEqual((original_of(copy.prepared_offset), copy.reconsume_times), (777, 2))
        again = rolled_copy(stored._replace(properties=copy.properties), 5678)
        self.assertEqual(decode(again.properties)[names.TIMER_ROLL_TIMES], "2")
