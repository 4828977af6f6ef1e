"""Tests of L{smartgo.store.recovery.queuerebuild}: missing, short or wrong queues are made anew (S10, F6, F7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.logger import capturedLogs

from smartgo.errors import MessageIllegal
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.message import PREPARED
from smartgo.schema.record import encode
from smartgo.schema.topics import SCHEDULE_TOPIC
from smartgo.store.checkpoint import CheckpointFiles, QueueEntry
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.file import ConsumeQueue
from tests.fakes import FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, content, killed, message, small

QUEUES = f"{ROOT}/consumequeue"


class RebuildTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env)

    def fill_all(self) -> None:
        """Several queues of several topics and files, with everything that makes a difference to a unit."""
        for number in range(150):
            self.send(self.store, message("T", number % 3, b"%d" % number, tag_code=0))
            tagged = message("Tagged", 0, b"%d" % number, properties=b"TAGS\x01tag%d" % (number % 5))
            tagged.tag_code = _code(f"tag{number % 5}")
            self.send(self.store, tagged)
            if number % 10 == 0:
                self.send(self.store, message(SCHEDULE_TOPIC, 2, b"delayed", properties=b"DELAY\x013"))
                self.send(self.store, message("T", 0, b"half", sys_flag=PREPARED))
                self.store.append([message("Batch", 1, b"%d" % one) for one in range(7)])
                self.store.end_run()

    def after(self, stop: bool) -> FakeEnvironment:
        """The machine after a clean stop, or a kill with a checkpoint behind part of it."""
        self.fill_all()
        self.env.clock.advance(2)
        self.fill_all()
        if stop:
            self.stopped(self.store)
        return killed(self.env)

    def reopened(self, env: FakeEnvironment, **changes: object) -> OpenStore:
        """The store on another machine."""
        return self.opened(env, small(**changes))


class FilesTests(RebuildTestCase):
    def faults(self) -> Iterator[tuple[str, Callable[[FakeEnvironment, str], None]]]:
        """What may have become of a file."""

        def remove(env: FakeEnvironment, path: str) -> None:
            del env.files.files[path]

        def empty(env: FakeEnvironment, path: str) -> None:
            env.files.files[path].data = bytearray()

        def shorten(env: FakeEnvironment, path: str) -> None:
            env.files.files[path].data = env.files.files[path].data[:-1]

        def lengthen(env: FakeEnvironment, path: str) -> None:
            env.files.files[path].data = env.files.files[path].data + b"\0"

        def zero(env: FakeEnvironment, path: str) -> None:
            env.files.files[path].data = bytearray(len(env.files.files[path].data))

        def noise(env: FakeEnvironment, path: str) -> None:
            env.files.files[path].data = bytearray(b"\xaa" * len(env.files.files[path].data))

        def rename(env: FakeEnvironment, path: str) -> None:
            env.files.rename(path, path[:-1] + "1")

        for fault in (remove, empty, shorten, lengthen, zero, noise, rename):
            yield fault.__name__, fault

    def test_each_file(self) -> None:
        """Whatever became of any one queue file, all queues are as they were, byte for byte."""
        for stop in (True, False):
            env = self.after(stop)
            again = killed(env)
            self.reopened(again)
            expected = content(again, "consumequeue")
            paths = [path for path in content(env, "consumequeue") if "/T/1/" not in path or path.endswith("00")]
            self.assertGreater(len(paths), 15)
            for path in paths:
                for name, fault in self.faults():
                    broken = killed(env)
                    fault(broken, path)
                    self.reopened(broken)
                    self.same(content(broken, "consumequeue"), expected, (stop, name, path))
            self.setUp()

    def test_swapped(self) -> None:
        """Files of two queues that were exchanged are noticed."""
        for stop in (True, False):
            env = self.after(stop)
            again = killed(env)
            self.reopened(again)
            expected = content(again, "consumequeue")
            for one, other in (("T/0", "T/1"), ("T/2", "Tagged/0"), ("Batch/1", "Tagged/0")):
                for base in (0, 400):
                    broken = killed(env)
                    first = broken.files.files[f"{QUEUES}/{one}/{base:020d}"]
                    second = broken.files.files[f"{QUEUES}/{other}/{base:020d}"]
                    first.data, second.data = second.data, first.data
                    self.reopened(broken)
                    self.same(content(broken, "consumequeue"), expected, (stop, one, other, base))
            self.setUp()

    def test_whole_directories(self) -> None:
        """A queue, a topic, or all of the queues may be gone."""
        for stop in (True, False):
            env = self.after(stop)
            again = killed(env)
            self.reopened(again)
            expected = content(again, "consumequeue")
            for gone in (f"{QUEUES}/T/0/", f"{QUEUES}/T/", f"{QUEUES}/"):
                for table in (True, False):
                    broken = killed(env)
                    for path in [path for path in broken.files.files if path.startswith(gone)]:
                        del broken.files.files[path]
                    if not table and gone == f"{QUEUES}/":
                        del broken.files.files[f"{ROOT}/smartgo.queues"]
                    self.reopened(broken)
                    self.same(content(broken, "consumequeue"), expected, (stop, gone))
            self.setUp()

    def test_several(self) -> None:
        """What is rebuilt is served, and goes on where it was."""
        env = self.after(True)
        for path in content(env, "consumequeue/T"):
            del env.files.files[path]
        store = self.reopened(env)
        before = [self.bodies(store, queue_id=queue_id) for queue_id in range(3)]
        self.assertEqual([len(one) for one in before], [100] * 3)
        self.assertEqual(before[0][:2], [b"0", b"3"])
        self.send(store, message(body=b"new"))
        self.assertEqual(self.bodies(store), [*before[0], b"new"])


class LeftoverTests(RebuildTestCase):
    def test_behind_the_end(self) -> None:
        """Units that a power failure left behind the end are taken away."""
        self.send(self.store, *[message()] * 5)
        self.env.clock.advance(2)
        offsets = self.send(self.store, *[message()] * 5)
        env = killed(self.env)
        env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offsets[2] :] = bytes(LOG_SIZE - offsets[2])
        store = self.reopened(env)
        self.assertEqual(store.bounds("T", 0), (0, 7))
        self.assertFalse(any(env.files.files[f"{QUEUES}/T/0/{0:020d}"].data[7 * UNIT_SIZE :]))

    def test_behind_a_gap(self) -> None:
        """Old units behind a gap, as RocketMQ leaves them, are not taken for the queue's end."""
        self.send(self.store, *[message()] * 6)
        self.env.clock.advance(2)
        units = self.store.units("T", 0, 0, 6)
        env = killed(self.env)
        for name in ("smartgo.checkpoint", "smartgo.queues"):
            del env.files.files[f"{ROOT}/{name}"]
        data = env.files.files[f"{QUEUES}/T/0/{0:020d}"].data
        for number in range(8, 18):
            data[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] = units[number % 5].pack()
        store = self.reopened(env)
        self.assertEqual(store.bounds("T", 0), (0, 6))
        self.assertEqual(len(self.bodies(store)), 6)

    def test_taken_for_the_end(self) -> None:
        """So many old units that a bisection ends in them are seen through by the record they lead to."""
        self.send(self.store, *[message()] * 6)
        while self.store.log_bounds()[1] < 3 * LOG_SIZE:
            self.send(self.store, message("Other"))
        units = self.store.units("T", 0, 0, 6)
        self.stopped(self.store)
        for rocket in (True, False):
            env = killed(self.env)
            if rocket:
                for name in ("smartgo.checkpoint", "smartgo.queues"):
                    del env.files.files[f"{ROOT}/{name}"]
            else:
                env.files.create(f"{ROOT}/abort", b"")
            data = env.files.files[f"{QUEUES}/T/0/{0:020d}"].data
            for number in range(8, 20):
                data[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] = units[number % 5].pack()
            store = self.reopened(env)
            self.assertEqual((store.bounds("T", 0), len(self.bodies(store))), ((0, 6), 6))
            self.assertFalse(any(data[8 * UNIT_SIZE :]))

    def test_queue_never_used(self) -> None:
        """A queue file without a unit is a queue without a message."""
        self.store.append([message()])
        env = killed(self.env)
        env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[:] = bytes(LOG_SIZE)
        store = self.reopened(env)
        self.assertEqual((store.bounds("T", 0), list(store.queues())), ((0, 0), []))
        self.send(store, message())
        self.assertEqual(store.bounds("T", 0), (0, 1))


