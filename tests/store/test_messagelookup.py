"""Tests of L{smartgo.store.messagelookup}, through a store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import NoSuchMessage
from smartgo.schema.consumequeue import PREFILL, Unit
from smartgo.schema.message import pack_host
from smartgo.schema.record import SIZE_LIMIT, decode
from smartgo.store.messagelookup import LOWER, UPPER, search
from tests.fakes import EPOCH_MS, FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, message, small


class AtTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def test_every_offset(self) -> None:
        """A message is found where one begins, with or without its size, and nowhere else; far back by the lane."""
        for memory in (1 << 30, 100):
            self.env = FakeEnvironment()
            self.env.host.memory = memory
            store = self.opened(self.env)
            places = {}
            for number in range(60):
                places.update(dict.fromkeys(self.send(store, message(body=b"%d" % number)), b"%d" % number))
            self.assertGreater(store.log_bounds()[1], LOG_SIZE)
            for offset in range(-3, store.log_bounds()[1] + 300):
                for size in (None, 100, 0, 1 << 20, 101):
                    if offset in places:
                        found = decode(self.now(store.at(offset, size)))
                        self.assertEqual((found.body, found.physical_offset), (places[offset], offset))
                    else:
                        self.failureResultOf(store.at(offset, size), NoSuchMessage)
                        break

    def test_file_gone(self) -> None:
        """Where the file is gone there is no message, also if it goes while the lane is on its way."""
        self.env.host.memory = 100
        store = self.opened(self.env)
        self.fill(store, 60)
        self.env.threads.held.add("read")
        waiting = store.at(0)
        self.env.files.remove(f"{ROOT}/commitlog/{0:020d}")
        self.env.threads.release("read")
        self.failureResultOf(waiting, NoSuchMessage)
        del store._commitlog.files.files[0]
        self.failureResultOf(store.at(0), NoSuchMessage)

    def test_filler(self) -> None:
        """With the size of a unit without a message none is found, far back or not, and none is read."""
        for memory in (1 << 30, 100):
            env = FakeEnvironment()
            env.host.memory = memory
            store = self.opened(env)
            offset = self.send(store, message(), *[message()] * 9)[0]
            sizes = self.sizes_read(env)
            self.failureResultOf(store.at(offset, PREFILL.size), NoSuchMessage)
            self.assertEqual(decode(self.now(store.at(offset, 1 << 30))).physical_offset, offset)
            self.assertLess(max(sizes, default=0), SIZE_LIMIT)

    def sizes_read(self, env: FakeEnvironment) -> list[int]:
        """Return a list that gets the size of each read of a file from now on."""
        read_at = env.files.read_at
        sizes: list[int] = []

        def noted(path: str, at: int, size: int) -> bytes:
            sizes.append(size)
            return read_at(path, at, size)

        self.patch(env.files, "read_at", noted)
        return sizes

    def test_damaged(self) -> None:
        """A message whose body is not what it was is not handed out (S14)."""
        store = self.opened(self.env)
        offset, _ = self.send(store, message(), message())
        self.env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offset + 90] ^= 1
        self.assertIn("CRC", str(self.failureResultOf(store.at(offset), NoSuchMessage).value))


class TimeTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env)
        self.times = []
        random = Random(4)
        for number in range(100):
            self.env.clock.advance(random.choice((0, 0.001, 0.01, 0.05)))
            host = pack_host("fe80::1", 1) if number % 3 else pack_host("10.0.0.1", 1)
            self.times.append(self.env.clock.wall_ms())
            self.send(self.store, message(queue_id=0, born_host=host), message(queue_id=1))

    def test_stored_ms(self) -> None:
        """The store time of a message is told, -1 where there is none."""
        for number, time in enumerate(self.times):
            self.assertEqual(self.now(self.store.stored_ms("T", 0, number)), time)
        for offset in (-1, 100, 5000):
            self.assertEqual(self.now(self.store.stored_ms("T", 0, offset)), -1)
        self.assertEqual(self.now(self.store.stored_ms("none", 0, 0)), -1)

    def test_fillers(self) -> None:
        """A unit without a message has no store time; a search takes the one of the record that it leads to."""
        queue = self.store._by_key["T", 0]
        place = self.store.log_bounds()[1]
        queue.extend(7)
        queue.write(Unit(place, PREFILL.size, 0).pack() * 7, 7)
        queue.next_offset += 7
        self.env.clock.advance(1)
        self.send(self.store, message())
        time = self.env.clock.wall_ms()
        places = [("T", 0, offset) for offset in range(99, 108)]
        expected = [self.times[-1], *[-1] * 7, time]
        self.assertEqual(self.now(self.store.stored_times(places)), expected)
        self.assertEqual([self.now(self.store.stored_ms(*place)) for place in places], expected)
        for number, asked in enumerate(self.times):
            found = self.now(self.store.offset_at("T", 0, asked, LOWER))
            self.assertEqual(self.times[found], asked, number)
        self.assertEqual(self.now(self.store.offset_at("T", 0, time, LOWER)), 100)
        self.assertEqual(self.now(self.store.offset_at("T", 0, time, UPPER)), 107)

    def test_stored_times(self) -> None:
        """Store times of many messages, of any queues in any order, are those of each alone."""
        files = self.store._commitlog.files
        self.assertGreater(len(files.files), 2)  # so that neighbours lie in different files, too
        places = [(topic, queue, offset) for topic in ("T", "none") for queue in (1, 0, 7) for offset in range(-1, 102)]
        Random(6).shuffle(places)
        alone = [self.now(self.store.stored_ms(*place)) for place in places]
        self.assertEqual(self.now(self.store.stored_times(places)), alone)
        self.assertEqual({*alone}, {*self.times, -1})
        self.assertEqual(self.now(self.store.stored_times([])), [])

    def test_stored_times_of_gone_files(self) -> None:
        """Messages whose log file is gone, and units whose file is, have no store time among others that have."""
        minimum = self.store._commitlog.files.files[1].base
        places = [("T", 0, offset) for offset in range(100)]
        whole = self.now(self.store.stored_times(places))
        del self.store._commitlog.files.files[0]
        left = [unit.commitlog_offset >= minimum for unit in self.store.units("T", 0, 0, 100)]
        expected = [time if there else -1 for time, there in zip(whole, left, strict=True)]
        self.assertEqual(self.now(self.store.stored_times(places)), expected)
        self.env.files.remove(self.store._by_key["T", 0].files.files[0].path)
        self.assertEqual(self.now(self.store.stored_times([*places[:3], ("T", 1, 99)])), [-1, -1, -1, self.times[-1]])

    def test_boundaries(self) -> None:
        """LOWER is the first at or after a time, UPPER the last at or before it."""
        for time in range(self.times[0] - 5, self.times[-1] + 5):
            lower = self.now(self.store.offset_at("T", 0, time, LOWER))
            upper = self.now(self.store.offset_at("T", 0, time, UPPER))
            self.assertEqual(lower, bisect_left(self.times, time))
            self.assertEqual(upper, max(bisect_right(self.times, time) - 1, 0))

    def test_nearest(self) -> None:
        """Without a boundary it is one of just that time, else the nearer neighbour, the older of two equally near."""
        for time in range(self.times[0] - 5, self.times[-1] + 5):
            found = self.now(self.store.offset_at("T", 0, time))
            distance = min(abs(one - time) for one in self.times)
            self.assertEqual(abs(self.times[found] - time), distance)
            if time not in self.times:
                self.assertEqual(self.times[found], min(one for one in self.times if abs(one - time) == distance))

    def test_no_queue(self) -> None:
        """Of a queue that is not there, or is empty, the offset is 0."""
        self.assertEqual(self.now(self.store.offset_at("none", 0, EPOCH_MS)), 0)
        self.store.append([message("new")])
        self.assertEqual(self.now(self.store.offset_at("new", 0, EPOCH_MS)), 0)

    def test_old_ones_gone(self) -> None:
        """Messages that are gone count as too old."""
        minimum = self.store._commitlog.files.files[1].base
        del self.store._commitlog.files.files[0]
        gone = sum(unit.commitlog_offset < minimum for unit in self.store.units("T", 0, 0, 100))
        self.assertGreater(gone, 10)
        self.assertEqual(self.now(self.store.offset_at("T", 0, 0)), gone)
        self.assertEqual(self.now(self.store.stored_ms("T", 0, gone - 1)), -1)


class SearchTests(SynchronousTestCase):
    def test_clock_set_back(self) -> None:
        """Where times fall, the search ends within the queue; with LOWER at a time not before, or the end (H9)."""
        random = Random(5)
        for _ in range(300):
            times = [random.randrange(100) for _ in range(random.randrange(1, 30))]
            for boundary in (None, LOWER, UPPER):
                time = random.randrange(110)
                found = search(times.__getitem__, 0, len(times), time, boundary)
                self.assertTrue(0 <= found <= len(times) - (boundary != LOWER))
                if boundary == LOWER and found < len(times):
                    self.assertGreaterEqual(times[found], time)

    def test_empty(self) -> None:
        """In an empty queue the first offset is found."""
        self.assertEqual(search(lambda offset: 0, 7, 7, 5, None), 7)

    def test_begins_later(self) -> None:
        """Offsets count from where the queue begins."""
        self.assertEqual(small().log_file_size, LOG_SIZE)
        self.assertEqual(search(lambda offset: offset * 10, 7, 12, 85, LOWER), 9)
        self.assertEqual(search(lambda offset: offset * 10, 7, 12, 0, UPPER), 7)
        self.assertEqual(search(lambda offset: offset * 10, 7, 12, 0, None), 7)
        self.assertEqual(search(lambda offset: offset * 10, 7, 12, 999, None), 11)
