"""Tests of L{smartgo.store.commitlog}, through a store."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random
from typing import Any

from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.errors import MessageIllegal, NoSuchMessage, ServiceNotAvailable
from smartgo.schema.consumequeue import UNIT_SIZE, Unit
from smartgo.schema.delay import DelayLevels
from smartgo.schema.message import BORN_V6, COMMIT, COMPRESSED, PREPARED, ROLLBACK, STORE_V6, NewMessage, pack_host
from smartgo.schema.record import BLANK_SIZE, HEAD_SIZE, check, decode, encode, encode_blank
from smartgo.schema.recordscan import scan
from smartgo.schema.topics import QUEUE_LIMIT, SCHEDULE_TOPIC
from smartgo.store.interfaces import IQueue
from smartgo.store.opening import open_store
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, killed, message, small

OVERHEAD = HEAD_SIZE + 1 + 1 + 2  # topic "T"
ROOM = LOG_SIZE - BLANK_SIZE


class LogTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env)

    def log(self, base: int = 0) -> bytes:
        """The content of a log file."""
        path = f"{ROOT}/commitlog/{base:020d}"
        return bytes(self.env.files.files[path].data) if self.env.files.exists(path) else b""

    def of_size(self, size: int) -> NewMessage:
        """A message whose record has a certain size."""
        return message(body=b"x" * (size - OVERHEAD), properties=b"")


class AppendTests(LogTestCase):
    def test_bytes(self) -> None:
        """A record is what the schema makes of the message, with its places and time filled in."""
        random = Random(1)
        end = 0
        for number in range(300):
            sent = message(
                f"T{number % 3}",
                number % 2,
                random.randbytes(random.randrange(40)),
                properties=b"a\x01" + b"x" * random.randrange(20),
                flag=random.randrange(-(2**31), 2**31),
                sys_flag=random.choice((0, COMPRESSED, COMMIT)),
                born_ms=random.randrange(2**40),
                born_host=random.choice((pack_host("10.0.0.1", 5), pack_host("fe80::1", 70000))),
                store_host=random.choice((pack_host("10.0.0.2", 6), pack_host("::5", 8))),
                reconsume_times=random.randrange(20),
                prepared_offset=random.randrange(2**50),
            )
            self.env.clock.advance(0.001)
            appended = self.store.append([sent])
            self.store.end_run()
            if appended.offset != end:
                self.assertEqual(appended.offset % LOG_SIZE, 0)
                self.assertGreater(appended.end - appended.offset + BLANK_SIZE, appended.offset - end)
            end = appended.end
            expected = encode(sent, number // 6, appended.offset, EPOCH_MS + number + 1)
            self.assertEqual(self.now(self.store.at(appended.offset)), expected)
            self.assertEqual(appended.end - appended.offset, len(expected))
            self.assertEqual((appended.queue_offset, appended.stored_ms), (number // 6, EPOCH_MS + number + 1))
            self.assertEqual(list(appended.offsets), [appended.offset])
            flags = decode(expected).sys_flag
            self.assertEqual(bool(flags & BORN_V6), len(sent.born_host) == 20)
            self.assertEqual(bool(flags & STORE_V6), len(sent.store_host) == 20)

    def test_memoryview(self) -> None:
        """A body may be a piece of what was received."""
        self.send(self.store, message(body=b"".join([b"body"])), message(body=memoryview(b"a body here")[2:6]))
        self.assertEqual(self.bodies(self.store), [b"body", b"body"])

    def test_host_flags(self) -> None:
        """The IPv6 bits of the sys flag follow from the hosts, whatever the sender claims."""
        self.send(self.store, message(sys_flag=BORN_V6 | STORE_V6 | COMPRESSED))
        self.assertEqual(self.read_all(self.store)[0].sys_flag, COMPRESSED)

    def test_queue_offsets(self) -> None:
        """Each queue counts for itself, without a gap, also within a run."""
        appended = [self.store.append([message(queue_id=number % 3)]) for number in range(30)]
        self.assertEqual([one.queue_offset for one in appended], [number // 3 for number in range(30)])
        self.store.end_run()
        self.assertEqual(self.store.append([message(queue_id=1)]).queue_offset, 10)

    def test_transactions(self) -> None:
        """Prepared and rollback messages are in the log and in no queue; commits are in their queue."""
        kinds = (PREPARED, COMMIT, ROLLBACK, 0)
        appended = [self.store.append([message(sys_flag=kind, body=b"%d" % kind)]) for kind in kinds]
        self.store.end_run()
        self.assertEqual([one.queue_offset for one in appended], [0, 0, 0, 1])
        self.assertEqual(self.bodies(self.store), [b"8", b"0"])
        for one, kind in zip(appended, kinds, strict=True):
            self.assertEqual(decode(self.now(self.store.at(one.offset))).body, b"%d" % kind)

    def test_only_prepared(self) -> None:
        """A run of nothing but prepared messages is flushed all the same."""
        appended = self.store.append([message(sys_flag=PREPARED)])
        self.store.end_run()
        self.env.clock.advance(0.5)
        self.assertEqual(self.store.flushed, appended.end)

    def test_schedule(self) -> None:
        """A unit of the schedule topic holds the due time of its level: queue id + 1, the top level above the top."""
        levels = DelayLevels.parse("1s 5s")
        store = self.now(open_store(self.env, "/other", small(delay_levels=levels)))
        for queue_id in (0, 1, 7):
            self.send(store, message(SCHEDULE_TOPIC, queue_id, tag_code=99))
            sent = [message(SCHEDULE_TOPIC, queue_id, tag_code=99)] * 2
            store.append(sent)
            store.end_run()
            delay = 1000 if queue_id == 0 else 5000
            codes = [unit.tag_hash for unit in store.units(SCHEDULE_TOPIC, queue_id, 0, 9)]
            self.assertEqual(codes, [EPOCH_MS + delay] * 3)
        self.stopped(store)

    def test_tag_codes(self) -> None:
        """A unit holds the tag code that came with the message."""
        self.send(self.store, message(tag_code=-5), message(tag_code=2598919))
        self.assertEqual([unit.tag_hash for unit in self.store.units("T", 0, 0, 9)], [-5, 2598919])

    def test_one_time_a_run(self) -> None:
        """The messages of one run have one store timestamp; the next run reads the clock again."""
        for _ in range(2):
            self.env.clock.advance(1)
            for number in range(3):
                self.store.append([message()])
                self.store.append([message(), message()])
                self.store.append([message(born_host=pack_host("fe80::1", number))])
            self.store.end_run()
        times = [one.stored_ms - EPOCH_MS for one in self.read_all(self.store)]
        self.assertEqual(times, [1000] * 12 + [2000] * 12)

    def test_clock_after_a_refusal(self) -> None:
        """A run of nothing but refused messages leaves its time behind as well."""
        self.assertRaises(MessageIllegal, self.store.append, [message(born_ms=2**63)])
        self.store.end_run()
        self.env.clock.advance(60)
        self.assertEqual(self.store.append([message()]).stored_ms, EPOCH_MS + 60_000)

    def test_clock_without_a_run(self) -> None:
        """A refused append leaves no time behind either where no run ends after it, whatever it was refused for."""
        illegal = [message(born_ms=2**63)]
        for refused in (illegal, illegal * 2, [message(born_ms=2**63, born_host=pack_host("fe80::1", 1))]):
            self.assertRaises(MessageIllegal, self.store.append, refused)
            self.env.clock.advance(60)
            now_ms = EPOCH_MS + round(self.env.clock.seconds() * 1000)
            self.assertEqual(self.store.append([message()]).stored_ms, now_ms)
            self.store.end_run()
        for queue_id, host in enumerate((pack_host("127.0.0.1", 1), pack_host("fe80::1", 1)), 1):
            path = f"{ROOT}/consumequeue/T/{queue_id}/{0:020d}"
            self.env.files.fail[path] = errno.ENOSPC
            self.assertRaises(ServiceNotAvailable, self.store.append, [message(queue_id=queue_id, born_host=host)])
            del self.env.files.fail[path]
            self.env.clock.advance(60)
            now_ms = EPOCH_MS + round(self.env.clock.seconds() * 1000)
            self.assertEqual(self.store.append([message(queue_id=queue_id, born_host=host)]).stored_ms, now_ms)
            self.store.end_run()

    def test_clock_set_back(self) -> None:
        """Store timestamps follow the clock; set back, it takes no offset back with it (H9)."""
        self.send(self.store, message())
        self.env.clock.wall_offset_ms -= 3_600_000
        self.send(self.store, message())
        first, second = self.read_all(self.store)
        self.assertEqual(second.stored_ms, first.stored_ms - 3_600_000)
        self.assertEqual((second.queue_offset, second.physical_offset), (1, first.size))


class LimitTests(LogTestCase):
    def refused(self, *messages: NewMessage) -> None:
        """Nothing of a refused append is there."""
        before = self.store.log_bounds(), self.store.bounds("T", 0), self.log()
        self.assertRaises(MessageIllegal, self.store.append, messages)
        self.store.end_run()
        self.assertEqual((self.store.log_bounds(), self.store.bounds("T", 0), self.log()), before)

    def test_limits(self) -> None:
        """Body, properties, batch and numbers over their limits are refused, and leave nothing behind."""
        self.stopped(self.store)
        settings = small(log_file_size=200_000, max_message_size=1000, max_batch_count=5)
        self.store = self.now(open_store(self.env, "/limits", settings))
        self.log = lambda base=0: bytes(self.env.files.files["/limits/commitlog/" + "0" * 20].data)  # type: ignore[method-assign]
        self.send(self.store, message(body=b"x" * 1000, properties=b"p" * 32767))
        self.refused(message(body=b"x" * 1001))
        self.refused(message(properties=b"p" * 32768))
        self.refused(message(properties=b"p" * 32768, copied=True))
        self.refused(*[message(body=b"x" * 501, copied=True)] * 2)
        self.refused(message(body=b"x" * 1001, born_host=bytes(20)))
        self.refused(*[message(body=b"x" * 201)] * 5)
        self.refused(*[message()] * 6)
        self.refused(message(), message(properties=b"p" * 32767), message())
        self.refused(message(properties=b"a\x01\0"))
        self.refused(message(properties=b"a\x01\0", born_host=bytes(20)))
        self.refused(message(), message(properties=b"\0a\x01b"))
        self.refused(message(properties=b"__CRC32#\x010123456789\x02"))
        self.refused(message(properties=b"__CRC32#\x010123456789\x02a\x01b", born_host=bytes(20)))
        self.refused(message(properties=b"__CRC32#\x010123456789"), message())
        self.refused(message(), message(properties=b"a\x01b\x02__CRC32#\x010123456789", store_host=bytes(20)))
        self.refused()
        self.refused(message(), message(sys_flag=PREPARED))
        self.refused(message(sys_flag=2**31))
        self.refused(message(born_ms=2**63))
        self.refused(message(flag=2**31), message(flag=2**31))
        self.store.append([message(body=b"x" * 200)] * 5)
        self.store.append([message(), message(properties=b"p" * 32766), message(properties=b"p" * 32767)])
        self.stopped(self.store)

    def test_places(self) -> None:
        """What can be no topic or queue id is refused before a path is made of it (B5)."""
        for topic in ("", "..", "a/b", "a\0", "x" * 128, "\uff21", "a.b", "../../etc"):
            self.assertRaises(MessageIllegal, self.store.append, [message(topic)])
        for queue_id in (-1, 2**31):
            self.assertRaises(MessageIllegal, self.store.append, [message(queue_id=queue_id)])
        self.assertEqual(self.env.files.list(f"{ROOT}/consumequeue"), [])

    def test_longer_than_a_file(self) -> None:
        """What does not fit into any file with a blank is refused; what just fits is taken."""
        self.refused(self.of_size(ROOM + 1))
        self.assertEqual(self.store.append([self.of_size(ROOM)]).end, ROOM)
        self.store.end_run()
        self.refused(self.of_size(ROOM // 2), self.of_size(ROOM // 2))


class ReadableTests(LogTestCase):
    """Reading of appended messages of every kind."""

    HOSTS = (pack_host("10.0.0.1", 5), pack_host("fe80::1", 70000), pack_host("255.255.255.255", -1), bytes(20))
    PIECES = (
        b"\x01", b"\x02", b"\x02\x02", b"a", b"TAGS\x01t", b"__CRC32#", b"__CRC32#\x01", b"0123456789", b"9" * 10,
        b"\xff", b"\xda\xa3\x20\xa7", b"0000000000\x02", b"__CRC32#\x011234567890\x02", b"x" * 200, b"\0",
    )  # fmt: skip
    INTS = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63)

    def odd(self, random: Random, host: bytes) -> NewMessage:
        """A message that is hardly one."""

        def number(bits: int) -> int:
            return random.choice(self.INTS) if random.random() < 0.04 else random.randrange(-(1 << bits), 1 << bits)

        return message(
            "T",
            random.choice((0, 0, 0, 1, QUEUE_LIMIT - 1)),
            random.choice((b"", b"\0" * 9, b"\xda\xa3\x20\xa7" * 30, random.randbytes(random.randrange(60)))),
            properties=b"".join(random.choices(self.PIECES[:-1], k=random.randrange(4)))
            + random.choice((b"", b"", b"", *self.PIECES)),
            flag=number(31),
            sys_flag=random.choice((0, 0, COMPRESSED, COMMIT, PREPARED, -1, -(2**31), BORN_V6, STORE_V6 | 0x700)),
            born_ms=number(63),
            born_host=host,
            store_host=random.choice(self.HOSTS) if random.random() < 0.2 else self.HOSTS[0],
            reconsume_times=number(31),
            prepared_offset=number(63),
            tag_code=random.randrange(-(2**63), 2**63),
        )

    def test_everything(self) -> None:
        """Every record that is taken passes the checks of a recovery, and a kill right afterwards loses none."""
        taken = refused = 0
        for seed in range(25):
            random = Random(seed)
            self.env = FakeEnvironment()
            if seed == 0:
                self.env.clock.wall_offset_ms = -5  # set to before 1970
            self.store = self.opened(self.env, small(log_file_size=1 << 16, queue_file_size=4000))
            expected: list[bytes] = []
            for number in range(200):
                host = random.choice(self.HOSTS)
                count = random.choice((1, 1, 1, 2, 3, 6))
                try:
                    appended = self.store.append([self.odd(random, host) for _ in range(count)])
                except MessageIllegal:
                    refused += 1
                else:
                    self.assertEqual(len(appended.offsets), count)
                    end = appended.end
                    for offset in reversed(appended.offsets):
                        base = offset - offset % (1 << 16)
                        record = self.log(base)[offset - base : end - base]
                        self.assertEqual(check(record, 0, offset).size, len(record), (seed, number))
                        end = offset
                        expected.append(record)
                        taken += 1
                if random.random() < 0.5:
                    self.store.end_run()
                if number % 20 == 0:
                    self.survives(expected)
            self.survives(expected)
        self.assertGreater(taken, 2000)
        self.assertGreater(refused, 500)

    def survives(self, expected: list[bytes]) -> None:
        """After a kill the log has these records still, and its queues those that are in queues."""
        after = self.opened(killed(self.env), small(log_file_size=1 << 16, queue_file_size=4000))
        self.assertEqual(after.log_bounds(), self.store.log_bounds())
        records = list(map(decode, expected))
        for one, raw in zip(records, expected, strict=True):
            self.assertEqual(self.now(after.at(one.physical_offset)), raw)
        for queue_id in (0, 1, 2**31 - 1):
            listed = [one for one in records if one.queue_id == queue_id and not one.sys_flag & PREPARED]
            offsets = sorted(one.physical_offset for one in listed)
            self.assertEqual([one.physical_offset for one in self.read_all(after, "T", queue_id)], offsets)
        self.stopped(after)

    def test_place_in_batch(self) -> None:
        """All of a batch goes to the queue of its first message, by every path."""
        for host in (bytes(8), pack_host("fe80::1", 1)):
            messages = [message(), message(queue_id=-5, born_host=host), message("U", born_host=host)]
            self.store.append(messages)
            self.store.end_run()
        self.assertEqual(len(self.bodies(self.store)), 6)

    def test_longest_body(self) -> None:
        """No setting lets a body in that recovery would not believe."""
        store = self.now(open_store(self.env, "/big", small(log_file_size=1 << 26, max_message_size=1 << 25)))
        body = bytes((16 << 20) + 1)
        self.assertRaises(MessageIllegal, store.append, [message(body=body)])
        self.assertRaises(MessageIllegal, store.append, [message(body=body, copied=True)])
        appended = store.append([message(body=body[1:], properties=b"p" * 32767)])
        check(self.now(store.at(appended.offset)), 0, 0)
        self.stopped(store)


class RollTests(LogTestCase):
    def test_every_room(self) -> None:
        """A record fits if 8 bytes remain behind it; else a blank of all the room closes the file."""
        for left in range(200, 220):
            env = FakeEnvironment()
            store = self.opened(env)
            self.send(store, self.of_size(LOG_SIZE - left))
            appended = store.append([self.of_size(205)])
            store.end_run()
            first = bytes(env.files.files[f"{ROOT}/commitlog/{0:020d}"].data)
            if left >= 205 + BLANK_SIZE:
                self.assertEqual((appended.offset, appended.end), (LOG_SIZE - left, LOG_SIZE - left + 205))
            else:
                self.assertEqual(appended.offset, LOG_SIZE)
                self.assertEqual(first[-left:][:BLANK_SIZE], encode_blank(left))
                self.assertFalse(any(first[-left:][BLANK_SIZE:]))
            self.assertEqual(len(self.bodies(store)), 2)

    def test_blank_of_eight(self) -> None:
        """After a record that ends 8 bytes before the file's end, the blank is just these."""
        self.send(self.store, self.of_size(ROOM), self.of_size(100))
        self.assertEqual(self.log()[-BLANK_SIZE:], encode_blank(BLANK_SIZE))
        self.assertEqual(self.store.log_bounds(), (0, LOG_SIZE + 100))

    def test_batch_not_split(self) -> None:
        """A batch lies in one file: in this one if all of it fits, else in the next."""
        for left in (3 * 200 + BLANK_SIZE, 3 * 200 + BLANK_SIZE - 1, 250):
            env = FakeEnvironment()
            store = self.opened(env)
            self.send(store, self.of_size(LOG_SIZE - left))
            two = message(body=b"x" * (199 - OVERHEAD), properties=b"")  # the mark makes it 200
            appended = store.append([two, two, self.of_size(200)])
            store.end_run()
            begin = LOG_SIZE - left if left >= 3 * 200 + BLANK_SIZE else LOG_SIZE
            self.assertEqual(appended.offsets, [begin, begin + 200, begin + 400])
            self.assertEqual((appended.offset, appended.end, appended.queue_offset), (begin, begin + 600, 1))
            self.assertEqual(len(self.bodies(store)), 4)

    def test_files_are_whole(self) -> None:
        """Every file of the log has its full length and blocks before anything is written to it (S1)."""
        free = self.env.files.free
        self.fill(self.store, 200)
        names = self.env.files.list(f"{ROOT}/commitlog")
        self.assertGreater(len(names), 5)
        for number, name in enumerate(names):
            self.assertEqual(int(name), number * LOG_SIZE)
            self.assertEqual(self.env.files.size(f"{ROOT}/commitlog/{name}"), LOG_SIZE)
        self.assertGreaterEqual(free - self.env.files.free, (len(names) - 1) * LOG_SIZE)


