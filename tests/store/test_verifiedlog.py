"""Tests of L{smartgo.store.verifiedlog}, L{smartgo.store.damage} and what readers do with damage, through a store."""

from __future__ import annotations

import errno
import os
from random import Random

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from smartgo.schema import logcheck, regions
from smartgo.schema.record import HEAD_SIZE
from smartgo.store import pagereads, verifiedlog
from smartgo.store.interfaces import ReadLimit, ReadStatus
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ALL, ROOT, StoreTestCase, killed, message, small
from tests.store.test_messagereader import Filter

FILE_SIZE = 1 << 14


def log_path(base: int = 0) -> str:
    """The path of a log file."""
    return f"{ROOT}/commitlog/{base:020d}"


class VerifiedTestCase(StoreTestCase):
    SETTINGS = small(log_file_size=FILE_SIZE, queue_file_size=20_000)

    def setUp(self) -> None:
        self.patch(verifiedlog, "REGION", 1024)
        self.patch(logcheck, "CHUNK", 512)
        self.env = FakeEnvironment()
        self.reads: list[tuple[str, int, int]] = []

    def written(self, count: int = 300, queues: int = 1) -> list[int]:
        """Physical offsets of messages of a store that was closed; the n-th body begins with n."""
        store = self.opened(self.env, self.SETTINGS)
        random = Random(1)
        offsets = [
            self.send(store, message(queue_id=number % queues, body=b"%d-" % number + bytes(random.randrange(150))))[0]
            for number in range(count)
        ]
        self.stopped(store)
        return offsets

    def flip(self, offset: int, at: int = HEAD_SIZE, bit: int = 1) -> None:
        """Flip a bit of the record at a physical offset."""
        self.env.files.files[log_path(offset - offset % FILE_SIZE)].data[offset % FILE_SIZE + at] ^= bit

    def open(self) -> OpenStore:
        """The store, of which the reads of log files are noted from now on."""
        store = self.opened(self.env, self.SETTINGS)
        read_at = self.env.files.read_at

        def noted(path: str, offset: int, size: int) -> bytes:
            if "commitlog" in path:
                self.reads.append((path, offset, size))
            return read_at(path, offset, size)

        self.patch(self.env.files, "read_at", noted)
        return store

    def numbers(self, store: OpenStore, queue_id: int = 0, filter: Filter | None = None) -> list[int]:
        """The numbers of all messages of a queue, each of which lies at its place in the queue."""
        found = self.read_all(store, queue_id=queue_id, filter=filter)
        return [int(bytes(one.body).split(b"-")[0]) for one in found]


