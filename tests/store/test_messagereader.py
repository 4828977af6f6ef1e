"""Tests of L{smartgo.store.messagereader}, through a store."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec.structs import replace
from zope.interface import implementer

from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit, extension_address, unit_struct
from smartgo.schema.message import pack_host
from smartgo.schema.record import decode
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.file import ConsumeQueue
from tests.fakes import FakeEnvironment
from tests.store.stores import ALL, LOG_SIZE, ROOT, StoreTestCase, held, message, records, small

FAR = 8 << 30  # the fake machine's memory


@implementer(IMessageFilter)
class Filter:
    """Lets in some tag codes, and of these the bodies that begin with something."""

    def __init__(self, codes: frozenset[int] | None, begin: bytes | None = None) -> None:
        self.codes = codes
        self.begin = begin

    def by_unit(self, unit: Unit) -> bool:
        """By tag code."""
        return self.codes is None or unit.tag_hash in self.codes

    def by_content(self, properties: Mapping[str, str], body: memoryview) -> bool:
        """By the first bytes."""
        assert properties["UNIQ_KEY"] == "x"
        return bytes(body[: len(self.begin or b"")]) == self.begin

    def needs_content(self) -> bool:
        """As made."""
        return self.begin is not None

    def hashes(self) -> frozenset[int] | None:
        """As made."""
        return self.codes


class ReadTestCase(StoreTestCase):
    SETTINGS = small(log_file_size=1 << 16, queue_file_size=20_000)

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env, self.SETTINGS)

    def again(self) -> None:
        """Stop the store and open it again."""
        self.stopped(self.store)
        self.store = self.opened(self.env, self.SETTINGS)

    def read(self, offset: int, count: int = 10_000, size: int = 1 << 30, **changes: Any) -> ReadResult:
        """Read from the queue of the tests."""
        values: dict[str, Any] = {"topic": "T", "queue_id": 0, "filter": None, **changes}
        return self.store.read(values["topic"], values["queue_id"], offset, ReadLimit(count, size), values["filter"])

    def corrupt(self, number: int, unit: Unit) -> None:
        """Overwrite a unit of the queue."""
        data = self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"].data
        data[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] = unit.pack()


class TableTests(ReadTestCase):
    """The table of docs/spec/store#read."""

    def expect(self, result: ReadResult, status: ReadStatus, next_offset: int, *bounds: int) -> None:
        """An answer without messages."""
        self.assertEqual(result, (status, next_offset, *bounds, [], 0, 0, False))

    def test_no_queue(self) -> None:
        """Of a queue that is not there nothing is known."""
        for offset in (0, 5):
            self.expect(self.read(offset), ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)

    def test_no_message(self) -> None:
        """A queue whose first message is still to be published has none."""
        self.store.append([message()])
        for offset in (0, 5):
            self.expect(self.read(offset), ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)

    def test_outside(self) -> None:
        """Before the first the answer names the first; at the end it stays; behind it names the end."""
        self.fill(self.store, 10)
        self.store._by_key["T", 0].minimum = 3
        self.expect(self.read(2), ReadStatus.OFFSET_TOO_SMALL, 3, 3, 10)
        self.expect(self.read(-1), ReadStatus.OFFSET_TOO_SMALL, 3, 3, 10)
        self.expect(self.read(10), ReadStatus.OFFSET_OVERFLOW_ONE, 10, 3, 10)
        self.expect(self.read(11), ReadStatus.OFFSET_OVERFLOW_BADLY, 10, 3, 10)
        self.assertEqual(self.read(3).status, ReadStatus.FOUND)

    def test_replica(self) -> None:
        """A slave's store corrects no offset: its master may have more."""
        self.fill(self.store, 10)
        self.stopped(self.store)
        self.store = self.opened(self.env, replace(self.SETTINGS, replica=True))
        self.expect(self.read(7, queue_id=1), ReadStatus.NO_MATCHED_LOGIC_QUEUE, 7, 0, 0)
        self.expect(self.read(12), ReadStatus.OFFSET_OVERFLOW_BADLY, 12, 0, 10)

    def test_no_file(self) -> None:
        """Where a queue file is gone, the answer names the start of the next."""
        self.fill(self.store, 1500)
        del self.store._by_key["T", 0].files.files[0]
        self.expect(self.read(5), ReadStatus.OFFSET_FOUND_NULL, 1000, 0, 1500)

    def test_removed(self) -> None:
        """Messages whose log file is gone are passed over; if nothing else is found the answer says so."""
        self.fill(self.store, 1500)
        log = self.store._commitlog.files
        units = self.store.units("T", 0, 0, 1500)
        below = sum(unit.commitlog_offset < log.files[1].base for unit in units)
        del log.files[0]
        self.assertTrue(0 < below < 700)
        self.expect(self.read(0, below), ReadStatus.MESSAGE_WAS_REMOVING, below, 0, 1500)
        for wanted, count in ((None, 295), (Filter(None), 300)):
            result = self.read(below - 5, 300, filter=wanted)
            self.assertEqual((result.status, result.count), (ReadStatus.FOUND, count))
            self.assertEqual(records(result)[0].queue_offset, below)

    def test_filtered_out(self) -> None:
        """Where the filter leaves nothing, the next offset is behind what was looked at: 800 units, or 20 a message."""
        self.fill(self.store, 1000)
        nothing = Filter(frozenset({5}))
        self.expect(self.read(0, 32, filter=nothing), ReadStatus.NO_MATCHED_MESSAGE, 800, 0, 1000)
        self.expect(self.read(0, 900, filter=nothing), ReadStatus.NO_MATCHED_MESSAGE, 900, 0, 1000)
        self.expect(self.read(900, 32, filter=nothing), ReadStatus.NO_MATCHED_MESSAGE, 1000, 0, 1000)


