"""Tests of L{smartgo.store.mappedfile} and L{smartgo.store.filequeue}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.filequeue import FileQueue, file_name, is_file_name
from smartgo.store.mappedfile import MappedFile, OpenMappings
from tests.fakes import FakeEnvironment


class FileQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.files = FakeEnvironment().files

    def queue(self, *bases: int) -> FileQueue:
        """A queue of files of 100 bytes."""
        return FileQueue(self.files, "/q", 100, bases)

    def test_names(self) -> None:
        """A file's name is the offset of its first byte, with 20 digits."""
        self.assertEqual(file_name(1073741824), "00000000001073741824")
        self.assertTrue(is_file_name("00000000000000000000"))
        for name in ("0000000000000000000", "0000000000000000000a", "lost+found", "00000000000000000000.tmp"):
            self.assertFalse(is_file_name(name), name)

    def test_find(self) -> None:
        """The file that holds an offset is found, for every offset, and none outside."""
        queue = self.queue(200, 300, 400)
        for offset in range(0, 700, 10):
            file = queue.find(offset)
            if 200 <= offset < 500:
                assert file is not None
                self.assertTrue(file.base <= offset < file.end)
            else:
                self.assertIsNone(file)
        self.assertEqual((queue.begin, queue.end), (200, 500))

    def test_empty(self) -> None:
        """A queue without files holds nothing."""
        queue = self.queue()
        self.assertIsNone(queue.find(0))
        self.assertEqual((queue.begin, queue.end), (0, 0))

    def test_between(self) -> None:
        """The files that hold part of a range are found, in order."""
        queue = self.queue(200, 300, 400)
        for begin, end, bases in (
            (0, 200, []),
            (0, 201, [200]),
            (250, 300, [200]),
            (299, 301, [200, 300]),
            (300, 999, [300, 400]),
            (500, 999, []),
        ):
            self.assertEqual([file.base for file in queue.between(begin, end)], bases, (begin, end))

    def test_no_gap(self) -> None:
        """A file that does not follow the newest is not taken in."""
        queue = self.queue(200)
        self.assertRaises(ValueError, queue.add, MappedFile("/q/x", 400, 100))

    def test_create(self) -> None:
        """The first file makes the directory; every file has its full length, and a name that may not be durable."""
        queue = self.queue()
        for base in (100, 200):
            self.assertTrue(queue.create_sparse(base).fresh)
        self.assertEqual(self.files.list("/q"), [file_name(100), file_name(200)])
        self.assertEqual(self.files.size("/q/" + file_name(200)), 100)

    def test_rename_in(self) -> None:
        """A file made elsewhere becomes the newest under its offset's name."""
        queue = self.queue(0)
        self.files.make_directories("/q")
        self.files.create("/elsewhere", bytes(100))
        self.assertEqual(queue.rename_in("/elsewhere", 100).path, "/q/" + file_name(100))
        self.assertFalse(self.files.exists("/elsewhere"))


class OpenMappingsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.files = FakeEnvironment().files
        self.mappings = OpenMappings(self.files, 3)
        self.queue = FileQueue(self.files, "/q", 100)
        for base in range(0, 600, 100):
            self.queue.create_sparse(base)

    def open(self) -> list[int]:
        """The files that are mapped."""
        return [file.base for file in self.queue.files if file.view is not None]

    def test_opens_when_used(self) -> None:
        """A file is mapped when its content is asked for, once."""
        file = self.queue.files[0]
        self.assertIsNone(file.view)
        view = self.mappings.view(file)
        self.assertIs(self.mappings.view(file), view)
        self.assertEqual((len(view), len(self.files.mappings)), (100, 1))

    def test_longest_unused(self) -> None:
        """Of too many mappings the one unused for longest goes."""
        zero, one, two, three, four, _ = self.queue.files
        for file in (zero, one, two, zero, three):
            self.mappings.view(file)
        self.assertEqual(self.open(), [0, 200, 300])
        self.mappings.mapping(two)
        self.mappings.view(four)
        self.assertEqual(self.open(), [200, 300, 400])
        self.assertEqual(len(self.files.mappings), 3)

    def test_pins(self) -> None:
        """A pinned mapping stays, be there more of them than allowed; unpinned it goes in its turn."""
        for file in self.queue.files[:4]:
            self.mappings.pin(file)
        self.assertEqual(self.open(), [0, 100, 200, 300])
        self.mappings.unpin(self.queue.files[1])
        self.mappings.view(self.queue.files[4])
        self.assertEqual(self.open(), [0, 200, 300, 400])

    def test_close(self) -> None:
        """Closing gives the mapping up; asked again, the file is mapped anew, with what was written."""
        file = self.queue.files[0]
        self.mappings.view(file)[0] = 7
        self.mappings.close(file)
        self.mappings.close(file)
        self.assertEqual((file.view, self.files.mappings), (None, []))
        self.assertEqual(self.mappings.view(file)[0], 7)
        self.mappings.close_all()
        self.assertEqual((len(self.mappings), self.files.mappings), (0, []))
