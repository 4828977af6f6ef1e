"""Tests of L{smartgo.store.pagereads}."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.pagereads import PAGE, TolerantFiles, is_unreadable, read_pages
from tests.fakes import FakeEnvironment

PATH = "/file"


class PageTests(SynchronousTestCase):
    """Reads of a file of three pages and a half, of which the second cannot be read."""

    def setUp(self) -> None:
        self.files = FakeEnvironment().files
        self.data = bytes(range(256)) * 56
        self.files.append(PATH, self.data)
        self.error = errno.EIO
        self.asked: list[tuple[int, int]] = []
        read_at = self.files.read_at

        def failing(path: str, offset: int, size: int) -> bytes:
            self.asked.append((offset, size))
            if offset < 2 * PAGE and offset + size > PAGE:
                raise OSError(self.error, "cannot be read")
            return bytes(read_at(path, offset, size))

        self.patch(self.files, "read_at", failing)
        self.tolerant = TolerantFiles(self.files)

    def test_zeros(self) -> None:
        """What cannot be read is zeros, page by page; all else is there, wherever the range begins and ends."""
        expected = bytearray(self.data)
        expected[PAGE : 2 * PAGE] = bytes(PAGE)
        for begin, end in ((0, 3 * PAGE), (PAGE - 1, PAGE + 1), (PAGE + 7, 2 * PAGE + 7), (5, 1 << 20)):
            found = self.tolerant.read_at(PATH, begin, end - begin)
            self.assertEqual(found, bytes(expected[begin:end]), begin)

    def test_told(self) -> None:
        """Of a range that was read it is told whether it has such a page; that page is not asked for again."""
        self.assertEqual(self.tolerant.unreadable(PATH, 0, 3 * PAGE), "")
        self.tolerant.read_at(PATH, 0, 3 * PAGE)
        for begin, end, told in ((0, PAGE, False), (PAGE - 1, PAGE + 1, True), (2 * PAGE, 3 * PAGE, False)):
            self.assertEqual(bool(self.tolerant.unreadable(PATH, begin, end)), told)
        self.asked.clear()
        self.tolerant.read_at(PATH, PAGE - 1, PAGE + 2)
        self.assertEqual(self.asked, [(PAGE - 1, PAGE + 2), (PAGE - 1, 1), (2 * PAGE, 1)])

    def test_at_once(self) -> None:
        """A range that can be read is read at once."""
        self.assertEqual(self.tolerant.read_at(PATH, 2 * PAGE, PAGE + 5), self.data[2 * PAGE : 3 * PAGE + 5])
        self.assertEqual(self.asked, [(2 * PAGE, PAGE + 5)])

    def test_other_errors(self) -> None:
        """An error that does not tell of a faulty disk is raised."""
        self.error = errno.EMFILE
        self.assertRaises(OSError, self.tolerant.read_at, PATH, 0, 3 * PAGE)
        self.assertFalse(is_unreadable(OSError(errno.EMFILE, "")))
        for number in (errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA, errno.EREMOTEIO):
            self.assertTrue(is_unreadable(OSError(number, "")))

    def test_pages(self) -> None:
        """No piece that is asked for lies in two pages."""
        asked: list[tuple[int, int]] = []
        read_pages(lambda at, size: asked.append((at, size)), 10, 2 * PAGE + 10)
        self.assertEqual(asked, [(10, PAGE - 10), (PAGE, PAGE), (2 * PAGE, 10)])
