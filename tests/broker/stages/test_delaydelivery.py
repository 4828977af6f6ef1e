"""Delayed messages: diverted on the way in, delivered when due and never early, positions saved behind the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.delay import schedule_place
from smartgo.broker.stages.delaydelivery import DelayDelivery, DelayProgress, deliverable
from smartgo.errors import MessageIllegal, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.consumequeue import PREFILL, Unit
from smartgo.schema.delay import DelayLevels
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import HALF_TOPIC, SCHEDULE_TOPIC
from smartgo.store.interfaces import PutStatus, ReadLimit
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile
from tests.broker.fakecluster import records
from tests.fakes import FakeEnvironment
from tests.store.stores import killed

LEVELS = DelayLevels.parse("1s 5s 10s")
HOST = pack_host("10.0.0.1", 5555)


def message(properties: Mapping[str, str], topic: str = "T", queue: int = 2) -> NewMessage:
    """A message as the send path makes it."""
    return NewMessage(topic, queue, b"body", encode(properties), 7, 0, 1_600_000_000_000, HOST, HOST, 3)


def divert(message: NewMessage, properties: Mapping[str, str], level: int) -> NewMessage:
    """The message that waits in the schedule topic for another."""
    topic, queue_id, carried = schedule_place(message.topic, message.queue_id, properties, level)
    return msgspec.structs.replace(message, topic=topic, queue_id=queue_id, properties=encode(carried), tag_code=0)


class DivertTests(SynchronousTestCase):
    def test_there_and_back(self) -> None:
        """A diverted message knows its topic and queue; what is delivered goes there, with the same properties."""
        asked = {names.DELAY: "2", names.TAGS: "TagA", names.WAIT: "true"}
        waiting = divert(message(asked), asked, 2)
        self.assertEqual((waiting.topic, waiting.queue_id), (SCHEDULE_TOPIC, 1))
        self.assertEqual(decode(waiting.properties), {**asked, names.REAL_TOPIC: "T", names.REAL_QID: "2"})
        env = FakeEnvironment()
        store = opened_store(env)
        appended = store.append((waiting,))
        store.end_run()
        record = decode_record(self.successResultOf(store.at(appended.offset)))
        delivered = deliverable(record)
        assert delivered is not None
        self.assertEqual((delivered.topic, delivered.queue_id, delivered.tag_code), ("T", 2, tag_code("TagA")))
        self.assertEqual(delivered.properties, waiting.properties)
        self.assertEqual(
            (delivered.body, delivered.flag, delivered.born_ms, delivered.born_host, delivered.reconsume_times),
            (b"body", 7, 1_600_000_000_000, HOST, 3),
        )
        self.successResultOf(store.close())

    def test_no_destination(self) -> None:
        """Without a destination, or with that of half messages, there is nothing to deliver."""
        env = FakeEnvironment()
        store = opened_store(env)
        for carried in (
            {names.DELAY: "1"},
            {names.REAL_TOPIC: "T"},
            {names.REAL_TOPIC: "T", names.REAL_QID: "x"},
            {names.REAL_TOPIC: HALF_TOPIC, names.REAL_QID: "0"},
        ):
            appended = store.append((message(carried, SCHEDULE_TOPIC, 0),))
            self.assertIsNone(deliverable(decode_record(self.successResultOf(store.at(appended.offset)))), carried)
        store.end_run()
        self.successResultOf(store.close())


def opened_store(env: FakeEnvironment, **changes: Any) -> OpenStore:
    """A store in memory, with some settings changed."""
    settings = StoreSettings(log_file_size=1 << 20, queue_file_size=2000, delay_levels=LEVELS, **changes)
    opened: list[OpenStore] = []
    open_store(env, "/store", settings).addCallback(opened.append)
    return opened[0]


class DelayDeliveryTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A store in memory, and its delayed messages."""
        self.env = FakeEnvironment()
        self.store = opened_store(self.env)
        self.changes = 0
        self.delay = self.make()

    def make(self) -> DelayDelivery:
        """A delivery that has not been started."""
        delay = DelayDelivery(self.env.clock, self.store, LEVELS, self.changed)
        self.store.subscribe(delay)
        return delay

    def changed(self) -> None:
        """Count."""
        self.changes += 1

    def schedule(self, level: int, **more: str) -> None:
        """Send a message that waits."""
        asked = {names.DELAY: str(level), **more}
        self.store.append((divert(message(asked), asked, level),))
        self.store.end_run()

    def delivered(self) -> int:
        """Return the number of messages in the destination."""
        return self.store.bounds("T", 2)[1]

    def test_lower_limit(self) -> None:
        """A message that waits is delivered though maxMessageSize was lowered since: the limit is for sends."""
        self.schedule(3)
        self.successResultOf(self.store.close())
        self.store = opened_store(self.env, max_message_size=2)
        self.assertRaises(MessageIllegal, self.schedule, 3)
        self.delay = self.make()
        self.delay.start({})
        self.env.clock.pump([1.0] * 12)
        self.assertEqual((self.delivered(), self.delay.offsets[3]), (1, 1))

    def test_on_time(self) -> None:
        """A message is delivered when its time has come, not a tenth of a second before, and once."""
        self.delay.start({})
        self.schedule(3)
        self.env.clock.pump([1.0] * 9 + [0.9])
        self.assertEqual(self.delivered(), 0)
        self.env.clock.pump([0.1])
        self.assertEqual(self.delivered(), 1)
        self.env.clock.pump([1.0] * 30)
        self.assertEqual((self.delivered(), self.delay.offsets), (1, {1: 0, 2: 0, 3: 1}))

    def test_order_of_levels(self) -> None:
        """A short delay that is asked for later comes before a long one."""
        self.delay.start({})
        self.schedule(3, KEYS="slow")
        self.env.clock.advance(1)
        self.schedule(1, KEYS="quick")
        self.env.clock.pump([0.5, 0.5])
        result = self.store.read("T", 2, 0, ReadLimit(), None)
        self.assertEqual(result.count, 1)
        self.assertIn(b"quick", bytes(result.parts[0]))

    def test_many(self) -> None:
        """However many are due at once, all are delivered, each once and in order."""
        self.delay.start({})
        for number in range(300):
            self.schedule(1, KEYS=f"k{number}")
        self.env.clock.advance(1)
        self.assertEqual((self.delivered(), self.changes), (300, 300))
        keys: list[str] = []
        while len(keys) < 300:
            found = self.store.read("T", 2, len(keys), ReadLimit(), None)
            keys += [decode(record.properties)["KEYS"] for record in records(b"".join(found.parts))]
        self.assertEqual(keys, [f"k{number}" for number in range(300)])

    def test_resumed(self) -> None:
        """After a restart delivery goes on behind what was delivered; what became due meanwhile comes at once."""
        self.delay.start({})
        self.schedule(1)
        self.schedule(1)
        self.delay.stop()
        self.env.clock.advance(60)
        self.assertEqual(self.delivered(), 0)
        again = self.make()
        again.start({1: 1})
        self.assertEqual((self.delivered(), again.offsets[1]), (1, 2))
        again.stop()

    def test_position_outside(self) -> None:
        """A saved position beyond its queue is moved to the queue's end."""
        self.schedule(1)
        self.delay.start({1: 40, 2: 7})
        self.assertEqual(self.delay.offsets, {1: 1, 2: 0, 3: 0})

    def test_wall_clock_forward(self) -> None:
        """A wall clock set forward past the due time delivers within a second."""
        self.delay.start({})
        self.schedule(3)
        self.env.clock.wall_offset_ms += 3_600_000
        self.env.clock.pump([1.0])
        self.assertEqual(self.delivered(), 1)

    def test_wall_clock_back(self) -> None:
        """After the wall clock was set back, a message waits its level's delay by the clock that is never set."""
        self.delay.start({})
        for back in (3_600_000, 1500):
            before = self.delivered()
            self.schedule(3)
            self.env.clock.wall_offset_ms -= back
            self.env.clock.pump([0.5] * 19)
            self.assertEqual(self.delivered(), before)
            self.env.clock.pump([0.5] * 6)
            self.assertEqual(self.delivered(), before + 1)

    def test_wall_clock_back_with_many(self) -> None:
        """All that waits when the wall clock is set back is due together; nothing that comes later waits for it."""
        self.delay.start({})
        for _ in range(200):
            self.schedule(3)
        self.env.clock.pump([0.5] * 4)
        self.env.clock.wall_offset_ms -= 3_600_000
        self.env.clock.advance(1)
        self.schedule(3)
        self.env.clock.pump([0.5] * 17)
        self.assertEqual(self.delivered(), 0)  # 9.5 s since the clock was set
        self.env.clock.pump([0.5] * 3)
        self.assertEqual(self.delivered(), 201)

    def test_wall_clock_back_again(self) -> None:
        """Each time that the wall clock is set back what came since waits its level's delay, twice that at most."""
        self.delay.start({})
        came: list[float] = []
        late: list[float] = []
        for number in range(120):
            self.schedule(2)
            came.append(self.env.clock.seconds())
            if number % 7 == 3:
                self.env.clock.wall_offset_ms -= 600_000
            self.env.clock.advance(0.5)
            while len(late) < self.delivered():
                late.append(self.env.clock.seconds() - came[len(late)])
        self.assertGreater(len(late), 90)
        self.assertGreaterEqual(min(late), 5)
        self.assertLessEqual(max(late), 10 + 1.5)  # a look each second, and the step of this test

    def test_wall_clock_back_a_little(self) -> None:
        """A message that the clock was set back under waits no longer than its delay, though its time comes later."""
        self.delay.start({})
        self.schedule(3)
        self.env.clock.wall_offset_ms -= 8_000
        self.env.clock.pump([0.5] * 19)
        self.assertEqual(self.delivered(), 0)
        self.env.clock.pump([0.5] * 3)
        self.assertEqual(self.delivered(), 1)

    def test_fillers(self) -> None:
        """Units without a message are passed, however many; what they lead to is delivered by its own unit alone."""
        self.delay.start({})
        self.schedule(1)
        queue = self.store._by_key[SCHEDULE_TOPIC, 0]
        end = self.store.log_bounds()[1]
        queue.extend(200)
        queue.write(Unit(end, PREFILL.size, 0).pack() * 200, 200)
        queue.next_offset += 200
        self.schedule(1)
        with capturedLogs() as events:
            self.env.clock.pump([0.5] * 3)
        self.assertEqual((self.delivered(), self.delay.offsets[1]), (2, 202))
        self.assertEqual([event for event in events if event["log_level"] >= LogLevel.warn], [])

    def test_refused_for_now(self) -> None:
        """While the store takes nothing, nothing is lost: it is tried again ten seconds later."""
        self.delay.start({})
        self.schedule(1)
        append = self.store.append

        def refuse(messages: object) -> None:
            raise ServiceNotAvailable("disk full")

        self.patch(self.store, "append", refuse)
        self.env.clock.pump([1.0, 1.0])
        self.assertEqual(self.delay.offsets[1], 0)
        self.patch(self.store, "append", append)
        self.env.clock.pump([1.0] * 10)
        self.assertEqual((self.delay.offsets[1], self.delivered()), (1, 1))

    def test_stopped_while_reading(self) -> None:
        """A stop while a message is read from the disk ends the delivery: the next one is not even read."""
        self.delay.start({})
        for _ in range(3):
            self.schedule(1)
        at = self.store.at
        reading: list[Deferred[bytes]] = []

        def slow(offset: int, size: int) -> Deferred[bytes]:
            reading.append(at(offset, size).addCallback(lambda record: waiting.addCallback(lambda _: record)))
            return reading[-1]

        waiting: Deferred[None] = Deferred()
        self.patch(self.store, "at", slow)
        self.env.clock.advance(1)
        self.delay.stop()
        waiting.callback(None)
        self.assertEqual((len(reading), self.delivered(), self.delay.offsets[1]), (1, 1, 1))

    def test_gone(self) -> None:
        """Messages that are gone from the front of a level's queue are passed, and no other with them."""
        self.delay.start({})
        for number in range(5):
            self.schedule(1, KEYS=f"k{number}")
        self.store._by_key[SCHEDULE_TOPIC, 0].minimum = 3
        self.env.clock.advance(1)
        self.assertEqual((self.delivered(), self.delay.offsets[1]), (2, 5))
        self.schedule(1)
        self.store._by_key[SCHEDULE_TOPIC, 0].minimum = 6
        self.env.clock.advance(2)
        self.assertEqual((self.delivered(), self.delay.offsets[1]), (2, 6))

    def test_discarded(self) -> None:
        """A message without a destination is left out with an error in the log, the next one is delivered."""
        self.delay.start({})
        self.store.append((message({names.DELAY: "1"}, SCHEDULE_TOPIC, 0),))
        self.schedule(1)
        self.env.clock.pump([1.0, 0])
        self.assertEqual((self.delivered(), self.delay.offsets[1]), (1, 2))

    def test_idle(self) -> None:
        """With nothing scheduled there is no timer, and after stopping there is none either."""
        before = len(self.env.clock.getDelayedCalls())
        self.delay.start({})
        self.assertEqual(len(self.env.clock.getDelayedCalls()), before)
        self.schedule(2)
        self.delay.stop()
        self.successResultOf(self.store.close())
        self.assertEqual(self.env.clock.getDelayedCalls(), [])


