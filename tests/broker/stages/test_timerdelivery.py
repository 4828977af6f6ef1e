"""Timed messages: delivered at their millisecond; none early, lost or twice, whatever happens to the broker."""

from __future__ import annotations

import errno
import struct
from collections import Counter
from functools import partial
from random import Random
from typing import Any

from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.timed import waiting_properties
from smartgo.broker.stages.timerdelivery import TimerDelivery, delivered_copy
from smartgo.errors import MessageIllegal, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.record import decode as decode_record
from smartgo.schema.timers import MESSAGE_ENTRY, TimerEntry, original_of
from smartgo.schema.topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from smartgo.store.interfaces import Appended
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.timer import recovery
from smartgo.store.timer import waiting as waiting_module
from smartgo.store.timer.deliveredoffsets import DeliveredOffsets
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, power_off, small

HOST = pack_host("10.0.0.1", 5555)
NOW = 1_700_000_000_000


def timed(due_ms: int, key: str = "K1", topic: str = "T", queue_id: int = 2, **more: str) -> NewMessage:
    """A message that waits in the timer topic, as the send path makes it."""
    asked = {names.UNIQ_KEY: key, names.TIMER_DELIVER_MS: str(due_ms), **more}
    carried = waiting_properties(topic, queue_id, asked, due_ms)
    return NewMessage(TIMER_TOPIC, 0, key.encode(), encode(carried), 7, 0, 1_600_000_000_000, HOST, HOST, 3)


def peer_file(due_ms: int, queue_offset: int) -> bytes:
    """RocketMQ's config/timercheck: the time of its wheel, a position, and twice how far it took the timer topic."""
    return struct.pack(">qqqq", due_ms, 0, queue_offset, queue_offset)


