"""Tests of L{smartgo.tablefile}."""

from __future__ import annotations

import errno
import json
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BrokenTable
from smartgo.tablefile import SIZE_LIMIT, TableFile, holding, read_object
from tests.fakes import FakeEnvironment

PATH = "/store/config/topics.json"
BACKUP = PATH + ".bak"


class TableFileTests(SynchronousTestCase):
    """One table's file over files in memory."""

    def setUp(self) -> None:
        """A table in a store that has its directory."""
        self.env = FakeEnvironment()
        self.files = self.env.files
        self.files.make_directories("/store/config")
        self.table = TableFile(self.env, PATH)

    def put(self, path: str, data: bytes) -> None:
        """Give a file this content."""
        if self.files.exists(path):
            self.files.remove(path)
        self.files.create(path, data)

    def content(self, path: str = PATH) -> Any:
        """Return the content of a file as a strict parser reads it."""
        return json.loads(self.files.read(path))

    def held(self) -> None:
        """From now on writes wait until released."""
        self.env.threads.held.add("tables")


class LoadTests(TableFileTests):
    """Reading."""

    def test_nothing(self) -> None:
        """Where there is no file there is no table."""
        self.assertIsNone(self.table.load())

    def test_main(self) -> None:
        """The main file is read, and the backup not looked at."""
        self.put(PATH, b'{"a":1}')
        self.put(BACKUP, b"{")
        self.assertEqual(self.table.load(), {"a": 1})
        self.assertFalse(self.table.from_backup)

    def test_bare_keys(self) -> None:
        """Integer keys may be bare, as RocketMQ writes them with tabs."""
        self.put(PATH, b'{\n\t"offsetTable":{\n\t\t"T@G":{0:18,1:12\n\t\t}\n\t}\n}')
        self.assertEqual(self.table.load(), {"offsetTable": {"T@G": {"0": 18, "1": 12}}})

    def test_backup(self) -> None:
        """A main file that is missing, empty, cut, zeroed, no object or no UTF-8 gives way to the backup."""
        self.put(BACKUP, b'{"a":1}')
        for broken in (None, b"", b'{"a":', bytes(7), b"[1]", b'"a"', b'{"\xff":1}', b"x" * (SIZE_LIMIT // 1024)):
            if broken is not None:
                self.put(PATH, broken)
            self.assertEqual(self.table.load(), {"a": 1}, broken and broken[:20])
            self.assertTrue(self.table.from_backup)

    def test_too_long(self) -> None:
        """A file beyond the limit is not read into memory as a whole."""
        asked = []

        def read(path: str, limit: int | None = None) -> bytes:
            asked.append(limit)
            return bytes(0)

        self.put(PATH, b"{}")
        self.patch(self.files, "read", read)
        self.assertRaises(BrokenTable, self.table.load)
        self.assertEqual(asked, [SIZE_LIMIT + 1])

    def test_both_broken(self) -> None:
        """When neither can be read the error names the file, both reasons and the way on."""
        self.put(PATH, b"")
        self.put(BACKUP, b"{")
        error = self.assertRaises(BrokenTable, self.table.load)
        self.assertEqual(error.path, PATH)
        self.assertIn("topics.json: it is empty; topics.json.bak: ", str(error))
        self.assertIn(f"--reset-broken {PATH}", str(error))

    def test_broken_alone(self) -> None:
        """A broken main file without a backup is refused too, not taken for an empty table."""
        self.put(PATH, b"{")
        self.assertRaises(BrokenTable, self.table.load)

    def test_shape(self) -> None:
        """A file of the wrong shape, as its reader finds, is as good as broken."""
        self.put(PATH, b'{"b":1}')
        self.put(BACKUP, b'{"a":2}')
        self.assertEqual(self.table.load(lambda data: read_object(data)["a"]), 2)

    def test_unreadable(self) -> None:
        """A file that the system does not give gives way to the backup."""
        self.put(PATH, b'{"a":1}')
        self.put(BACKUP, b'{"a":2}')
        real = self.files.read

        def read(path: str, limit: int | None = None) -> bytes:
            if path == PATH:
                raise OSError(errno.EIO, "Input/output error")
            return real(path, limit)

        self.patch(self.files, "read", read)
        self.assertEqual(self.table.load(), {"a": 2})

    def test_bit_flips(self) -> None:
        """Whatever bit of the main file flips, a table is read or the backup is; the start never crashes (F6)."""
        good = b'{"offsetTable":{"T@G":{"0":18}}}'
        self.put(BACKUP, good)
        random = Random(6)
        for _ in range(500):
            damaged = bytearray(good)
            damaged[random.randrange(len(good))] ^= 1 << random.randrange(8)
            self.put(PATH, bytes(damaged))
            self.assertIsInstance(self.table.load(), dict)

    def test_set_aside(self) -> None:
        """Both files can be put aside, after which the table is new; nothing is deleted."""
        self.put(PATH, b"{")
        self.put(BACKUP, b"[")
        moved = self.table.set_aside()
        self.assertEqual([self.files.read(path) for path in moved], [b"{", b"["])
        self.assertIsNone(self.table.load())
        self.assertIn("/store/config", self.files.synced_directories)
        self.assertEqual(self.table.set_aside(), [])


class SaveTests(TableFileTests):
    """Writing."""

    def test_strict(self) -> None:
        """What is written is strict JSON with quoted keys, and read back."""
        self.successResultOf(self.table.save({"offsetTable": {"T@G": {0: 18, 10: 2}}}))
        self.assertEqual(self.content(), {"offsetTable": {"T@G": {"0": 18, "10": 2}}})
        self.assertEqual(self.table.load(), {"offsetTable": {"T@G": {"0": 18, "10": 2}}})

    def test_backup(self) -> None:
        """The previous content stays as the backup."""
        self.successResultOf(self.table.save({"a": 1}))
        self.assertFalse(self.files.exists(BACKUP))
        self.successResultOf(self.table.save({"a": 2}))
        self.assertEqual((self.content(), self.content(BACKUP)), ({"a": 2}, {"a": 1}))

    def test_directory(self) -> None:
        """A directory that is missing is created."""
        table = TableFile(self.env, "/new/config/x.json")
        self.successResultOf(table.save({}))
        self.assertEqual(table.load(), {})

    def test_good_backup_stays(self) -> None:
        """After a start from the backup, the broken main file does not become the backup, until a save succeeded."""
        self.put(PATH, b"{")
        self.put(BACKUP, b'{"a":1}')
        self.table.load()
        self.files.fail[PATH] = errno.ENOSPC
        self.failureResultOf(self.table.save({"a": 2}), OSError)
        self.files.fail.clear()
        self.successResultOf(self.table.save({"a": 3}))
        self.assertEqual((self.content(), self.content(BACKUP)), ({"a": 3}, {"a": 1}))
        self.successResultOf(self.table.save({"a": 4}))
        self.assertEqual(self.content(BACKUP), {"a": 3})

    def test_off_the_reactor(self) -> None:
        """Nothing is written before the lane has done it."""
        self.held()
        saved = self.table.save({"a": 1})
        self.assertNoResult(saved)
        self.assertFalse(self.files.exists(PATH))
        self.env.threads.release("tables")
        self.successResultOf(saved)

    def test_coalesced(self) -> None:
        """Saves asked for while one runs are done once, with the last value; all are told when that is durable."""
        self.held()
        first = self.table.save({"a": 1})
        later: list[Deferred[None]] = [self.table.save({"a": value}) for value in (2, 3, 4)]
        self.env.threads.release("tables", 1)
        self.successResultOf(first)
        for saved in later:
            self.assertNoResult(saved)
        self.assertEqual(self.content(), {"a": 1})
        self.assertEqual(self.env.threads.release("tables"), 1)
        for saved in later:
            self.successResultOf(saved)
        self.assertEqual((self.content(), self.content(BACKUP)), ({"a": 4}, {"a": 1}))

    def test_mutable(self) -> None:
        """A table that changed while its save waited is written as it is when the writing begins."""
        self.held()
        table = {"a": 1}
        self.table.save({})
        saved = self.table.save(table)
        table["a"] = 2
        self.env.threads.release("tables")
        self.successResultOf(saved)
        self.assertEqual(self.content(), {"a": 2})

    def test_save_in_callback(self) -> None:
        """Who is told of a save may ask for the next at once."""
        self.held()
        again: list[Deferred[None]] = []
        self.table.save({"a": 1}).addCallback(lambda _: again.append(self.table.save({"a": 2})))
        self.table.save({"a": 3})
        self.env.threads.release("tables")
        self.env.threads.release("tables")
        self.successResultOf(again[0])
        self.assertEqual(self.content(), {"a": 2})

    def test_failure(self) -> None:
        """A failed save tells those who asked for it, leaves the file as it was, and the next one is tried anew."""
        self.successResultOf(self.table.save({"a": 1}))
        self.held()
        self.files.fail[PATH] = errno.ENOSPC
        lost = self.table.save({"a": 2})
        self.env.threads.release("tables")
        self.assertEqual(self.failureResultOf(lost, OSError).value.errno, errno.ENOSPC)
        self.assertEqual(self.content(), {"a": 1})
        self.files.fail.clear()
        kept = self.table.save({"a": 3})
        self.env.threads.release("tables")
        self.successResultOf(kept)

    def test_not_json(self) -> None:
        """A value that is no JSON is a failure of that save, and of none after it."""
        self.failureResultOf(self.table.save({"a": object()}), TypeError)
        self.successResultOf(self.table.save({"a": 1}))


class StopTests(TableFileTests):
    """The end of a process."""

    def test_save_now(self) -> None:
        """The file is written before the call returns, the previous one kept."""
        self.held()
        self.table.save_now({"a": 1})
        self.table.save_now({"a": 2})
        self.assertEqual((self.content(), self.content(BACKUP)), ({"a": 2}, {"a": 1}))

    def test_save_now_wins(self) -> None:
        """A save that had not begun when C{save_now} was called writes nothing older over it; who waited is told."""
        self.held()
        running = self.table.save({"a": 1})
        waiting = self.table.save({"a": 2})
        self.table.save_now({"a": 3})
        self.successResultOf(waiting)
        self.env.threads.release("tables")
        self.successResultOf(running)
        self.assertEqual(self.content(), {"a": 3})

    def test_save_now_fails(self) -> None:
        """When it fails the caller and those who waited are told."""
        self.held()
        self.table.save({"a": 1})
        waiting = self.table.save({"a": 2})
        self.files.fail[PATH] = errno.EIO
        self.assertRaises(OSError, self.table.save_now, {"a": 3})
        self.failureResultOf(waiting, OSError)

    def test_settled(self) -> None:
        """One can wait until all that was asked for is written, or has failed."""
        self.successResultOf(self.table.settled())
        self.held()
        first, second = self.table.save({"a": 1}), self.table.save({"a": 2})
        settled = self.table.settled()
        self.files.fail[PATH] = errno.EIO
        self.env.threads.release("tables", 1)
        self.failureResultOf(first, OSError)
        self.assertNoResult(settled)
        self.env.threads.release("tables")
        self.failureResultOf(second, OSError)
        self.successResultOf(settled)


class HoldingTests(TableFileTests):
    """An object without the table in it is no empty table."""

    def test_member(self) -> None:
        """Without its member a file counts as unreadable, and the backup is taken; with neither, the start stops."""
        read = holding(read_object, "offsetTable", "offsets")
        self.put(BACKUP, b'{"offsets":{"a":1}}')
        for content in (b"{}", b'{"a":1}'):
            self.put(PATH, content)
            self.assertEqual(self.table.load(read), {"offsets": {"a": 1}})
        self.put(BACKUP, b"{}")
        self.assertRaises(BrokenTable, self.table.load, read)
        self.put(PATH, b'{"offsetTable":{}}')
        self.assertEqual(self.table.load(read), {"offsetTable": {}})
