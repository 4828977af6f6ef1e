"""Tests of L{smartgo.store.queues.picking}: compiled code answers as going through units one by one does."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED
from smartgo.schema.consumequeue import UNIT_SIZE, Unit, extension_address
from smartgo.schema.message import pack_host
from smartgo.schema.record import HEAD_SIZE, decode
from smartgo.store import messagereader
from smartgo.store.interfaces import ReadLimit, ReadResult
from smartgo.store.openstore import OpenStore
from smartgo.store.queues.picking import adjacent_units, pick_units, pure_adjacent_units, pure_pick_units
from smartgo.store.tails import QueueTail
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, message, small
from tests.store.test_messagereader import Filter

NOT_COMPILED = None if IS_COMPILED else f"the core is {CORE}"
V6 = pack_host("fe80::1", 5000)


class SameTests(StoreTestCase):
    """Reads of a store with the compiled functions and without them."""

    skip = NOT_COMPILED
    SETTINGS = small(log_file_size=1 << 14, queue_file_size=20_000)

    def setUp(self) -> None:
        """Fill a store: queues side by side, records of all sizes, some of them with IPv6 hosts, over several files."""
        self.env = FakeEnvironment()
        self.store = self.opened(self.env, self.SETTINGS)
        self.random = Random(5)
        for _ in range(600):
            chance = self.random.random()
            host = {"born_host": V6} if chance < 0.02 else {}
            body = b"b" * self.random.randrange(60)
            topic = "Other" if chance > 0.9 else "T"
            self.store.append([message(topic, 0, body, tag_code=self.random.randrange(4), **host)])
            if chance < 0.3:
                self.store.end_run()
        self.store.end_run()
        self.filters = [None, Filter(None, b"b")]
        for codes in ([2], [0, 3], [], [-1], range(65)):
            self.filters.append(Filter(frozenset(codes)))
        self.taken = 0

    def both(self, store: OpenStore, offset: int, limit: ReadLimit, filter: Filter | None) -> ReadResult:
        """Read with compiled functions and without, and compare."""

        def counted(*arguments: Any) -> Any:
            found = pick_units(*arguments)
            self.taken += found is not None
            return found

        results = []
        for adjacent, pick in ((adjacent_units, counted), (pure_adjacent_units, pure_pick_units)):
            self.patch(messagereader, "adjacent_units", adjacent)
            self.patch(messagereader, "pick_units", pick)
            results.append(self.now(store.read_cold("T", 0, offset, limit, filter)))
        self.assertEqual(*results)
        return results[0]

    def compare(self, reads: int) -> None:
        """Compare reads from anywhere."""
        _, maximum = self.store.bounds("T", 0)
        for _ in range(reads):
            limit = ReadLimit(self.random.choice((1, 5, 32, 1000)), self.random.choice((1, 1000, 5000, 1 << 30)))
            self.both(self.store, self.random.randrange(maximum), limit, self.random.choice(self.filters))

    def again(self) -> None:
        """Stop the store and open it again: units are found on the disk."""
        self.stopped(self.store)
        self.store = self.opened(self.env, self.SETTINGS)

    def test_own(self) -> None:
        """Units that this process wrote."""
        self.compare(400)
        self.assertGreater(self.taken, 150)

    def test_found(self) -> None:
        """Units that were found on the disk, before their records were checked and after."""
        self.again()
        self.compare(400)
        self.assertGreater(self.taken, 150)

    def test_damaged_units(self) -> None:
        """Units with flipped bits, and with the content of others."""
        self.again()
        path = f"{ROOT}/consumequeue/T/0/{0:020d}"
        for _ in range(60):
            data = self.env.files.files[path].data
            at = self.random.randrange(500 * UNIT_SIZE)
            good = bytes(data)
            if self.random.random() < 0.7:
                data[at] ^= 1 << self.random.randrange(8)
            else:
                at -= at % UNIT_SIZE
                other = self.random.randrange(500) * UNIT_SIZE
                data[at : at + UNIT_SIZE] = data[other : other + UNIT_SIZE]
            for offset in range(max(0, at // UNIT_SIZE - 40), at // UNIT_SIZE + 1, 13):
                self.both(self.store, offset, ReadLimit(32, 1 << 30), self.random.choice(self.filters))
            data[:] = good

    def test_damaged_records(self) -> None:
        """Records with flipped bits in their heads."""
        units = self.store.units("T", 0, 0, 500)
        self.again()
        files = self.env.files.files
        for _ in range(60):
            number = self.random.randrange(len(units))
            offset = units[number].commitlog_offset
            data = files[f"{ROOT}/commitlog/{offset >> 14 << 14:020d}"].data
            at = offset % (1 << 14) + self.random.randrange(HEAD_SIZE)
            data[at] ^= 1 << self.random.randrange(8)
            self.both(self.store, max(0, number - 10), ReadLimit(32, 1 << 30), self.random.choice(self.filters))

    def test_removed(self) -> None:
        """The oldest log file is gone, but not the units."""
        self.store._commitlog.files.files.pop(0)
        self.compare(100)
        self.assertEqual(self.both(self.store, 0, ReadLimit(5, 1 << 30), Filter(frozenset({9}))).parts, [])

    def test_extension(self) -> None:
        """An address in place of a tag hash, and a hash just above those."""
        data = self.env.files.files[f"{ROOT}/consumequeue/T/0/{0:020d}"].data
        for number, code in ((3, extension_address(400)), (4, -(1 << 31) - 1), (5, -(1 << 31))):
            unit = Unit.unpack(bytes(data), number * UNIT_SIZE)
            data[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] = unit._replace(tag_hash=code).pack()
        found = self.both(self.store, 0, ReadLimit(10, 1 << 30), Filter(frozenset({77})))
        self.assertEqual([decode(part).queue_offset for part in found.parts], [3, 4][: len(found.parts)])
        self.assertEqual(found.count, 2)


class RuleTests(SynchronousTestCase):
    """What is picked, and each rule crossed by one."""

    skip = NOT_COMPILED
    BASE = 1000

    def setUp(self) -> None:
        """Three records of a queue, and the units that lead to them."""
        store_case = StoreTestCase()
        env = FakeEnvironment()
        store = store_case.opened(env, small(log_file_size=1 << 14))
        for code in (1, 2, 3):
            store.append([message(tag_code=code, body=b"body%d" % code)])
        store.end_run()
        self.units = [
            unit._replace(commitlog_offset=unit.commitlog_offset + self.BASE) for unit in store.units("T", 0, 0, 3)
        ]
        self.size = self.units[0].size
        log = bytearray(env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[: 3 * self.size])
        for number in range(3):
            at = number * self.size + 28
            log[at : at + 8] = (self.BASE + number * self.size).to_bytes(8, "big")
        self.log = log
        self.end = self.BASE + 3 * self.size
        self.queue = QueueTail()
        self.queue.topic_part = b"\1T"

    def pick(self, **changes: Any) -> Any:
        """Pick with some arguments changed; slices as pairs of begin and end, relative to the log file."""
        values: dict[str, Any] = {
            "offset": 0,
            "units": b"".join(unit.pack() for unit in self.units),
            "codes": None,
            "limit": ReadLimit(32, 1 << 20),
            "window": (memoryview(self.log), self.BASE, self.end),
            "minimum": 0,
            "checked_until": 0,
            **changes,
        }
        return pick_units(self.queue, *values.values())

    def test_all(self) -> None:
        """Neighbours are one slice."""
        parts, *rest = self.pick()
        self.assertEqual(parts, [bytes(self.log)])
        self.assertEqual(rest, [3, 3 * self.size, 3, self.end - self.size, False])

    def test_codes(self) -> None:
        """Records of some tags; those left out split the slices."""
        one, two, three = (bytes(self.log[at * self.size : (at + 1) * self.size]) for at in range(3))
        self.assertEqual(self.pick(codes=frozenset({1, 3}))[:2], ([one, three], 2))
        self.assertEqual(self.pick(codes=frozenset({3, 2}))[:2], ([two + three], 2))
        self.assertEqual(self.pick(codes=frozenset({*range(2, 66)}))[:2], ([two + three], 2))
        self.assertEqual(self.pick(codes=frozenset({*range(-62, 1), 3}))[:2], ([three], 1))
        for first in range(-61, 3):
            expected = sum(first <= code < first + 64 for code in (1, 2, 3))
            self.assertEqual(self.pick(codes=frozenset(range(first, first + 64)))[1], expected)
        self.assertEqual(self.pick(codes=frozenset()), ([], 0, 0, 3, self.BASE, False))
        for codes in (frozenset(range(65)), frozenset({1 << 31}), frozenset({-(1 << 31) - 1}), frozenset({1 << 70})):
            self.assertIsNone(self.pick(codes=codes))

    def test_limits(self) -> None:
        """The first record always comes; the others while count and size allow."""
        for limit, count in (((1, 1 << 20), 1), ((2, 1 << 20), 2), ((32, 1), 1), ((32, 2 * self.size), 2)):
            self.assertEqual(self.pick(limit=ReadLimit(*limit))[1:4], (count, count * self.size, count))
        self.assertEqual(self.pick(limit=ReadLimit(32, 2 * self.size - 1))[1], 1)
        self.assertEqual(self.pick(limit=ReadLimit(32, 3 * self.size))[1], 3)

    def test_window(self) -> None:
        """Records that do not lie in the window wholly are not for this."""
        for base, end in ((self.BASE, self.end - 1), (self.BASE + 1, self.end), (0, -1), (self.BASE, self.end + 1)):
            self.assertIsNone(self.pick(window=(memoryview(self.log)[base - self.BASE :], base, end)))
        self.assertEqual(
            self.pick(window=(memoryview(self.log), self.BASE, self.end - 1), limit=ReadLimit(2, 1 << 20))[1], 2
        )

    def test_gone(self) -> None:
        """What lies below the log is passed over, and told; units without a message are passed over."""
        self.assertEqual(self.pick(minimum=self.BASE)[5], False)
        self.assertEqual(self.pick(minimum=self.BASE + 1)[1:6], (2, 2 * self.size, 3, self.end - self.size, True))
        self.units[1] = self.units[1]._replace(size=0x7FFFFFFF)
        self.assertEqual(self.pick()[1:6], (2, 2 * self.size, 3, self.end - self.size, False))

    def test_other_record(self) -> None:
        """A record that is not what the unit says is not for this, whichever field differs."""
        for at in (*range(4), *range(12, 16), *range(20, 36)):
            for number in range(3):
                self.log[number * self.size + at] ^= 1
                self.assertIsNone(self.pick(), at)
                self.log[number * self.size + at] ^= 1
        for field in ("commitlog_offset", "size"):
            for change in (-1, 1, -(1 << 31), 1 << 30):
                good, self.units[1] = (
                    self.units[1],
                    self.units[1]._replace(**{field: getattr(self.units[1], field) + change}),
                )
                if change != 1 << 30 or field == "commitlog_offset":
                    self.assertIsNone(self.pick(minimum=-(1 << 62)), field)
                self.units[1] = good
        self.assertIsNone(self.pick(offset=1))
        self.queue.queue_id = 1
        self.assertIsNone(self.pick())

    def test_small(self) -> None:
        """A size that is less than a record's head is not for this, were the record to say the same."""
        log = bytearray(self.log[:100])
        for size, taken in ((HEAD_SIZE - 1, False), (HEAD_SIZE + 2 + 5, False), (HEAD_SIZE + 2 + 6, True)):
            log[:4] = size.to_bytes(4, "big")
            log[84:88] = (6).to_bytes(4, "big")
            log[94:96] = b"\1T"
            window = (memoryview(log), self.BASE, self.BASE + len(log))
            unit = self.units[0]._replace(size=size).pack()
            self.assertEqual(self.pick(units=unit, window=window) is not None, taken, size)
            self.assertIsNone(self.pick(units=unit, window=(*window[:2], self.BASE + size - 1)))

    def test_small_again(self) -> None:
        """Nor is one whose topic need not be compared."""
        self.log[self.size : self.size + 4] = (HEAD_SIZE - 1).to_bytes(4, "big")
        self.units[1] = self.units[1]._replace(size=HEAD_SIZE - 1)
        self.assertIsNone(self.pick())

    def test_topic(self) -> None:
        """The topic of the first record is compared, and of each before a logical offset."""
        at = HEAD_SIZE + 5 + 1
        for number, until, taken in ((0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False)):
            self.log[number * self.size + at] ^= 1
            self.assertEqual(self.pick(checked_until=until) is not None, taken, (number, until))
            self.log[number * self.size + at] ^= 1
        for length in (0, 4, 6, 1000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            self.log[84:88] = length.to_bytes(4, "big")
            self.assertIsNone(self.pick(), length)

    def test_cut(self) -> None:
        """Units that are not whole are not for this."""
        self.assertIsNone(self.pick(units=b""))
        self.assertIsNone(self.pick(units=bytes(UNIT_SIZE - 1)))
        self.assertIsNone(adjacent_units(memoryview(bytes(UNIT_SIZE - 1))))

    def test_no_size(self) -> None:
        """Units that the disk turned into zeros, or with a negative size, lead to nothing side by side."""
        self.assertIsNone(adjacent_units(memoryview(bytes(3 * UNIT_SIZE))))
        self.units[2] = self.units[2]._replace(size=-self.units[2].size)
        self.assertIsNone(adjacent_units(memoryview(b"".join(unit.pack() for unit in self.units))))

    def test_adjacent(self) -> None:
        """Records side by side have one place and size; a gap, an overlap or an odd size ends that."""

        def packed() -> memoryview:
            return memoryview(b"".join(unit.pack() for unit in self.units))

        for find in (adjacent_units, pure_adjacent_units):
            self.assertEqual(find(packed()), (self.BASE, self.end - self.size, 3 * self.size))
            self.assertEqual(find(packed()[:UNIT_SIZE]), (self.BASE, self.BASE, self.size))
            for field, change in (("commitlog_offset", 1), ("commitlog_offset", -1), ("size", 1), ("size", -1)):
                good, self.units[2] = (
                    self.units[2],
                    self.units[2]._replace(**{field: getattr(self.units[2], field) + change}),
                )
                moved = find(packed())
                self.units[2] = good
                self.assertTrue(moved is None or (field == "size" and moved[2] == 3 * self.size + change))