def full(path: str, data: bytes) -> None:
    """Write nothing. @raise OSError: the disk is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


class Timers:
    """A store with timers, and their delivery, over a machine in memory."""

    def __init__(self, case: SynchronousTestCase, env: FakeEnvironment, limit: int = 8, **changes: Any) -> None:
        """Open it with some settings changed."""
        self.env = env
        self.changes = changes
        self.case = case
        self.store: OpenStore
        self.open(limit)
        assert self.store.timers is not None
        self.timers = self.store.timers
        self.delivered: list[tuple[int, str, int]] = []  # when, by the wall clock; the body; the queue
        self.delivery = TimerDelivery(env.clock, self.store, self.timers, self.note)
        self.delivery.start()

    def open(self, limit: int) -> None:
        """Open the store."""
        settings = small(timers=True, timers_in_memory=limit, log_file_size=1 << 20, **self.changes)
        self.store = self.case.successResultOf(open_store(self.env, ROOT, settings))

    def note(self, message: NewMessage, appended: Appended) -> None:
        """Note what was delivered."""
        self.delivered.append((self.env.clock.wall_ms(), bytes(message.body).decode(), message.queue_id))

    def send(self, *messages: NewMessage) -> None:
        """Append messages in one run."""
        for one in messages:
            self.store.append((one,))
        self.store.end_run()
        self.env.clock.advance(0)

    def advance(self, seconds: float, step: float = 0.05) -> None:
        """Let time pass."""
        for _ in range(round(seconds / step)):
            self.env.clock.advance(step)

    def stop(self) -> None:
        """Stop in order."""
        self.delivery.stop()
        self.case.successResultOf(self.store.close())

    def bodies(self) -> list[str]:
        """Return the delivered bodies, in order."""
        return [body for _, body, _ in self.delivered]


class DeliveryTests(StoreTestCase):
    """One store."""

    def setUp(self) -> None:
        """Begin."""
        self.env = FakeEnvironment()
        self.env.clock.wall_offset_ms = NOW
        self.timers = Timers(self, self.env)

    def again(self, env: FakeEnvironment, **changes: Any) -> Timers:
        """The same store in another process, with some settings changed."""
        env.clock.wall_offset_ms = self.env.clock.wall_offset_ms
        self.env = env
        self.timers = Timers(self, env, **changes)
        return self.timers

    def tearDown(self) -> None:
        """Nothing is left."""
        self.timers.stop()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.env.files.mappings, [])

    def test_when(self) -> None:
        """Each is delivered in the millisecond that it asks for, in the order of delivery times."""
        timers = self.timers
        timers.send(timed(NOW + 1500, "b"), timed(NOW + 700, "a"), timed(NOW + 90_000, "c"))
        self.assertEqual(timers.timers.count, 3)
        for _ in range(91_000 // 5):
            self.env.clock.advance(0.005)
        self.assertEqual([(body, queue_id) for _, body, queue_id in timers.delivered], [("a", 2), ("b", 2), ("c", 2)])
        dues = (NOW + 700, NOW + 1500, NOW + 90_000)
        late = [at - due for (at, _, _), due in zip(timers.delivered, dues, strict=True)]
        self.assertEqual([one for one in late if not 0 <= one <= 5], [])
        self.assertEqual(timers.delivery.lateness.count, 3)
        self.assertEqual(timers.delivery.lateness.highest_ms, max(late))
        self.assertEqual(timers.timers.count, 0)

    def test_relative(self) -> None:
        """A delay counts from the store timestamp, in seconds or milliseconds, and comes before a time."""
        timers = self.timers
        for key, properties in (
            ("s", {names.TIMER_DELAY_SEC: "2", names.TIMER_DELIVER_MS: str(NOW + 9)}),
            ("ms", {names.TIMER_DELAY_MS: "1250"}),
            ("start", {names.START_DELIVER_TIME: str(NOW + 300)}),
        ):
            carried = waiting_properties("T", 0, {names.UNIQ_KEY: key, **properties}, NOW + 2000)
            timers.send(NewMessage(TIMER_TOPIC, 0, key.encode(), encode(carried), 0, 0, 1, HOST, HOST))
        timers.advance(3, 0.01)
        self.assertEqual(
            [(at - NOW, key) for at, key, _ in timers.delivered], [(300, "start"), (1250, "ms"), (2000, "s")]
        )

    def test_copy(self) -> None:
        """What is delivered has the topic, queue and properties that RocketMQ gives it; its mark names its original."""
        waiting = timed(NOW + 500, "k", TAGS="TagA")
        self.timers.send(waiting)
        self.timers.advance(1, 0.01)
        (copy,) = self.read_all(self.timers.store, "T", 2)
        original = decode_record(self.now(self.timers.store.at(0)))
        self.assertEqual(original.topic, TIMER_TOPIC)
        self.assertEqual((copy.topic, copy.queue_id, bytes(copy.body)), ("T", 2, b"k"))
        self.assertEqual(
            (copy.flag, copy.born_ms, copy.born_host, copy.reconsume_times), (7, 1_600_000_000_000, HOST, 3)
        )
        self.assertEqual(original_of(copy.prepared_offset), 0)
        self.assertEqual(
            decode(copy.properties),
            {
                names.UNIQ_KEY: "k",
                names.TAGS: "TagA",
                names.TIMER_DELIVER_MS: str(NOW + 500),
                names.TIMER_OUT_MS: str(NOW),
                names.REAL_TOPIC: "T",
                names.REAL_QID: "2",
                names.TIMER_ENQUEUE_MS: str(original.stored_ms),
                names.TIMER_DEQUEUE_MS: str(NOW + 500),
            },
        )
        self.assertEqual(self.timers.store.units("T", 2, 0, 1)[0].tag_hash, tag_code("TagA"))

    def test_no_destination(self) -> None:
        """What has no destination, or one that nobody may send to, is discarded with an error."""
        places: tuple[dict[str, str], ...] = ({}, {names.REAL_TOPIC: "T"}, {names.REAL_TOPIC: "T", names.REAL_QID: "x"})
        bad = [
            {names.REAL_TOPIC: topic, names.REAL_QID: "0"} for topic in (HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, "a b")
        ]
        with capturedLogs() as logs:
            for place in (*places, *bad):
                properties = {names.TIMER_DELIVER_MS: str(NOW + 100), **place}
                self.timers.send(NewMessage(TIMER_TOPIC, 0, b"x", encode(properties), store_host=HOST, born_host=HOST))
            self.timers.advance(1)
        self.assertEqual(self.timers.delivered, [])
        self.assertEqual(self.timers.timers.count, 0)
        errors = [one for one in logs if one["log_level"] is LogLevel.error]
        self.assertEqual(len(errors), 7)

    def test_full_properties(self) -> None:
        """Properties that leave no room for two more are delivered as they are."""
        waiting = timed(NOW + 500, "k", filler="x" * (names.SIZE_LIMIT - 100))
        self.assertLessEqual(len(waiting.properties), names.SIZE_LIMIT)
        self.timers.send(waiting)
        record = decode_record(self.now(self.timers.store.at(0)))
        copy = delivered_copy(record, NOW)
        assert copy is not None
        self.assertNotIn(names.TIMER_DEQUEUE_MS, decode(copy.properties))
        self.timers.advance(1)
        self.assertEqual(self.timers.bodies(), ["k"])

    def test_lower_limit(self) -> None:
        """A message that waits is delivered though maxMessageSize was lowered since."""
        long = timed(NOW + 20_000, "long")
        long.body = b"x" * 5000
        self.timers.send(long)
        self.timers.stop()
        timers = self.again(killed(self.env), max_message_size=1000)
        self.assertRaises(MessageIllegal, timers.store.append, (long,))
        timers.advance(25)
        self.assertEqual(timers.bodies(), ["x" * 5000])

    def test_refused(self) -> None:
        """While the store takes nothing, messages wait; then they are delivered, once."""
        self.timers.send(*[timed(NOW + 500 + number, str(number)) for number in range(5)])
        self.timers.store.hold_back("not the master")
        with capturedLogs() as logs:
            self.timers.advance(3)
            self.assertEqual(self.timers.delivered, [])
            self.timers.store.hold_back(None)
            self.timers.advance(2)
        self.assertEqual(self.timers.bodies(), list("01234"))
        said = [formatEvent(one) for one in logs if "timed messages" in one["log_format"]]
        self.assertEqual(
            said,
            [
                "timed messages wait until the broker takes messages: not the master",
                "timed messages are delivered again",
            ],
        )

    def test_clock_forward(self) -> None:
        """When the clock was set forward, what is due by it is delivered within a second."""
        self.timers.send(timed(NOW + 3600_000, "a"), timed(NOW + 7200_000, "b"), timed(NOW + 7203_000, "c"))
        self.env.clock.wall_offset_ms += 7200_000
        self.timers.advance(1.05)
        self.assertEqual(self.timers.bodies(), ["a", "b"])
        self.timers.advance(3)
        self.assertEqual(self.timers.bodies(), ["a", "b", "c"])

    def test_clock_back(self) -> None:
        """When the clock was set back, nothing is delivered before the clock shows its time, and all is then."""
        self.timers.send(*[timed(NOW + 1000 * number, str(number)) for number in range(1, 40)])
        self.timers.advance(5)
        self.env.clock.wall_offset_ms -= 100_000
        self.timers.send(*[timed(NOW - 90_000 + 1000 * number, f"n{number}") for number in range(1, 40)])
        self.timers.advance(150)
        self.assertEqual(len(self.timers.delivered), 78)
        self.assertEqual(Counter(self.timers.bodies()).most_common(1)[0][1], 1)
        for at, body, _ in self.timers.delivered:
            due = NOW - 90_000 + 1000 * int(body[1:]) if body[0] == "n" else NOW + 1000 * int(body)
            self.assertGreaterEqual(at, due)
            self.assertLess(at, due + 1100)

    def test_recall(self) -> None:
        """A recalled message is not delivered; the others of its second are."""
        due = NOW + 5500
        self.timers.send(timed(due, "a"), timed(due, "b"), timed(due + 100, "c"))
        self.assertEqual(self.timers.timers.count, 3)
        self.timers.send(timed(due, "x", TIMER_DEL_UNIQKEY="b"))
        self.assertEqual(self.timers.timers.count, 2)
        self.timers.advance(10)
        self.assertEqual(self.timers.bodies(), ["a", "c"])
        self.assertEqual((self.timers.timers.count, self.timers.delivery.recalled), (0, 1))

    def test_recalled_twice(self) -> None:
        """A message that is recalled twice counts as one less, also when its recalls are read from the log again."""
        due = NOW + 5500
        self.timers.send(timed(due, "a"), timed(due, "b"), timed(due + 60_000, "c"))
        for _ in range(3):
            self.timers.send(timed(due, "x", TIMER_DEL_UNIQKEY="b"))
        self.assertEqual(self.timers.timers.count, 2)
        self.timers.send(timed(due, "x", TIMER_DEL_UNIQKEY="a"))
        self.assertEqual(self.timers.timers.count, 1)
        timers = self.again(killed(self.env))
        self.assertEqual(timers.timers.count, 1)
        timers.advance(10)
        self.assertEqual((timers.bodies(), timers.timers.count, timers.delivery.recalled), ([], 1, 2))
        timers.advance(60)
        self.assertEqual((timers.bodies(), timers.timers.count), (["c"], 0))

    def test_recall_of_another_topic(self) -> None:
        """A recall meets messages of its own topic alone."""
        due = NOW + 5500
        self.timers.send(timed(due, "a"), timed(due, "x", topic="Other", TIMER_DEL_UNIQKEY="a"))
        self.timers.advance(10)
        self.assertEqual(self.timers.bodies(), ["a"])

    def test_recall_and_kill(self) -> None:
        """A recall counts also where the broker is killed between it and its message."""
        due = NOW + 5900
        self.timers.send(timed(due, "a"), timed(due, "x", TIMER_DEL_UNIQKEY="a"))
        self.timers.advance(5.5)  # the recall comes at the beginning of the second
        self.now(self.timers.timers.flush())
        timers = self.again(killed(self.env))
        timers.advance(5)
        self.assertEqual(timers.delivered, [])
        self.assertEqual(timers.delivery.recalled, 1)

    def test_many_in_one_second(self) -> None:
        """Memory holds twice the limit at most, also where more are due in one millisecond; all are delivered, once."""
        due = NOW + 120_000
        self.timers.send(*[timed(due, str(number)) for number in range(100)])
        self.timers.advance(2)
        self.timers.send(*[timed(due, str(number)) for number in range(100, 200)])
        waiting = self.timers.timers._waiting
        highest = 0
        for _ in range(1300):
            self.env.clock.advance(0.1)
            highest = max(highest, len(waiting.near) + len(waiting.in_flight))
        self.assertEqual(sorted(map(int, self.timers.bodies())), list(range(200)))
        self.assertLessEqual(highest, 2 * 8 + 1)

    def test_near_arrivals_spill(self) -> None:
        """More messages than memory holds that are due soon wait in files, and are delivered in time all the same."""
        self.timers.send(timed(NOW + 500_000, "later"))
        self.timers.advance(1)
        order = list(range(200))
        Random(3).shuffle(order)
        for number in order:
            self.timers.send(timed(NOW + 20_000 + 10 * number, str(number)))
        waiting = self.timers.timers._waiting
        self.assertLessEqual(len(waiting.near), 17)
        self.timers.advance(30, 0.01)
        self.assertEqual([int(body) for body in self.timers.bodies()], list(range(200)))
        self.assertLessEqual(max(at - NOW - 20_000 - 10 * int(body) for at, body, _ in self.timers.delivered), 10)

    def test_many_files_of_a_slot(self) -> None:
        """A slot in which many are due has several files; all are delivered in time and in order."""
        self.patch(waiting_module, "FILE_LIMIT", 7)
        order = list(range(300))
        Random(4).shuffle(order)
        self.timers.send(*[timed(NOW + 1_200_000 + 10 * number, str(number)) for number in order])
        self.timers.advance(60, 1.0)
        files = [name for name in self.env.files.list(f"{ROOT}/timer") if name != "checkpoint"]
        self.assertGreater(len(files), 300 // 7)
        self.timers.advance(1130, 1.0)
        self.timers.advance(20, 0.01)
        self.assertEqual([int(body) for body in self.timers.bodies()], list(range(300)))
        late = [at - NOW - 1_200_000 - 10 * int(body) for at, body, _ in self.timers.delivered]
        self.assertTrue(0 <= min(late) <= max(late) <= 10, (min(late), max(late)))

    def test_made_anew_with_little_memory(self) -> None:
        """Where more was delivered than memory holds, it is known from files when the timer log is made anew."""
        self.patch(recovery, "DeliveredOffsets", partial(DeliveredOffsets, limit=3))
        self.timers.send(*[timed(NOW + 1000 * number, str(number)) for number in range(1, 61)])
        self.timers.advance(40.5)
        first = self.timers.bodies()
        after = killed(self.env)
        for name in after.files.list(f"{ROOT}/timer"):
            after.files.remove(f"{ROOT}/timer/{name}")
        timers = self.again(after)
        timers.advance(60)
        self.assertEqual([int(one) for one in first + timers.bodies()], list(range(1, 61)))
        self.assertEqual([one for one in after.files.list(f"{ROOT}/timer") if one.startswith("delivered")], [])

    def test_restart(self) -> None:
        """After a clean stop, and after a kill, each message is delivered once; what was due meanwhile at once."""
        self.timers.send(*[timed(NOW + 1000 * number, str(number)) for number in range(1, 61)])
        self.timers.advance(10.5)
        self.timers.stop()
        first = self.timers.bodies()
        after = killed(self.env)
        after.clock.advance(5)
        timers = self.again(after)
        timers.advance(10)
        second = timers.bodies()
        timers = self.again(killed(self.env))
        timers.advance(60)
        self.assertEqual([int(one) for one in first + second + timers.bodies()], list(range(1, 61)))

    def test_power_failure(self) -> None:
        """After a power failure what is in the flushed log is delivered; a copy that was lost is made again."""
        self.timers.send(*[timed(NOW + 1000 * number, str(number)) for number in range(1, 61)])
        self.timers.advance(10.6)
        timers = self.again(power_off(self.env))
        kept = len(self.read_all(timers.store, "T", 2))
        timers.advance(60)
        bodies = [bytes(one.body).decode() for one in self.read_all(timers.store, "T", 2)]
        self.assertEqual([int(one) for one in bodies], list(range(1, 61)))
        self.assertLess(kept, 11)

    def test_made_anew(self) -> None:
        """Without its files the timer log is made from the CommitLog: nothing is lost, or delivered again."""
        self.timers.send(*[timed(NOW + 10_000 * number, str(number)) for number in range(1, 61)])
        self.timers.advance(95)
        self.timers.stop()
        first = self.timers.bodies()
        after = killed(self.env)
        for path in [one for one in after.files.files if one.startswith(f"{ROOT}/timer/")]:
            del after.files.files[path]
        timers = self.again(after)
        self.assertEqual(timers.timers.count, 60 - len(first))
        timers.advance(600, 0.5)
        self.assertEqual([int(one) for one in first + timers.bodies()], list(range(1, 61)))

    def test_damaged_checkpoint(self) -> None:
        """A checkpoint that is damaged, or whose files are cut, is not believed."""
        self.timers.send(*[timed(NOW + 700_000 * number, str(number)) for number in range(1, 31)])
        self.timers.advance(5)
        self.timers.stop()
        whole = killed(self.env)
        paths = [one for one in whole.files.files if one.startswith(f"{ROOT}/timer/")]
        self.assertGreater(len(paths), 20)
        for path in (f"{ROOT}/timer/checkpoint", paths[0], paths[-1]):
            after = killed(whole)
            file = after.files.files[path]
            file.data = file.data[:-1]
            timers = self.again(after)
            self.assertEqual(timers.timers.count, 30, path)
            timers.stop()
        self.again(whole)

    def test_rocketmq_store(self) -> None:
        """Of a store that was RocketMQ's, what its wheel had delivered is not delivered again."""
        self.timers.send(*[timed(NOW + 10_000 * number, str(number)) for number in range(1, 61)])
        self.timers.delivery.stop()
        self.timers.stop()
        after = killed(self.env)
        for path in [one for one in after.files.files if one.startswith(f"{ROOT}/timer/")]:
            del after.files.files[path]
        after.files.make_directories(f"{ROOT}/config")
        check = peer_file(NOW + 300_000, 60)
        after.files.create(f"{ROOT}/config/timercheck", check)
        timers = self.again(after)
        self.assertEqual(timers.timers.count, 30)
        timers.advance(700, 1.0)
        self.assertEqual([int(one) for one in timers.bodies()], list(range(31, 61)))

    def test_rocketmq_behind(self) -> None:
        """What RocketMQ had not taken from the timer topic when it ended is delivered, whenever it was due."""
        self.timers.send(*[timed(NOW + 10_000 * number, str(number)) for number in range(1, 61)])
        self.timers.delivery.stop()
        self.timers.stop()
        after = killed(self.env)
        for path in [one for one in after.files.files if one.startswith(f"{ROOT}/timer/")]:
            del after.files.files[path]
        after.files.make_directories(f"{ROOT}/config")
        after.files.create(f"{ROOT}/config/timercheck", peer_file(NOW + 300_000, 20))
        timers = self.again(after)
        timers.advance(700, 1.0)
        self.assertEqual([int(one) for one in timers.bodies()], [*range(21, 61)])

    def test_rocketmq_between(self) -> None:
        """A checkpoint that is older than RocketMQ's is not believed."""
        self.timers.send(*[timed(NOW + 10_000 * number, str(number)) for number in range(1, 61)])
        self.timers.advance(105)
        first = self.timers.bodies()
        self.timers.stop()
        after = killed(self.env)
        after.files.make_directories(f"{ROOT}/config")
        after.files.create(f"{ROOT}/config/timercheck", peer_file(NOW + 300_000, 60))
        timers = self.again(after)
        timers.advance(700, 1.0)
        self.assertEqual([int(one) for one in first + timers.bodies()], [*range(1, 11), *range(31, 61)])

    def test_slave(self) -> None:
        """A slave removes the checkpoint: what its log has below it may become that of another master."""
        self.timers.send(timed(NOW + 700_000, "a"))
        self.timers.stop()
        after = killed(self.env)
        self.assertIn(f"{ROOT}/timer/checkpoint", after.files.files)
        slave = self.successResultOf(open_store(after, ROOT, small(timers=True, replica=True, log_file_size=1 << 20)))
        self.assertIsNone(slave.timers)
        self.successResultOf(slave.close())
        self.assertNotIn(f"{ROOT}/timer/checkpoint", after.files.files)
        self.assertEqual(self.again(killed(after)).timers.count, 1)

    def test_kills(self) -> None:
        """Whenever the broker is killed, each message is delivered once, and none early: a hundred kills."""
        random = Random(5)
        for _ in range(6):
            self.timers.stop()
            self.again(FakeEnvironment())
            sent: dict[str, int] = {}
            delivered: list[tuple[int, str]] = []
            for _ in range(16):
                for _ in range(random.randrange(4)):
                    now = self.env.clock.wall_ms()
                    batch = []
                    for _ in range(random.randrange(20)):
                        key = str(len(sent))
                        sent[key] = (
                            now + random.choice((1, 500, 30_000, 400_000, 1_500_000, 4_000_000)) + random.randrange(3)
                        )
                        batch.append(timed(sent[key], key))
                    self.timers.send(*batch)
                    self.timers.advance(random.choice((0.1, 3.0, 70.0, 400.0)), 0.5)
                delivered += [(at, body) for at, body, _ in self.timers.delivered]
                if random.randrange(4) == 0:
                    self.timers.stop()
                self.again(killed(self.env))
            self.timers.advance(5000, 1.0)
            delivered += [(at, body) for at, body, _ in self.timers.delivered]
            self.assertEqual(Counter(body for _, body in delivered), Counter(list(sent)))
            self.assertEqual([one for one in delivered if one[0] < sent[one[1]]], [])

    def test_disk_full(self) -> None:
        """While slot files cannot be written nothing is lost."""
        self.timers.send(timed(NOW + 60_000, "first"))
        append = self.env.files.append
        self.patch(self.env.files, "append", full)
        self.timers.send(*[timed(NOW + 700_000 + number, str(number)) for number in range(50)])
        self.timers.advance(20)
        self.patch(self.env.files, "append", append)
        self.timers.advance(750)
        self.assertEqual(self.timers.bodies(), ["first", *map(str, range(50))])

    def test_taken_entry(self) -> None:
        """An entry that was taken and given back is taken again."""
        self.timers.delivery.stop()
        self.timers.send(timed(NOW + 10, "a"))
        self.env.clock.advance(1)
        (entry,) = self.timers.timers.take_due(NOW + 1000, 5)
        self.assertEqual(entry, TimerEntry(NOW + 10, MESSAGE_ENTRY, 0, entry.size))
        self.assertEqual(self.timers.timers.take_due(NOW + 1000, 5), [])
        self.timers.timers.give_back(entry)
        self.assertEqual(self.timers.timers.take_due(NOW + 1000, 5), [entry])
        self.timers.timers.give_back(entry)

    def test_closed(self) -> None:
        """A store that is closed while it is read for timers closes all the same."""
        self.timers.send(*[timed(NOW + 10_000 * number, str(number)) for number in range(1, 61)])
        after = killed(self.env)
        after.threads.held.add("timers")
        timers = self.again(after)
        self.assertFalse(timers.timers.ready)
        timers.delivery.stop()
        closing = timers.store.close()
        self.assertNoResult(closing)
        after.threads.held.clear()
        after.threads.release("timers")
        self.successResultOf(closing)
        self.assertRaises(ServiceNotAvailable, timers.store.append, (timed(NOW + 1),))
        self.again(killed(after))
