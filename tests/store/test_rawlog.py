"""Tests of L{smartgo.store.rawlog} and of those that follow the log, through a store."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from zope.interface.verify import verifyObject

from smartgo.errors import NoSuchMessage
from smartgo.schema.record import BLANK_MAGIC, start_struct
from smartgo.store import rawlog as pieces
from smartgo.store.interfaces import PutStatus
from smartgo.store.openstore import OpenStore
from smartgo.store.replicatedlog import IReplicatedLog
from tests.fakes import FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, held, message, small


class PiecesTestCase(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def start(self, **changes: Any) -> OpenStore:
        """An open store."""
        return self.opened(self.env, small(**changes))

    def log(self, store: OpenStore) -> bytes:
        """All bytes of the log, as the files have them."""
        begin, end = store.log_bounds()
        directory = f"{ROOT}/commitlog"
        names = [name for name in self.env.files.list(directory) if name.isdigit()]
        return b"".join(self.env.files.read(f"{directory}/{name}") for name in names)[: end - begin]


class PieceTests(PiecesTestCase):
    def test_interface(self) -> None:
        """A store is a replicated log."""
        verifyObject(IReplicatedLog, self.start())

    def test_all_of_the_log(self) -> None:
        """Pieces of any limit, one after another, are the log, blanks included, and none goes beyond a file's end."""
        store = self.start()
        self.fill(store, 90)
        begin, end = store.log_bounds()
        self.assertGreater(end, 2 * LOG_SIZE)
        for limit in (1, 7, 100, 1000, LOG_SIZE - 1, LOG_SIZE, 10 * LOG_SIZE):
            found = b""
            while (at := begin + len(found)) < end:
                piece = store.piece(at, limit)
                assert piece is not None
                self.assertTrue(0 < len(piece) <= limit)
                self.assertEqual(at // LOG_SIZE, (at + len(piece) - 1) // LOG_SIZE)
                self.assertEqual(bytes(piece), self.now(store.piece_cold(at, limit)))
                found += piece
            self.assertEqual(found, self.log(store), f"limit {limit}")
        self.assertIn(start_struct.pack(0, BLANK_MAGIC)[4:], self.log(store))

    def test_outside(self) -> None:
        """Nothing is read before the log's first byte or from its end on, hot or cold."""
        store = self.start()
        for number in range(3):
            for at in (-1, store.log_bounds()[1], store.log_bounds()[1] + LOG_SIZE):
                self.assertRaises(NoSuchMessage, store.piece, at, 10)
                self.failureResultOf(store.piece_cold(at, 10), NoSuchMessage)
            self.fill(store, number * 40 + 1)

    def test_cold(self) -> None:
        """What lies further behind the log's end than memory holds is for the reader thread."""
        self.env.host.memory = 1000
        store = self.start(memory_ratio=0.5)
        self.fill(store, 30)
        end = store.log_bounds()[1]
        self.assertIsNone(store.piece(end - 501, 10))
        self.assertEqual(len(store.piece(end - 500, 10) or b""), 10)
        self.assertRaises(NoSuchMessage, store.piece, -1, 10)
        with held(self.env, "read"):
            waiting = store.piece_cold(0, 1000)
            self.assertNoResult(waiting)
        self.assertEqual(self.now(waiting), self.log(store)[:1000])

    def test_file_is_gone(self) -> None:
        """A cold read of a file that is gone meanwhile says so."""
        store = self.start()
        self.fill(store, 90)
        del self.env.files.files[f"{ROOT}/commitlog/{0:020d}"]
        self.failureResultOf(store.piece_cold(5, 10), NoSuchMessage)
        self.failureResultOf(store.crc(5, LOG_SIZE + 5), NoSuchMessage)

    def test_last_file(self) -> None:
        """The last file begins at the greatest multiple of a file's length that the log has reached."""
        store = self.start()
        self.assertEqual(store.last_file(), 0)
        while store.log_bounds()[1] < 3 * LOG_SIZE:
            self.assertEqual(store.last_file(), store.log_bounds()[1] // LOG_SIZE * LOG_SIZE)
            self.fill(store, 1)
        self.assertEqual(store.last_file(), 3 * LOG_SIZE)


class CrcTests(PiecesTestCase):
    def test_ranges(self) -> None:
        """The CRC is that of the bytes, over file ends too, read in slices by the reader thread."""
        self.patch(pieces, "_SLICE", 777)
        store = self.start()
        self.fill(store, 90)
        log = self.log(store)
        end = len(log)
        for begin in (0, 1, LOG_SIZE - 1, LOG_SIZE, end - 1):
            for stop in (begin + 1, LOG_SIZE, LOG_SIZE + 1, end):
                if stop > begin:
                    self.assertEqual(self.now(store.crc(begin, stop)), crc32(log[begin:stop]), (begin, stop))
        with held(self.env, "read"):
            waiting = store.crc(0, end)
            self.assertEqual(len(self.env.threads.waiting["read"]), 1)
            self.env.threads.release("read", 1)
            self.assertNoResult(waiting)
            self.assertEqual(len(self.env.threads.waiting["read"]), 1)
            while self.env.threads.release("read", 1):
                pass
        self.assertEqual(self.now(waiting), crc32(log))

    def test_outside(self) -> None:
        """A range that is not all there has no CRC; that of no bytes is 0."""
        store = self.start()
        self.failureResultOf(store.crc(0, 1), NoSuchMessage)
        self.fill(store, 3)
        end = store.log_bounds()[1]
        for begin, stop in ((-1, 5), (0, end + 1), (end, end + 1), (end + 1, end + 1), (5, 3)):
            self.failureResultOf(store.crc(begin, stop), NoSuchMessage)
        self.assertEqual((self.now(store.crc(5, 5)), self.now(store.crc(end, end))), (0, 0))


class FollowTests(PiecesTestCase):
    def test_ends(self) -> None:
        """A follower hears the log's end once a run that moved it, when the messages can be read, and of no other."""
        store = self.start()
        heard: list[tuple[int, int]] = []
        self.fill(store, 1)
        store.follow(lambda end: heard.append((end, store.bounds("T", 0)[1])))
        store.end_run()
        self.assertEqual(heard, [])
        self.send(store, message(), message())
        first = store.log_bounds()[1]
        self.send(store, message())
        self.assertEqual(heard, [(first, 3), (store.log_bounds()[1], 4)])

    def test_flushes(self) -> None:
        """A follower hears how far the log is durable after each flush."""
        store = self.start()
        heard: list[int] = []
        store.follow_flushes(heard.append)
        self.fill(store, 1)
        self.assertEqual(heard, [])
        self.env.clock.advance(0.5)
        self.assertEqual(heard, [store.log_bounds()[1]])
        self.fill(store, 1)
        self.assertEqual(self.now(store.flush()), PutStatus.OK)
        self.assertEqual((heard[-1], len(heard)), (store.flushed, 2))

    def test_follower_with_a_bug(self) -> None:
        """A follower that raises stops neither sends nor flushes, nor other followers."""
        store = self.start()
        heard: list[int] = []

        def breaks(_: int) -> None:
            raise ValueError("a bug")

        for listener in (breaks, heard.append):
            store.follow(listener)
            store.follow_flushes(listener)
        self.fill(store, 1)
        self.env.clock.advance(0.5)
        self.assertEqual(heard, [store.log_bounds()[1]] * 2)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)