class BatchTests(LogTestCase):
    def batch(self, count: int, **changes: Any) -> list[NewMessage]:
        """Messages of different lengths."""
        return [message(body=b"b%d" % number * number, **changes) for number in range(1, count + 1)]

    def test_records(self) -> None:
        """A batch is adjacent records with adjacent offsets and one store time; all but the last carry the mark."""
        for host in (pack_host("10.0.0.1", 1), pack_host("fe80::1", 1)):
            begin = self.store.bounds("T", 0)[1]
            appended = self.store.append(self.batch(10, born_host=host))
            self.assertEqual(self.store.bounds("T", 0)[1], begin)
            self.store.end_run()
            self.assertEqual(self.bodies(self.store)[begin:], [bytes(one.body) for one in self.batch(10)])
            raw = self.log()[appended.offset : appended.end]
            found = list(scan(raw, 0, appended.offset))
            self.assertEqual([one.physical_offset for one in found], list(appended.offsets))
            self.assertEqual([one.queue_offset for one in found], list(range(begin, begin + 10)))
            self.assertEqual({one.stored_ms for one in found}, {appended.stored_ms})
            self.assertEqual([one.properties for one in found], [b"UNIQ_KEY\x01x\x02"] * 9 + [b"UNIQ_KEY\x01x"])

    def test_mark(self) -> None:
        """Whatever separators the properties come with, only records that are followed by one of the batch keep one."""
        for host in (pack_host("10.0.0.1", 1), pack_host("fe80::1", 1)):
            singles = [message(properties=one, store_host=host) for one in (b"a\x01b\x02\x02", b"\x02")]
            self.send(self.store, *singles)
            batch = [message(properties=one, store_host=host) for one in (b"a\x01b\x02", b"", b"a\x01b\x02\x02")]
            self.store.append(batch)
            self.store.end_run()
            found = [one.properties for one in self.read_all(self.store)[-5:]]
            self.assertEqual(found, [b"a\x01b", b"", b"a\x01b\x02", b"\x02", b"a\x01b"])

    def test_of_one(self) -> None:
        """A batch of one message is a single message."""
        self.store.append(self.batch(1))
        self.store.end_run()
        self.assertEqual(self.read_all(self.store)[0].properties, b"UNIQ_KEY\x01x")

    def test_mixed_hosts(self) -> None:
        """The messages of a batch may have come different ways."""
        hosts = (pack_host("10.0.0.1", 1), pack_host("fe80::1", 1), pack_host("10.0.0.3", 1))
        self.store.append([message(born_host=one) for one in hosts])
        self.store.end_run()
        self.assertEqual([one.born_host for one in self.read_all(self.store)], list(hosts))