class FoundTests(ReadTestCase):
    def test_everything(self) -> None:
        """From every offset, with every count, just the messages from there come, in order."""
        bodies = self.fill(self.store, 60)
        for offset in range(60):
            for count in (1, 2, 7, 60):
                result = self.read(offset, count)
                self.assertEqual([bytes(one.body) for one in records(result)], bodies[offset : offset + count])
                self.assertEqual(result.next_offset, min(offset + count, 60))
                self.assertEqual((result.minimum, result.maximum, result.suggest_slave), (0, 60, False))
                self.assertEqual(result.count, result.next_offset - offset)
                self.assertEqual(result.size, sum(map(len, result.parts)))

    def test_pieces(self) -> None:
        """Records that lie side by side are one piece; others one each; a new log file begins a new piece."""
        self.send(self.store, *[message()] * 5)
        self.assertEqual(len(self.read(0).parts), 1)
        self.send(self.store, *[message(queue_id=number % 2) for number in range(6)])
        self.send(self.store, message(), message())
        self.assertEqual([len(part) for part in self.read(0).parts], [6 * 106, 106, 106, 2 * 106])
        store = self.opened(FakeEnvironment())
        self.send(store, *[message(body=b"x" * 300)] * 20)
        result = store.read("T", 0, 0, ALL, None)
        self.assertEqual((len(result.parts), result.count), (2, 20))
        self.assertEqual(result.size, store.log_bounds()[1] - (LOG_SIZE - result.parts[0].nbytes))

    def test_size_limit(self) -> None:
        """No more bytes come than asked for, but always one message (L17)."""
        for spread in (1, 2):
            store = self.opened(FakeEnvironment())
            self.send(store, *[message(queue_id=number % spread) for number in range(10)])
            for size, count in ((0, 1), (105, 1), (211, 1), (212, 2), (317, 2), (318, 3)):
                result = store.read("T", 0, 0, ReadLimit(32, size), None)
                self.assertEqual((result.count, result.next_offset), (count, count))

    def test_store_limits(self) -> None:
        """However much is asked for, the store's limits hold (L17)."""
        store = self.opened(FakeEnvironment(), small(log_file_size=1 << 16, memory_count=32, memory_size=2000))
        self.send(store, *[message()] * 50)
        self.assertEqual(store.read("T", 0, 0, ALL, None).count, 2000 // 106)
        store = self.opened(FakeEnvironment(), small(log_file_size=1 << 16, queue_file_size=20_000, memory_count=32))
        self.send(store, *[message()] * 50)
        self.assertEqual(store.read("T", 0, 0, ALL, None).count, 32)
        self.assertEqual(store.read("T", 0, 0, ReadLimit(0, 0), None).count, 1)

    def test_end_of_file(self) -> None:
        """One answer does not go past the end of a queue file."""
        store = self.opened(FakeEnvironment())
        self.send(store, *[message()] * 30)
        self.assertEqual([store.read("T", 0, offset, ALL, None).next_offset for offset in (0, 19, 20)], [20, 20, 30])

    def test_ipv6_and_long_topics(self) -> None:
        """Records with longer hosts, and any topic, are recognised as the queue's own."""
        host = pack_host("fe80::1", 5)
        topic = "x" * 127
        sent = [message(topic, born_host=host), message(topic), message(topic, store_host=host)]
        self.send(self.store, *sent)
        self.assertEqual(self.read(0, topic=topic).count, 3)
        self.assertEqual(self.read(0, 1, topic=topic).count, 1)
        self.assertEqual([one.born_host for one in records(self.read(0, 1, topic=topic))], [host])


class FilterTests(ReadTestCase):
    def setUp(self) -> None:
        super().setUp()
        random = Random(3)
        self.sent = [(random.randrange(4), b"%d" % random.randrange(10)) for _ in range(700)]
        for code, body in self.sent:
            self.send(self.store, message(tag_code=code, body=body))

    def expected(self, codes: frozenset[int] | None, begin: bytes | None) -> list[int]:
        """The offsets that a filter lets in."""
        return [
            at
            for at, (code, body) in enumerate(self.sent)
            if (codes is None or code in codes) and (begin is None or body.startswith(begin))
        ]

    def test_filters(self) -> None:
        """By tag, by content and by both: what matches comes, all of it, and nothing else."""
        for codes in (None, frozenset({2}), frozenset({0, 3}), frozenset[int]()):
            for begin in (None, b"7", b"none"):
                found = self.read_all(self.store, filter=Filter(codes, begin))
                self.assertEqual([one.queue_offset for one in found], self.expected(codes, begin))

    def test_next_offset(self) -> None:
        """An answer that is full ends before the next message that matches."""
        offset = 0
        expected = self.expected(frozenset({1}), None)
        while expected:
            result = self.read(offset, 5, filter=Filter(frozenset({1})))
            self.assertEqual([one.queue_offset for one in records(result)], expected[:5])
            expected = expected[5:]
            self.assertLessEqual(result.next_offset, expected[0] if expected else 700)
            offset = result.next_offset

    def test_extension(self) -> None:
        """A unit with an address of an extension file in place of its hash may match: the client looks again."""
        unit = self.store.units("T", 0, 0, 1)[0]
        self.corrupt(0, unit._replace(tag_hash=extension_address(400)))
        self.assertEqual(records(self.read(0, 1, filter=Filter(frozenset({77}))))[0].queue_offset, 0)


class DamageTests(ReadTestCase):
    """Whatever a unit that was found on the disk says, no reader is served bytes that are not its queue's (F6)."""

    def setUp(self) -> None:
        super().setUp()
        self.sent = self.fill(self.store, 40)
        self.fill(self.store, 40, "Other")
        self.again()

    def served(self, filter: Filter | None = None) -> list[int]:
        """The offsets that are read, each with its own body."""
        found = self.read_all(self.store, filter=filter)
        for one in found:
            self.assertEqual((one.topic, bytes(one.body)), ("T", self.sent[one.queue_offset]))
        return [one.queue_offset for one in found]

    def test_every_bit(self) -> None:
        """One bit of a unit flipped: at most that message is missing."""
        good = self.store.units("T", 0, 0, 40)
        for bit in range(12 * 8):
            raw = bytearray(good[17].pack())
            raw[bit // 8] ^= 1 << bit % 8
            self.corrupt(17, Unit.unpack(bytes(raw)))
            self.assertEqual([number for number in range(40) if number not in self.served()], [17], bit)
        self.corrupt(17, good[17])
        self.assertEqual(self.served(), list(range(40)))

    def test_alone(self) -> None:
        """A reader that takes one message a read is told of no message where a unit is wrong, in whichever bit."""
        good = self.store.units("T", 0, 17, 1)[0]
        for bit in range(12 * 8):
            raw = bytearray(good.pack())
            raw[bit // 8] ^= 1 << bit % 8
            self.corrupt(17, Unit.unpack(bytes(raw)))
            result = self.now(self.store.read_cold("T", 0, 17, ReadLimit(1, 1 << 30), None))
            self.assertEqual((result.parts, result.next_offset), ([], 18), bit)

    def test_zeroed(self) -> None:
        """Units that the disk turned into zeros lead to no message, however many of them a reader asks for."""
        self.read(0)
        for number in range(10, 35):
            self.corrupt(number, Unit(0, 0, 0))
        for count in (1, 10, 25):
            result = self.now(self.store.read_cold("T", 0, 10, ReadLimit(count, 1 << 30), None))
            self.assertEqual((result.parts, result.next_offset), ([], 10 + count), count)

    def test_elsewhere(self) -> None:
        """A unit that leads to another message is not followed, be it of this queue or another."""
        other = self.store.units("Other", 0, 0, 40)
        mine = self.store.units("T", 0, 0, 40)
        for number, wrong in ((0, other[0]), (9, other[8]), (9, mine[8]), (39, mine[0]), (20, Unit(0, 0, 0))):
            for one in (None, Filter(None, b"")):
                self.corrupt(number, wrong)
                self.assertEqual(self.served(one), [n for n in range(40) if n != number])
            self.corrupt(number, mine[number])

    def test_other_queue_file(self) -> None:
        """A queue file that was taken for another topic's serves nothing."""
        files = self.env.files.files
        source = files[f"{ROOT}/consumequeue/Other/0/{0:020d}"]
        files[f"{ROOT}/consumequeue/T/0/{0:020d}"].data[:800] = source.data[:800]
        self.assertEqual(self.served(), [])

    def test_record(self) -> None:
        """A record whose head went bad is left out, the others are served."""
        unit = self.store.units("T", 0, 20, 1)[0]
        data = self.env.files.files[f"{ROOT}/commitlog/{0:020d}"].data
        for at in (0, 15, 27, 35):
            data[unit.commitlog_offset + at] ^= 4
            self.assertEqual([number for number in range(40) if number not in self.served()], [20])
            data[unit.commitlog_offset + at] ^= 4


class OwnTests(ReadTestCase):
    """Units that are trusted without reading every record."""

    def own(self) -> tuple[int, int]:
        """From where on units are this process's, and how many there are."""
        queue = self.store._queues.by_key["T", 0]
        return queue.own_from, queue.visible

    def test_written_here(self) -> None:
        """Those that this process wrote, and no others: after a restart only those that followed."""
        self.fill(self.store, 30)
        self.assertEqual(self.own(), (0, 30))
        self.again()
        self.assertEqual(self.own(), (sys.maxsize, 30))
        self.fill(self.store, 5)
        self.assertEqual(self.own(), (30, 35))
        self.assertEqual(len(self.read_all(self.store)), 35)

    def test_across(self) -> None:
        """A read that begins among units of before is checked, to its end."""
        self.fill(self.store, 10)
        self.again()
        self.fill(self.store, 10)
        self.corrupt(5, self.store.units("T", 0, 4, 1)[0])
        self.assertEqual(
            [one.queue_offset for one in self.read_all(self.store)], [number for number in range(20) if number != 5]
        )


class ColdTests(ReadTestCase):
    """Messages further back than memory holds."""

    def setUp(self) -> None:
        super().setUp()
        self.env.host.memory = 4000
        self.store = self.cold()
        self.sent = self.fill(self.store, 300, queues=2)[::2]

    def cold(self, **changes: Any) -> OpenStore:
        """A store on a machine with hardly any memory: 1600 bytes count as in memory."""
        self.stopped(self.store)
        return self.opened(self.env, small(log_file_size=1 << 16, queue_file_size=20_000, **changes))

    def test_says_so(self) -> None:
        """A read at once is told COLD for what lies far back, and served what does not."""
        result = self.read(0)
        self.assertEqual(result, (ReadStatus.COLD, 0, 0, 150, [], 0, 0, True))
        self.assertEqual(self.read(0, filter=Filter(frozenset({0}))).status, ReadStatus.COLD)
        self.assertEqual(self.read(149).status, ReadStatus.FOUND)
        self.assertTrue(self.store.is_far_back("T", 0, 0))
        self.assertFalse(self.store.is_far_back("T", 0, 149))
        self.assertFalse(self.store.is_far_back("T", 0, 150))
        self.assertFalse(self.store.is_far_back("U", 0, 0))

    def read_cold(self, filter: Filter | None = None) -> list[tuple[int, ReadResult]]:
        """All answers of reading through the lane."""
        found = []
        offset = 0
        while offset < 150:
            result = self.now(self.store.read_cold("T", 0, offset, ALL, filter))
            found.append((offset, result))
            self.assertGreater(result.next_offset, offset)
            offset = result.next_offset
        return found

    def test_all(self) -> None:
        """Through the lane all of it is read, 8 at a time from the disk."""
        answers = self.read_cold()
        bodies = [bytes(one.body) for _, result in answers for one in records(result)]
        self.assertEqual(bodies, self.sent)
        self.assertEqual(answers[0][1].count, 8)
        self.assertTrue(answers[0][1].suggest_slave)
        self.assertFalse(answers[-1][1].suggest_slave)

    def test_filtered(self) -> None:
        """Filters work the same there."""
        some = [one for one in self.sent if one.startswith(b"2")]
        for wanted, expected in (
            (Filter(frozenset({0})), self.sent),
            (Filter(None, b"2"), some),
            (Filter(frozenset({9})), []),
        ):
            bodies = [bytes(one.body) for _, result in self.read_cold(wanted) for one in records(result)]
            self.assertEqual(bodies, expected)

    def test_small_limits(self) -> None:
        """The limits for reading from disk hold; one message is always let in."""
        self.store = self.cold(disk_size=250, disk_count=100)
        for offset in (0, 40):
            result = self.now(self.store.read_cold("T", 0, offset, ALL, None))
            self.assertLessEqual(result.size, 250)
            self.assertIn(result.count, (1, 2))
        self.store = self.cold(disk_size=1)
        self.assertEqual(self.now(self.store.read_cold("T", 0, 0, ALL, None)).count, 1)

    def test_in_the_lane(self) -> None:
        """Nothing is read before the lane comes to it; a log file that went meanwhile is passed over."""
        with held(self.env, "read"):
            waiting = self.store.read_cold("T", 0, 0, ALL, None)
            self.assertNoResult(waiting)
            self.env.files.remove(f"{ROOT}/commitlog/{0:020d}")
        result = self.now(waiting)
        self.assertEqual((result.status, result.count), (ReadStatus.NO_MATCHED_MESSAGE, 0))

    def test_units(self) -> None:
        """No more units are looked at than messages are asked for, unless these stand for none."""
        asked: list[int] = []
        view = ConsumeQueue.view

        def counted(queue: ConsumeQueue, offset: int, count: int) -> memoryview | None:
            asked.append(count)
            return view(queue, offset, count)

        self.patch(ConsumeQueue, "view", counted)
        self.assertEqual(self.now(self.store.read_cold("T", 0, 0, ReadLimit(5, 1 << 30), None)).count, 5)
        self.assertEqual(asked[-1], 5)  # the first is a slice that is not unpacked
        path = f"{ROOT}/consumequeue/T/0/{0:020d}"
        self.env.files.files[path].data[: 6 * UNIT_SIZE] = PREFILL.pack() * 6
        result = self.now(self.store.read_cold("T", 0, 0, ReadLimit(5, 1 << 30), None))
        self.assertEqual([one.queue_offset for one in records(result)][:1], [6])

    def test_outside(self) -> None:
        """The table of answers is the same."""
        result = self.now(self.store.read_cold("T", 0, 150, ALL, None))
        self.assertEqual(result.status, ReadStatus.OFFSET_OVERFLOW_ONE)
        self.assertEqual(self.now(self.store.read_cold("T", 0, 149, ALL, None)).status, ReadStatus.FOUND)


class SharedTests(ReadTestCase):
    def test_light_queue(self) -> None:
        """The units of a light queue may lead to records of another."""
        self.send(self.store, *[message()] * 3)
        self.send(self.store, message("%LMQ%a"), message("%LMQ%a"))
        path = f"{ROOT}/consumequeue/%LMQ%a/0/{0:020d}"
        first = self.store.units("T", 0, 1, 1)[0]
        self.env.files.files[path].data[:UNIT_SIZE] = first.pack()
        for limit in (1, 2):
            result = self.read(0, limit, topic="%LMQ%a")
            self.assertEqual([one.topic for one in records(result)], ["T", "%LMQ%a"][:limit])
        size = unit_struct.size
        self.env.files.files[path].data[:size] = first._replace(size=first.size - 1).pack()
        self.assertEqual([decode(part).topic for part in self.read(0, topic="%LMQ%a").parts], ["%LMQ%a"])