class KilledTests(SynchronousTestCase):
    """A broker that sends itself a message of 1 s each tenth of a second, and is killed again and again."""

    def live(self, env: FakeEnvironment, seconds: float) -> OpenStore:
        """One life of it."""
        store = opened_store(env)
        env.files.make_directories("/store/config")
        progress = DelayProgress(env.clock, store, TableFile(env, "/store/config/delayOffset.json"))
        delay = DelayDelivery(env.clock, store, LEVELS, progress.changed)
        progress.offsets = delay.offsets
        store.subscribe(delay)
        delay.start(progress.load())
        for _ in range(round(seconds / 0.1)):
            asked = {names.DELAY: "1", names.KEYS: str(store.bounds(SCHEDULE_TOPIC, 0)[1])}
            store.append((divert(message(asked), asked, 1),))
            store.end_run()
            env.clock.advance(0.1)
        return store

    def test_delivered_again(self) -> None:
        """However short its lives, none is missing, and each kill repeats a second's deliveries at most."""
        for seconds in (0.5, 1.5, 4.0):
            env = FakeEnvironment()
            for _ in range(10):
                self.live(env, seconds)
                env = killed(env)
            store = self.live(env, 5)
            scheduled = store.bounds(SCHEDULE_TOPIC, 0)[1]
            delivered: list[str] = []
            while (found := self.successResultOf(store.read_cold("T", 2, len(delivered), ReadLimit(), None))).count:
                delivered += [decode(one.properties)[names.KEYS] for one in records(b"".join(found.parts))]
            self.assertEqual({int(key) for key in delivered} | {*range(scheduled - 11, scheduled)}, {*range(scheduled)})
            self.assertLessEqual(len(delivered) - len(set(delivered)), 10 * 11, seconds)


class DelayProgressTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Positions over a store whose flush a test decides."""
        self.env = FakeEnvironment()
        self.env.files.make_directories("/config")
        self.flushes: list[Deferred[PutStatus]] = []
        self.progress = self.make()

    def make(self) -> DelayProgress:
        """Positions that were not loaded."""
        test = self

        class Store:
            def flush(self) -> Deferred[PutStatus]:
                test.flushes.append(Deferred())
                return test.flushes[-1]

        return DelayProgress(self.env.clock, Store(), TableFile(self.env, "/config/delayOffset.json"))  # type: ignore[arg-type]

    def test_saved_after_flush(self) -> None:
        """At once after the first change the positions are saved, once the disk has everything that they passed."""
        offsets = self.progress.offsets = {1: 5, 3: 7}
        self.progress.changed()
        self.progress.changed()
        self.env.clock.advance(0)
        offsets[1] = 6
        self.assertFalse(self.env.files.exists("/config/delayOffset.json"))
        self.flushes[0].callback(PutStatus.OK)
        self.assertEqual(self.make().load(), {1: 5, 3: 7})
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_not_saved(self) -> None:
        """When the disk refuses, the old positions stay, and ten seconds later it is tried again."""
        self.progress.offsets = {1: 5}
        self.progress.changed()
        self.env.clock.advance(0)
        self.flushes[0].callback(PutStatus.FLUSH_DISK_TIMEOUT)
        self.assertEqual(self.make().load(), {})
        self.progress.changed()
        self.env.clock.pump([0.5] * 19)
        self.assertEqual(len(self.flushes), 1)
        self.env.clock.advance(0.5)
        self.flushes[1].callback(PutStatus.OK)
        self.assertEqual((self.make().load(), self.env.clock.getDelayedCalls()), ({1: 5}, []))

    def test_not_written(self) -> None:
        """When the file cannot be written, it is tried again, and the failure is in the log."""
        self.progress.offsets = {1: 5}
        self.progress.changed()
        self.env.clock.advance(0)
        self.env.files.free = 0
        self.flushes[0].callback(PutStatus.OK)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.env.files.free = 1 << 39
        self.env.clock.advance(10)
        self.flushes[1].callback(PutStatus.OK)
        self.assertEqual(self.make().load(), {1: 5})

    def test_one_save_an_interval(self) -> None:
        """Changes after the first are saved together, an interval later, and never two saves at a time."""
        offsets = self.progress.offsets = {1: 1}
        self.progress.changed()
        self.env.clock.advance(0)
        self.flushes[0].callback(PutStatus.OK)
        for offset in (2, 3):
            offsets[1] = offset
            self.progress.changed()
            self.env.clock.advance(0.45)
        self.assertEqual(len(self.flushes), 1)
        self.env.clock.advance(0.1)
        self.assertEqual(len(self.flushes), 2)
        offsets[1] = 4
        self.progress.changed()
        self.env.clock.advance(5)
        self.assertEqual(len(self.flushes), 2)
        self.flushes[1].callback(PutStatus.OK)
        self.assertEqual(self.make().load(), {1: 3})
        self.env.clock.advance(0)
        self.flushes[2].callback(PutStatus.OK)
        self.assertEqual((self.make().load(), self.env.clock.getDelayedCalls()), ({1: 4}, []))

    def test_stop_while_saving(self) -> None:
        """Stopping waits for the save under way, and saves what changed since."""
        offsets = self.progress.offsets = {1: 5}
        self.progress.changed()
        self.env.clock.advance(0)
        offsets[1] = 6
        self.progress.changed()
        stopping = self.progress.stop()
        self.assertEqual(len(self.flushes), 1)
        self.flushes[0].callback(PutStatus.OK)
        self.assertNoResult(stopping)
        self.assertEqual(self.make().load(), {1: 5})
        self.flushes[1].callback(PutStatus.OK)
        self.successResultOf(stopping)
        self.assertEqual((self.make().load(), self.env.clock.getDelayedCalls()), ({1: 6}, []))

    def test_stop(self) -> None:
        """Stopping saves what is not saved, and nothing where nothing changed."""
        self.assertIsNone(self.successResultOf(self.progress.stop()))
        self.progress.offsets = {2: 9}
        self.progress.changed()
        stopping = self.progress.stop()
        self.assertNoResult(stopping)
        self.flushes[0].callback(PutStatus.OK)
        self.successResultOf(stopping)
        self.assertEqual((self.make().load(), self.env.clock.getDelayedCalls()), ({2: 9}, []))

    def test_rocketmq_form(self) -> None:
        """The file that RocketMQ writes, with bare integer keys, is read."""
        self.env.files.create("/config/delayOffset.json", b'{\n\t"offsetTable":{3:7,1:5\n\t}\n}')
        self.assertEqual(self.progress.load(), {1: 5, 3: 7})