class OnceTests(VerifiedTestCase):
    def test_checked_once(self) -> None:
        """What was there at the start is checked when it is first read, in the lane, and never again."""
        self.written()
        store = self.open()
        self.assertEqual(store.read("T", 0, 0, ReadLimit(), None).status, ReadStatus.COLD)
        self.assertEqual(self.reads, [])
        self.assertEqual(self.numbers(store), list(range(300)))
        self.assertNotEqual(self.reads, [])
        self.reads.clear()
        for offset in (0, 17, 280):
            self.assertEqual(store.read("T", 0, offset, ALL, None).status, ReadStatus.FOUND)
        self.assertEqual(self.numbers(store, filter=Filter(frozenset({0}))), list(range(300)))
        self.assertEqual(self.reads, [])

    def test_own_messages(self) -> None:
        """What this process appended is never checked, also next to what was there."""
        self.written(10)
        store = self.open()
        for number in range(10, 20):
            self.send(store, message(body=b"%d-" % number))
        self.assertEqual(store.read("T", 0, 10, ALL, None).count, 10)
        self.assertEqual(self.reads, [])
        self.assertEqual(self.numbers(store), list(range(20)))

    def test_any_place(self) -> None:
        """A read from any place finds what the filter lets in, whatever was checked before."""
        offsets = self.written()
        random = Random(4)
        for damaged in (set(), {0}, {299}, {7, 8, 9, 120, 200}):
            for number in damaged:
                self.flip(offsets[number])
            store = self.open()
            starts = [random.randrange(300) for _ in range(40)]
            for start in starts:
                count = random.choice((1, 3, 32))
                result = self.read_now(store, "T", 0, start, ReadLimit(count, 1 << 20))
                kept = [one for one in range(start, result.next_offset) if one not in damaged]
                self.assertEqual(result.count, len(kept))
                self.assertGreater(result.next_offset, start)
                self.assertEqual(result.status is ReadStatus.FOUND, bool(kept))
            self.assertEqual(self.numbers(store), [one for one in range(300) if one not in damaged])
            self.stopped(store)
            for number in damaged:
                self.flip(offsets[number])

    def test_memory(self) -> None:
        """Four bytes a region are kept, for files alone of which something was read; none for files that are gone."""
        self.written(600)
        store = self.open()
        verified = store._integrity.verified
        self.assertEqual(len(verified._starts), 0)
        self.read_now(store, "T", 0, 0, ReadLimit(1, 1))
        self.assertEqual([(base, len(one)) for base, one in verified._starts.items()], [(0, FILE_SIZE // 1024)])
        self.assertEqual(verified._starts[0].itemsize, 4)
        del store._commitlog.files.files[0]
        self.read_now(store, "T", 0, 599, ReadLimit(1, 1))
        self.assertNotIn(0, verified._starts)


class DamageTests(VerifiedTestCase):
    def test_every_record(self) -> None:
        """One flipped bit before a restart: that message is missing, all others are there (F6)."""
        offsets = self.written(120)
        for number in range(0, 120, 7):
            self.flip(offsets[number])
            with capturedLogs() as logs:
                store = self.opened(self.env, self.SETTINGS)
                self.assertEqual(self.numbers(store), [one for one in range(120) if one != number])
            told = [one for one in logs if "is not delivered" in one["log_format"]]
            self.assertEqual([(one["offset"], one["queue_offset"]) for one in told], [(offsets[number], number)])
            self.assertEqual(store.damage.found, 1)
            self.stopped(store)
            self.flip(offsets[number])

    def test_filtered(self) -> None:
        """A pull by tag leaves damage out as well, and answers with the next offset where nothing else is there."""
        offsets = self.written(5)
        self.flip(offsets[4])
        store = self.open()
        self.assertEqual(self.numbers(store, filter=Filter(frozenset({0}))), [0, 1, 2, 3])
        for wanted in (Filter(frozenset({0})), None):
            result = self.read_now(store, "T", 0, 4, ALL, wanted)
            self.assertEqual((result.status, result.next_offset), (ReadStatus.NO_MATCHED_MESSAGE, 5))

    def test_topic_of_each(self) -> None:
        """A record whose topic was changed is left out, also among others of the queue."""
        offsets = self.written(20)
        size = len(b"7-")
        data = self.env.files.files[log_path()].data
        at = data.index(b"\x01T", offsets[7] + HEAD_SIZE + size)
        data[at + 1] ^= 2
        store = self.open()
        self.assertEqual(self.numbers(store), [one for one in range(20) if one != 7])

    def test_far_back(self) -> None:
        """What is read from the disk is checked, too."""
        offsets = self.written(200)
        self.flip(offsets[50])
        store = self.open()
        store._reader._memory = 1000
        self.assertEqual(self.numbers(store), [one for one in range(200) if one != 50])
        self.reads.clear()
        self.assertEqual(len(self.numbers(store)), 199)
        self.assertEqual({size for _, _, size in self.reads if size > 400}, set())  # records, and no regions

    def test_kept(self) -> None:
        """The damage is in quarantine with its bytes, and the next start knows of it."""
        offsets = self.written(20)
        self.flip(offsets[3])
        store = self.open()
        self.assertEqual(len(self.numbers(store)), 19)
        listed = regions.decode(self.env.files.read(f"{ROOT}/{regions.PATH}"))
        self.assertEqual(listed, store.damage.regions)
        only = listed[0]
        self.assertEqual((only.topic, only.queue_id, only.queue_offset, only.reason), ("T", 0, 3, "body CRC differs"))
        kept = self.env.files.read(f"{ROOT}/quarantine/{only.saved}")
        self.assertEqual(kept, bytes(self.env.files.files[log_path()].data[only.offset : only.end]))
        after = self.opened(killed(self.env), self.SETTINGS)
        self.assertEqual(after.damage.regions, listed)
        self.assertEqual(after.damage.found, 0)

    def test_no_room(self) -> None:
        """Without room for the copy the damage is left out all the same."""
        offsets = self.written(20)
        self.flip(offsets[3])
        store = self.open()
        self.patch(self.env.files, "append", self.no_space)
        self.assertEqual(len(self.numbers(store)), 19)
        self.assertEqual([one.saved for one in store.damage.regions], [""])

    def no_space(self, path: str, data: bytes) -> None:
        """Fail as a full disk does."""
        raise OSError(errno.ENOSPC, "No space left on device", path)


class UnreadableTests(VerifiedTestCase):
    """Pages that the disk answers with EIO (F9)."""

    def broken(self, offset: int, times: int = 1 << 30, code: int = errno.EIO) -> None:
        """Let reads that touch a byte of the log fail."""
        read_at = self.env.files.read_at
        left = [times]

        def failing(path: str, at: int, size: int) -> bytes:
            base = offset - offset % FILE_SIZE
            if path == log_path(base) and at <= offset - base < at + size and left[0]:
                left[0] -= 1
                raise OSError(code, os.strerror(code), path)
            return read_at(path, at, size)

        self.patch(self.env.files, "read_at", failing)

    def dying(self, first: int, last: int) -> list[int]:
        """Let reads that touch a byte between two places of the first log file fail, and note where they begin."""
        read_at = self.env.files.read_at
        failed: list[int] = []

        def failing(path: str, at: int, size: int) -> bytes:
            if path == log_path() and at < last and at + size > first:
                failed.append(at)
                raise OSError(errno.EIO, "Input/output error", path)
            return read_at(path, at, size)

        self.patch(self.env.files, "read_at", failing)
        return failed

    def test_other_errors(self) -> None:
        """An error that does not tell of a faulty disk makes no damage, however often and long it comes."""
        offsets = self.written(100)
        for code in (errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.ESTALE):
            store = self.opened(self.env, self.SETTINGS)
            read_at = self.env.files.read_at
            self.broken(offsets[40], code=code)
            for _ in range(4):
                self.failureResultOf(store.read_cold("T", 0, 40, ReadLimit(1, 1), None), OSError)
                self.env.clock.advance(verifiedlog.APART)
            self.assertEqual(store.damage.regions, [])
            self.patch(self.env.files, "read_at", read_at)
            self.assertEqual(self.numbers(store), list(range(100)))
            self.stopped(store)

    def test_other_error_after_a_fault(self) -> None:
        """The same holds where the disk had failed before."""
        offsets = self.written(100)
        store = self.opened(self.env, self.SETTINGS)
        read_at = self.env.files.read_at
        self.broken(offsets[40], 1)
        self.failureResultOf(store.read_cold("T", 0, 40, ReadLimit(1, 1), None), OSError)
        self.env.clock.advance(verifiedlog.APART)
        self.broken(offsets[40], code=errno.EMFILE)
        self.failureResultOf(store.read_cold("T", 0, 40, ReadLimit(1, 1), None), OSError)
        self.patch(self.env.files, "read_at", read_at)
        self.assertEqual(self.numbers(store), list(range(100)))
        self.assertEqual(store.damage.regions, [])

    def test_read_since(self) -> None:
        """A region that was read since its failure fails anew: one error today and one next month are not two."""
        offsets = self.written(100)
        store = self.opened(self.env, self.SETTINGS)
        verified = store._integrity.verified
        for _ in range(3):
            read_at = self.env.files.read_at
            self.broken(offsets[40], 1)
            self.failureResultOf(Deferred.fromCoroutine(verified.check(offsets[40])), OSError)
            self.env.clock.advance(1)
            self.patch(self.env.files, "read_at", read_at)
            self.successResultOf(Deferred.fromCoroutine(verified.check(offsets[40])))
            self.env.clock.advance(verifiedlog.APART * 600)
        self.assertEqual(store.damage.regions, [])

    def test_dying(self) -> None:
        """
        Where a large part of the disk fails, one check asks for a few failing pages alone; the pages that were found
        are not asked for again, and in the end all that can be read is delivered.
        """
        self.patch(verifiedlog, "PAGE", 64)
        self.patch(pagereads, "PAGE", 64)
        offsets = self.written(100)
        store = self.opened(self.env, self.SETTINGS)
        verified = store._integrity.verified
        read_at = self.env.files.read_at
        first, last = 2048 + 64, 2048 + 64 + 4096
        failed = self.dying(first, last)
        ends = [*offsets[1:], store.log_bounds()[1]]
        whole = [number for number in range(100) if ends[number] <= first or offsets[number] >= last]
        for place in (5 << 10, *range(0, FILE_SIZE, 1024)):  # the first in the middle of it
            before = len(failed)
            tries = 0
            while not verified.covers(place, place):
                seen = len(failed)
                Deferred.fromCoroutine(verified.check(place)).addErrback(lambda reason: reason.trap(OSError))
                self.assertLessEqual(len(failed) - seen, verifiedlog._MOST_FAILED)
                self.env.clock.advance(verifiedlog.APART)
                tries += 1
                self.assertLess(tries, 20)
            self.assertLessEqual(len(failed) - before, 2 * (1024 + 512) // 64)  # it, and a piece behind or before it
        self.assertEqual(self.numbers(store), whole)
        self.assertEqual(len(store.damage), 1)
        lost = [number for number in range(100) if number not in whole]
        only = store.damage.regions[0]
        self.assertEqual((only.offset, only.end), (offsets[lost[0]], ends[lost[-1]]))
        self.stopped(store)
        self.patch(self.env.files, "read_at", read_at)
        store = self.opened(self.env, self.SETTINGS)
        self.assertEqual(self.numbers(store), list(range(100)))
        self.assertEqual(store.damage.regions, [])

    def test_once(self) -> None:
        """An error that does not come again costs one pull, and no message."""
        offsets = self.written(100)
        store = self.opened(self.env, self.SETTINGS)
        self.broken(offsets[40], 1)
        found = self.read_now(store, "T", 0, 0, ReadLimit(1, 1))
        self.assertEqual(found.count, 1)
        self.failureResultOf(store.read_cold("T", 0, 40, ReadLimit(1, 1), None), OSError)
        self.assertEqual(self.numbers(store), list(range(100)))
        self.assertEqual(store.damage.regions, [])

    def test_for_good(self) -> None:
        """Pages that stay unreadable are left out: the process and all other messages go on; the next start tries."""
        self.patch(verifiedlog, "PAGE", 64)
        self.patch(pagereads, "PAGE", 64)
        offsets = self.written(100)
        store = self.opened(self.env, self.SETTINGS)
        with_error = self.env.files.read_at
        self.broken(offsets[40])
        for _ in range(3):
            self.failureResultOf(store.read_cold("T", 0, 40, ReadLimit(1, 1), None), OSError)
        self.assertEqual(store.damage.regions, [])
        self.env.clock.advance(verifiedlog.APART)
        found = self.numbers(store)
        self.assertNotIn(40, found)
        self.assertGreaterEqual(len(found), 97)  # the page may hold parts of its neighbours
        self.assertIn("Input/output error", store.damage.regions[0].reason)
        self.stopped(store)
        self.patch(self.env.files, "read_at", with_error)
        store = self.opened(self.env, self.SETTINGS)
        self.assertEqual(self.numbers(store), list(range(100)))