@implementer(IQueue)
class LightQueue:
    """A queue that is in no file: it notes what is staged."""

    def __init__(self) -> None:
        self.topic_part = b"\x06%LMQ%x"
        self.overhead = 1  # a record's size follows from its own queue alone
        self.units: list[Unit] = []
        self.codes: list[int] = []
        self.full = False

    def claim(self, count: int) -> int:
        """Return the next offset."""
        if self.full:
            raise ServiceNotAvailable("no room")
        return len(self.units)

    def stage(self, first: int, units: bytes, codes: Sequence[int], stored_ms: int) -> None:
        """Note the units."""
        assert first == len(self.units)
        self.units += [Unit.unpack(units, at) for at in range(0, len(units), UNIT_SIZE)]
        self.codes += codes


class TargetTests(LogTestCase):
    """One message, several queues that lead to it."""

    def setUp(self) -> None:
        super().setUp()
        self.log_writer = self.store._commitlog
        self.queue = self.store._queues.create("T", 0)
        self.light = LightQueue()
        verifyObject(IQueue, self.light)

    def test_two_targets(self) -> None:
        """A record is written once, and a unit that leads to it is staged in each target, however it is encoded."""
        v6 = pack_host("fe80::1", 1)
        appends = (
            [message(tag_code=7)],
            [message(tag_code=8)] * 3,
            [message(born_host=v6)],
            [message(born_host=v6)] * 2,
        )
        ends = []
        for messages in appends:
            appended = self.log_writer.append((self.queue, self.light), messages)
            self.store.end_run()
            self.assertEqual(
                [unit.commitlog_offset for unit in self.light.units[-len(messages) :]], [*appended.offsets]
            )
            ends.append(appended.queue_offset)
        self.assertEqual(ends, [0, 1, 4, 5])
        self.assertEqual(self.light.units, self.store.units("T", 0, 0, 99))
        self.assertEqual(self.light.codes, [7, 8, 8, 8, 0, 0, 0])
        self.assertEqual([one.topic for one in self.read_all(self.store)], ["T"] * 7)

    def test_offsets_differ(self) -> None:
        """Each target counts for itself; the record names the offset in the first one."""
        self.send(self.store, message(), message())
        appended = self.log_writer.append((self.queue, self.light), [message()])
        self.store.end_run()
        self.assertEqual((appended.queue_offset, len(self.light.units)), (2, 1))
        self.assertEqual(self.read_all(self.store)[-1].queue_offset, 2)

    def test_light_queue_in_files(self) -> None:
        """A second consume queue serves as well: readers find the message in both."""
        other = self.store._queues.create("%LMQ%x", 0)
        self.log_writer.append((self.queue, other), [message(body=b"both")])
        self.store.end_run()
        found = [self.read_all(self.store, topic) for topic in ("T", "%LMQ%x")]
        self.assertEqual([[bytes(one.body) for one in queue] for queue in found], [[b"both"]] * 2)
        self.assertEqual(found[0], found[1])

    def test_no_room_in_one(self) -> None:
        """Where one target has no room nothing is written, and no offset is given out."""
        self.send(self.store, message("U"))
        self.light.full = True
        before = self.log(), self.store.log_bounds()
        self.assertRaises(ServiceNotAvailable, self.log_writer.append, (self.queue, self.light), [message()])
        self.store.end_run()
        self.assertEqual((self.log(), self.store.log_bounds(), self.store.bounds("T", 0)), (*before, (0, 0)))
        self.assertEqual(self.store.append([message()]).queue_offset, 0)

    def test_prepared(self) -> None:
        """A prepared message gets into no target."""
        self.log_writer.append((self.queue, self.light), [message(sys_flag=PREPARED)])
        self.store.end_run()
        self.assertEqual((self.light.units, self.store.bounds("T", 0)), ([], (0, 0)))


class SliceTests(LogTestCase):
    def test_slice(self) -> None:
        """Written bytes come without a copy; what is not written, or in two files, does not."""
        self.fill(self.store, 60)
        log = self.store._commitlog
        first = decode(log.slice(0, 200))
        check(log.slice(0, first.size), 0, 0)
        self.assertGreater(log.end, LOG_SIZE)
        for offset, size in ((LOG_SIZE - 10, 20), (log.end - 10, 11), (log.end, 1), (-1, 1), (10 * LOG_SIZE, 1)):
            self.assertRaises(NoSuchMessage, log.slice, offset, size)

    def test_closed(self) -> None:
        """A store that was closed takes nothing."""
        self.stopped(self.store)
        self.assertRaises(ServiceNotAvailable, self.store.append, [message()])