class OffsetTests(RebuildTestCase):
    def test_old_files_gone(self) -> None:
        """A queue made anew without the oldest log files begins where the log does, filled up before."""
        self.fill(self.store, 150)
        self.stopped(self.store)
        bodies = self.bodies(self.reopened(killed(self.env)))
        env = killed(self.env)
        del env.files.files[f"{ROOT}/commitlog/{0:020d}"]
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        store = self.reopened(env)
        minimum, maximum = store.bounds("T", 0)
        self.assertTrue(20 < minimum < maximum == 150)
        self.assertEqual(self.bodies(store), bodies[minimum:])
        first = minimum * UNIT_SIZE // 400 * 400
        self.assertEqual(env.files.list(f"{QUEUES}/T/0")[0], f"{first:020d}")
        data = env.files.files[f"{QUEUES}/T/0/{first:020d}"].data
        self.assertEqual(bytes(data[:UNIT_SIZE]), PREFILL.pack())
        self.stopped(store)
        self.assertEqual(self.reopened(env).bounds("T", 0), (minimum, maximum))

    def test_all_messages_gone(self) -> None:
        """Offsets are not given out twice: a queue none of whose messages is left goes on where it was (D11)."""
        self.fill(self.store, 30, "Old")
        while self.store.log_bounds()[1] < LOG_SIZE + 1000:
            self.send(self.store, message())
        self.stopped(self.store)
        env = killed(self.env)
        del env.files.files[f"{ROOT}/commitlog/{0:020d}"]
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        store = self.reopened(env)
        self.assertEqual(store.bounds("Old", 0), (30, 30))
        self.send(store, message("Old"))
        self.assertEqual((store.bounds("Old", 0), len(self.bodies(store, "Old"))), ((30, 31), 1))

    def test_one_record_counts_wrong(self) -> None:
        """A bit that flipped in the queue offset of a record costs that message, no other (F6)."""
        offsets = self.send(self.store, *[message(body=b"%d" % number) for number in range(20)])
        self.stopped(self.store)
        for damaged in (0, 7, 18):
            for bit in (0, 1, 4, 10, 33, 50, 62):
                env = killed(self.env)
                for path in content(env, "consumequeue"):
                    del env.files.files[path]
                env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offsets[damaged] + 27 - bit // 8] ^= 1 << bit % 8
                store = self.reopened(env)
                self.assertEqual(store.bounds("T", 0)[1], 20)
                found = {one.queue_offset: bytes(one.body) for one in self.read_all(store)}
                expected = {number: b"%d" % number for number in range(20) if number != damaged}
                self.assertEqual({number: found[number] for number in expected}, expected, (damaged, bit))
                self.assertLessEqual(len(found), 20)

    def test_tail_counts_wrong(self) -> None:
        """The same in the log's tail, where the queues are there but lag behind."""
        self.send(self.store, *[message()] * 5)
        self.env.clock.advance(2)
        offsets = self.send(self.store, *[message(body=b"%d" % number) for number in range(5)])
        for damaged in range(5):
            env = killed(self.env)
            env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offsets[damaged] + 24] ^= 1
            store = self.reopened(env)
            served = {one.queue_offset for one in self.read_all(store)}
            self.assertLessEqual(set(range(10)) - served, {damaged + 5})

    def test_impossible_queue(self) -> None:
        """A bit that flipped in the queue id of a record costs that message, and makes no queue that cannot be."""
        for tail in (False, True):
            for bit in (16, 23, 30):
                with self.subTest(tail=tail, bit=bit):
                    self.env = FakeEnvironment()
                    self.store = self.opened(self.env)
                    offsets = self.send(self.store, *[message(body=b"%d" % number) for number in range(20)])
                    if not tail:
                        self.stopped(self.store)
                    env = killed(self.env)
                    if not tail:
                        for path in content(env, "consumequeue"):
                            del env.files.files[path]
                    env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offsets[7] + 15 - bit // 8] ^= 1 << bit % 8
                    for _ in range(2):
                        with capturedLogs() as logs:
                            store = self.reopened(env)
                        self.assertEqual(list(store.queues()), [("T", 0)])
                        expected = [number for number in range(20) if number != 7]
                        self.assertEqual([one.queue_offset for one in self.read_all(store)], expected)
                        self.assertEqual(env.files.list(f"{ROOT}/consumequeue/T"), ["0"])
                        told = [one for one in logs if "no topic has" in one["log_format"]]
                        self.assertEqual(len(told), 1)
                        env = killed(env)
                        for path in content(env, "consumequeue"):
                            del env.files.files[path]
                    self.assertRaises(MessageIllegal, store.append, [message("T", 1 << 16)])

    def test_impossible_queue_known(self) -> None:
        """What older versions made of such a record is left alone, and not read."""
        self.fill(self.store, 10)
        self.stopped(self.store)
        checkpoints = CheckpointFiles(self.env.files, ROOT)
        table = checkpoints.load_table()
        assert table is not None
        table.queues.append(QueueEntry("T", 1 << 30, 0, 7))
        checkpoints.save_table(table)
        directory = f"{ROOT}/consumequeue/T/{1 << 30}"
        self.env.files.make_directories(directory)
        self.env.files.create(f"{directory}/{0:020d}", bytes(100))
        with capturedLogs() as logs:
            store = self.reopened(killed(self.env))
        self.assertEqual((list(store.queues()), len(self.bodies(store))), ([("T", 0)], 10))
        self.assertEqual([one["path"] for one in logs if "neither read nor changed" in one["log_format"]], [directory])

    def test_gap(self) -> None:
        """Where the log misses messages that no crash took, units without a message stand for them."""
        self.fill(self.store, 10)
        queue = self.store._by_key["T", 0]
        queue.next_offset += 5
        self.store.end_run()
        self.send(self.store, message(body=b"after"), message(body=b"the gap"))
        env = killed(self.env)
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        store = self.reopened(env)
        self.assertEqual(store.bounds("T", 0), (0, 17))
        self.assertEqual([one.queue_offset for one in self.read_all(store)], [*range(10), 15, 16])
        self.assertEqual(store.units("T", 0, 12, 1)[0].size, PREFILL.size)
        self.assertEqual(store.bounds("T", 0), self.reopened(killed(env)).bounds("T", 0))

    def test_names_without_units(self) -> None:
        """Where a power failure left a queue's file without its units, the queue is made as if it were not there."""
        self.fill(self.store, 150)
        self.stopped(self.store)
        env = killed(self.env)
        gone = [f"{ROOT}/commitlog/{0:020d}", f"{ROOT}/smartgo.checkpoint", f"{ROOT}/smartgo.queues"]
        for path in [*gone, *content(env, "consumequeue")]:
            del env.files.files[path]
        without = killed(env)
        env.files.create_sparse(f"{QUEUES}/T/0/{0:020d}", 400)
        expected = self.reopened(without)
        store = self.reopened(env)
        minimum, maximum = store.bounds("T", 0)
        self.assertTrue(20 < minimum < maximum == 150)
        self.assertEqual(expected.bounds("T", 0), (minimum, maximum))
        self.assertEqual(self.bodies(store), self.bodies(expected))
        for one in (store, expected):
            self.stopped(one)
        self.same(content(env, "consumequeue"), content(without, "consumequeue"))

    def test_begins_with_fillers(self) -> None:
        """A queue that begins with units without a message can be read from its first message on."""
        self.send(self.store, message("Other"))
        queue = self.store._queues.create("T", 0)
        queue.extend(5000)
        queue.write(Unit(self.store.log_bounds()[1], PREFILL.size, 0).pack() * 5000, 5000)
        queue.next_offset = 5000
        self.send(self.store, message(body=b"one"), message(body=b"two"))
        self.assertEqual(self.store.bounds("T", 0), (0, 5002))
        store = self.reopened(killed(self.env))
        self.assertEqual(store.bounds("T", 0), (5000, 5002))
        self.assertEqual(self.bodies(store), [b"one", b"two"])

    def test_begins_with_messages(self) -> None:
        """Of a queue that begins with a message one unit is read to find that: a store may have many queues."""
        self.fill(self.store, 30)
        asked: list[int] = []
        units = ConsumeQueue.units

        def counting(queue: ConsumeQueue, offset: int, count: int) -> list[Unit]:
            asked.append(count)
            return units(queue, offset, count)

        self.patch(ConsumeQueue, "units", counting)
        store = self.reopened(killed(self.env))
        self.assertEqual(asked, [1])
        self.assertEqual(store.bounds("T", 0), (0, 30))

    def test_endless_gap(self) -> None:
        """A jump that cannot be does not fill the disk."""
        self.fill(self.store, 3)
        end = self.store.log_bounds()[1]
        raw = self.env.files.files[f"{ROOT}/commitlog/{0:020d}"].data
        for number in range(2):
            record = encode(message(), (1 << 45) + number, end, 1_700_000_000_000)
            raw[end : end + len(record)] = record
            end += len(record)
        env = killed(self.env)
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        store = self.reopened(env)
        self.assertEqual((store.bounds("T", 0), store.log_bounds()[1]), ((0, 3), end))

    def test_begins_again(self) -> None:
        """A queue that a RocketMQ broker deleted and made again: the later records count."""
        self.fill(self.store, 30)
        queue = self.store._by_key["T", 0]
        self.store._queues.discard_files(queue)
        self.send(self.store, message(body=b"new"), message(body=b"life"))
        env = killed(self.env)
        for name in ("smartgo.checkpoint", "smartgo.queues"):
            env.files.files.pop(f"{ROOT}/{name}")
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        self.assertEqual(self.bodies(self.reopened(env)), [b"new", b"life"])

    def test_light_queue(self) -> None:
        """A light queue's units are not held against their records."""
        self.send(self.store, *[message()] * 3, message("%LMQ%a"))
        first = self.store.units("T", 0, 0, 1)[0]
        self.stopped(self.store)
        env = killed(self.env)
        data = env.files.files[f"{QUEUES}/%LMQ%a/0/{0:020d}"].data
        data[:UNIT_SIZE] = first.pack()
        store = self.reopened(env)
        self.assertEqual(store.units("%LMQ%a", 0, 0, 9), [first])
        self.assertEqual(Unit(1, 2, 3).size, 2)


def _code(tag: str) -> int:
    code = 0
    for character in tag:
        code = (code * 31 + ord(character)) & 0xFFFFFFFF
    return code - ((code & 0x80000000) << 1)
