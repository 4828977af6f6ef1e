"""Tests of L{smartgo.store.allocate}, through a store."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import Any

from smartgo.errors import ForeignFile, ServiceNotAvailable
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment, FakeMapping
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, killed, message, small

LOG = f"{ROOT}/commitlog"
SPARE = f"{ROOT}/smartgo.spare"


class SpaceTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def start(self, **changes: Any) -> OpenStore:
        """An open store with small files and no demands on the disk."""
        return self.opened(self.env, small(**{"disk_free_minimum": 0, "disk_full_ratio": 1.0, **changes}))

    def fill_file(self, store: OpenStore, count: int = 1) -> None:
        """Append until the log is in its next file."""
        for _ in range(count):
            target = store.log_bounds()[1] // LOG_SIZE + 1
            while store.log_bounds()[1] < target * LOG_SIZE:
                self.send(store, message(body=b"x" * 300))


class AheadTests(SpaceTestCase):
    def test_spare(self) -> None:
        """The next file is made once half of the last is used; until then, and after, there is no other."""
        store = self.start()
        self.assertEqual(len(self.env.files.list(SPARE)), 1)  # the first file of all
        self.send(store, message())
        self.assertEqual((len(self.env.files.list(SPARE)), len(self.env.files.list(LOG))), (0, 1))
        while store.log_bounds()[1] < LOG_SIZE // 2:
            self.assertEqual(self.env.files.list(SPARE), [])
            self.send(store, message(body=b"x" * 300))
        self.assertEqual(len(self.env.files.list(SPARE)), 1)
        self.fill_file(store)
        self.assertEqual((len(self.env.files.list(SPARE)), len(self.env.files.list(LOG))), (0, 2))

    def test_not_mapped(self) -> None:
        """A file that cannot be mapped, as too many are open, is taken back; another is made later."""
        mapped = self.env.files.map

        def refuse(path: str, writable: bool = True, scattered: bool = False) -> FakeMapping:
            """Map everything but files made ahead of need."""
            if path.startswith(SPARE):
                raise OSError(errno.EMFILE, "Too many open files", path)
            return mapped(path, writable, scattered)

        self.patch(self.env.files, "map", refuse)
        store = self.start()
        self.assertEqual(self.env.files.list(SPARE), [])
        self.patch(self.env.files, "map", mapped)
        self.env.clock.advance(5)
        self.assertEqual(len(self.env.files.list(SPARE)), 1)
        self.send(store, message())

    def test_lane_too_slow(self) -> None:
        """A file that is not ready when it is needed is made at once; the one under way serves the next time."""
        self.env.threads.held.add("prepare")
        waiting = open_store(self.env, ROOT, small())
        self.env.threads.release("prepare", 1)  # the recovery itself
        opening = self.successResultOf(waiting)
        self.fill_file(opening, 3)
        self.assertEqual(len(self.env.files.list(LOG)), 4)
        self.assertEqual(self.env.files.list(SPARE), [])
        self.env.threads.release("prepare")
        self.assertEqual(len(self.env.files.list(SPARE)), 1)
        self.fill_file(opening)
        self.env.threads.held.clear()
        self.env.threads.release("prepare")
        self.stopped(opening)
        self.assertEqual(self.env.files.list(SPARE), [])

    def test_stop_while_preparing(self) -> None:
        """A file that is made while the store stops is taken back, and the store waits for that."""
        store = self.start()
        self.env.threads.held.add("prepare")
        self.fill_file(store)
        while store.log_bounds()[1] < LOG_SIZE + LOG_SIZE // 2:
            self.send(store, message(body=b"x" * 300))
        stopping = store.close()
        self.assertNoResult(stopping)
        self.env.threads.release("prepare")
        self.successResultOf(stopping)
        self.assertEqual((self.env.files.list(SPARE), self.env.files.mappings), ([], []))

    def test_leftovers(self) -> None:
        """Spare files that a killed process left are removed."""
        self.start()
        after = killed(self.env)
        self.assertEqual(after.files.list(SPARE), ["1"])
        after.threads.held.add("prepare")
        waiting = open_store(after, ROOT, small())
        after.threads.release("prepare", 1)
        self.successResultOf(waiting)
        self.assertEqual(after.files.list(SPARE), [])

    def test_pages_ahead(self) -> None:
        """Pages are made ready ahead of the writer, never more than allowed, each once (S4)."""
        ranges: list[tuple[str, int, int]] = []

        def populate(self: Any, begin: int, end: int) -> None:
            ranges.append((self.path, begin, end))

        self.patch(FakeMapping, "populate", populate)
        store = self.start(log_file_size=100_000, touch_ahead=8_000)
        while store.log_bounds()[1] < 250_000:
            self.send(store, message(body=b"x" * 1000))
            position = store.log_bounds()[1] % 100_000
            touched = max(end for path, _, end in ranges if path == ranges[-1][0])
            if path_of_writer := [one for one in ranges if one[2] > position]:
                self.assertLessEqual(path_of_writer[-1][1], position + 8_000)
            self.assertGreater(touched, 0)
        by_file: dict[str, list[tuple[int, int]]] = {}
        for path, begin, end in ranges:
            by_file.setdefault(path, []).append((begin, end))
        for found in by_file.values():
            for (_, end), (begin, _) in pairwise(found):
                self.assertEqual(end, begin)
            self.assertLessEqual(max(end - begin for begin, end in found), 8_000)

    def test_steps(self) -> None:
        """Pages are touched 2 MiB at a time."""
        ranges: list[tuple[int, int]] = []
        self.patch(FakeMapping, "populate", lambda _, begin, end: ranges.append((begin, end)))
        store = self.start(log_file_size=6 << 20, touch_ahead=5 << 20)
        expected = [(0, 2 << 20), (2 << 20, 4 << 20), (4 << 20, 5 << 20)]
        self.assertEqual(ranges, expected)
        self.send(store, message())
        self.assertEqual(ranges[: len(expected)], expected)

    def test_overtaken(self) -> None:
        """A writer that overtakes the thread has twice as much made ready from then on, up to the limit."""
        ranges: list[tuple[int, int]] = []
        self.patch(FakeMapping, "populate", lambda _, begin, end: ranges.append((begin, end)))
        store = self.start(log_file_size=400_000, touch_ahead=8_000, touch_limit=30_000)
        self.send(store, message())
        before = 8_000
        for ahead in (16_000, 30_000, 30_000):
            self.env.threads.held.add("prepare")
            far = ranges[-1][1] + 2 * before  # as much is under way at most
            while store.log_bounds()[1] <= far:
                self.send(store, message(body=b"x" * 1000))
            self.env.threads.held.clear()
            self.env.threads.release("prepare")
            self.send(store, message())
            self.assertEqual(ranges[-1][1] - ranges[-1][0], ahead)
            self.assertLess(store.log_bounds()[1], ranges[-1][1])
            before = ahead


class ElsewhereTests(SpaceTestCase):
    """The log on a file system of its own."""

    LOG = "/elsewhere/log"

    def setUp(self) -> None:
        super().setUp()
        rename, usage = self.env.files.rename, self.env.files.usage
        self.full: set[str] = set()

        def move(source: str, target: str) -> None:
            if source.split("/")[1] != target.split("/")[1]:
                raise OSError(errno.EXDEV, "Invalid cross-device link", source)
            rename(source, target)

        def room(path: str) -> tuple[int, int]:
            return (100, 1) if path.split("/")[1] in self.full else usage(path)

        self.patch(self.env.files, "rename", move)
        self.patch(self.env.files, "usage", room)

    def test_files(self) -> None:
        """Its files are made there, as no rename goes over the border; a stop leaves nothing but them."""
        store = self.start(commitlog_directory=self.LOG)
        self.fill_file(store, 3)
        sent = self.bodies(store)
        self.stopped(store)
        self.assertEqual(self.env.files.list(self.LOG), [f"{number * LOG_SIZE:020d}" for number in range(4)])
        store = self.start(commitlog_directory=self.LOG)
        self.assertEqual(self.bodies(store), sent)
        self.fill_file(store, 2)

    def test_foreign(self) -> None:
        """What is not ours among the files made there is named, and stays."""
        self.stopped(self.start(commitlog_directory=self.LOG))
        self.env.files.make_directories(f"{self.LOG}/smartgo.spare")
        self.env.files.create(f"{self.LOG}/smartgo.spare/key.txt", b"mine")
        opening = open_store(self.env, ROOT, small(commitlog_directory=self.LOG))
        self.assertIn("key.txt", str(self.failureResultOf(opening, ForeignFile).value))
        self.assertTrue(self.env.files.exists(f"{self.LOG}/smartgo.spare/key.txt"))

    def test_full(self) -> None:
        """Either file system that is nearly full keeps messages out."""
        for place in ("elsewhere", "store"):
            store = self.start(commitlog_directory=self.LOG, disk_full_ratio=0.9)
            self.send(store, message())
            self.full.add(place)
            self.env.clock.advance(0.5)
            self.assertIn("99.0 % full", str(store.refusal))
            self.full.clear()
            self.env.clock.pump([1] * 6)
            self.assertIsNone(store.refusal)
            self.stopped(store)


class DiskFullTests(SpaceTestCase):
    def refused(self, store: OpenStore) -> str:
        """A send is answered with 14; return why."""
        error = self.assertRaises(ServiceNotAvailable, store.append, [message(body=b"x" * 300)])
        self.assertEqual(error.code, 14)
        return str(error)

    def test_no_room_for_a_file(self) -> None:
        """When no file can be made, sends are refused and reads go on; tried every 5 s, it ends by itself (S1, F8)."""
        store = self.start()
        self.fill_file(store)
        self.env.files.free = LOG_SIZE - 1
        before = self.env.files.list(LOG)
        sent = 0
        while store.refusal is None:
            try:
                self.send(store, message(body=b"x" * 300))
                sent += 1
            except ServiceNotAvailable:
                pass
        self.assertGreater(sent, 5)
        self.assertIn("no room for a CommitLog file of 4096 B", self.refused(store))
        self.assertEqual((self.env.files.list(LOG), self.env.files.list(SPARE)), (before, []))
        count = len(self.bodies(store))
        self.env.clock.pump([1] * 7)
        self.refused(store)
        self.env.files.free = 100 * LOG_SIZE
        self.env.clock.pump([1] * 5)
        self.assertIsNone(store.refusal)
        self.send(store, message(body=b"x" * 300))
        self.assertEqual(len(self.bodies(store)), count + 1)
        self.assertEqual(store.log_bounds()[1] // LOG_SIZE, 2)

    def test_spare_discarded(self) -> None:
        """Messages are accepted again where the file that was allocated at last was discarded (a rare path)."""
        store = self.start()
        self.fill_file(store)
        self.env.files.free = 0
        with self.assertRaises(ServiceNotAvailable):
            self.fill_file(store)
        self.env.files.free = 1 << 30
        self.env.rare_paths = lambda name: name == "log.no-spare"
        self.env.clock.advance(5)
        self.assertIsNotNone(store.refusal)
        self.assertEqual(self.env.files.list(SPARE), [])
        self.env.rare_paths = lambda name: False
        self.env.clock.advance(5)
        self.assertIsNone(store.refusal)
        self.fill_file(store)

    def test_refused_send_leaves_nothing(self) -> None:
        """What is refused for want of a file is neither in the log nor in a queue."""
        store = self.start()
        self.env.files.free = LOG_SIZE - 1
        while store.refusal is None:
            before = store.log_bounds(), len(self.bodies(store))
            try:
                self.send(store, message(body=b"x" * 300))
            except ServiceNotAvailable:
                self.assertEqual((store.log_bounds(), len(self.bodies(store))), before)

    def test_no_room_for_a_queue(self) -> None:
        """A queue that can get no blocks refuses; others, that have some, go on."""
        store = self.start()
        self.send(store, message())
        self.env.files.free = 0
        self.assertIn("queue 1", str(self.assertRaises(ServiceNotAvailable, store.append, [message(queue_id=1)])))
        self.send(store, message())
        self.env.files.free = 100 * LOG_SIZE
        self.send(store, message(queue_id=1))
        self.assertEqual((store.bounds("T", 0), store.bounds("T", 1)), ((0, 2), (0, 1)))

    def test_nearly_full(self) -> None:
        """Above 90 % used, or below 1 GiB free, nothing is taken: over when that ends (L20)."""
        for total, free, word in ((1 << 40, (1 << 40) // 10 - 1, "90.0 % full"), (9 << 30, (1 << 30) - 1, "are free")):
            self.env = FakeEnvironment()
            store = self.opened(self.env)
            self.send(store, message())
            self.env.files.total, self.env.files.free = total, free
            self.env.clock.advance(0.5)
            self.assertIn(word, self.refused(store))
            self.env.clock.pump([1] * 10)
            self.refused(store)
            self.env.files.free = total // 2
            self.env.clock.pump([1] * 5)
            self.send(store, message())

    def test_full_at_the_start(self) -> None:
        """A store on a full disk opens, serves reads, and takes messages once there is room."""
        store = self.start()
        self.fill_file(store, 2)
        count = len(self.bodies(store))
        self.stopped(store)
        self.env.files.free = 1
        self.env.files.fail[f"{ROOT}/smartgo.queues"] = errno.ENOSPC
        store = self.start()
        self.assertEqual(len(self.bodies(store)), count)
        while store.log_bounds()[1] < 3 * LOG_SIZE - 400:
            self.send(store, message(body=b"x" * 300))
            count += 1
        self.refused(store)
        self.refused(store)
        self.env.files.fail.clear()
        self.env.files.free = 100 * LOG_SIZE
        self.env.clock.pump([1] * 6)
        self.send(store, message())
        self.assertEqual(len(self.bodies(store)), count + 1)

    def test_rename_fails(self) -> None:
        """A file that is ready and could not be moved into the log is tried again; what refuses meanwhile ends."""
        store = self.start()
        self.fill_file(store)
        before = self.bodies(store)

        def refuse(source: str, target: str) -> None:
            raise OSError(errno.EIO, "Input/output error", source)

        rename = self.env.files.rename
        self.patch(self.env.files, "rename", refuse)
        while store.refusal is None:
            try:
                self.send(store, message(body=b"x" * 300))
                before.append(b"x" * 300)
            except ServiceNotAvailable:
                pass
        self.assertEqual(len(self.env.files.list(SPARE)), 1)
        for _ in range(3):
            self.env.clock.pump([1] * 6)
            self.assertIsNone(store.refusal)
            self.refused(store)
            self.assertIn("Input/output error", self.refused(store))
        self.patch(self.env.files, "rename", rename)
        self.env.clock.pump([1] * 6)
        self.send(store, message(body=b"x" * 300))
        self.assertEqual(self.bodies(store), [*before, b"x" * 300])

    def test_no_blocks_at_the_start(self) -> None:
        """A log that ends in a file with holes, and no room to fill them: it opens, and goes on at its end later."""
        for fits in (True, False):
            self.env = FakeEnvironment()
            store = self.start()
            while store.log_bounds()[1] < (LOG_SIZE // 2 if fits else LOG_SIZE - 200):
                self.send(store, message(body=b"x" * 100))
            sent, (_, end) = self.bodies(store), store.log_bounds()
            self.stopped(store)
            env = self.env = killed(self.env)
            env.files.files[f"{LOG}/{0:020d}"].make_sparse()
            env.files.files[f"{LOG}/{0:020d}"].holes.add((LOG_SIZE - 1) // 512)  # if written or not
            env.files.free = 1
            env.files.fail[f"{ROOT}/smartgo.queues"] = errno.ENOSPC
            store = self.start()
            self.assertEqual((self.bodies(store), store.log_bounds()), (sent, (0, end)))
            self.refused(store)
            self.assertEqual((self.bodies(store), store.log_bounds()), (sent, (0, end)))
            env.files.fail.clear()
            env.files.free = 100 * LOG_SIZE
            env.clock.pump([1] * 6)
            at = self.send(store, message(body=b"y" * 300))
            self.assertEqual(at, [end if fits else LOG_SIZE])
            self.assertEqual(self.bodies(store), [*sent, b"y" * 300])
            self.assertEqual(self.bodies(self.opened(killed(env))), [*sent, b"y" * 300])
            self.assertEqual(env.files.files[f"{LOG}/{0:020d}"].holes, set())

    def test_stops_while_full(self) -> None:
        """A store that waits for room stops without a call left (F30)."""
        store = self.start()
        self.env.files.free = 0
        self.env.files.fail[f"{ROOT}/smartgo.queues"] = errno.ENOSPC
        store._space.note_usage(100, 1)
        stopping = store.close()
        self.failureResultOf(stopping, OSError)
        self.assertEqual((self.env.clock.getDelayedCalls(), self.env.files.mappings), ([], []))
        self.assertIn(f"{ROOT}/abort", self.env.files.files)
