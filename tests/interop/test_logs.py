"""Commit logs compared as they lie on disk."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.logs import Difference, compare, digest, log_end

SIZE = 4096


class CompareTests(SynchronousTestCase):
    """Stores of small files."""

    def store(self, files: dict[int, bytes]) -> str:
        """Make a store with these log files, filled up with zeros."""
        root: str = self.mktemp()
        os.makedirs(os.path.join(root, "commitlog"))
        for start, content in files.items():
            with open(os.path.join(root, "commitlog", f"{start:020d}"), "wb") as file:
                file.write(content.ljust(SIZE, b"\0"))
        return root

    def test_equal(self) -> None:
        """Logs with the same bytes are equal, whatever files lie ready behind their end."""
        full, tail = b"a" * SIZE, b"b" * 100
        one = self.store({0: full, SIZE: tail})
        other = self.store({0: full, SIZE: tail, 2 * SIZE: b""})
        self.assertEqual(compare(one, other), Difference(0, SIZE + 100, -1))

    def test_later_begin(self) -> None:
        """They are compared from the first byte that both have."""
        full, tail = b"a" * SIZE, b"b" * 100
        one = self.store({0: full, SIZE: tail})
        self.assertEqual(compare(one, self.store({SIZE: tail})), Difference(SIZE, SIZE + 100, -1))

    def test_difference(self) -> None:
        """The first byte that differs is found wherever it lies."""
        full = b"a" * SIZE
        one = self.store({0: full, SIZE: b"b" * 100})
        for at in (0, 1, SIZE - 1, SIZE, SIZE + 99):
            content = bytearray(full + b"b" * 100)
            content[at] ^= 1
            other = self.store({0: bytes(content[:SIZE]), SIZE: bytes(content[SIZE:])})
            self.assertEqual(compare(one, other).at, at)

    def test_shorter(self) -> None:
        """A log that ends earlier differs where it ends, also where a whole file is absent."""
        one = self.store({0: b"a" * SIZE, SIZE: b"b" * 100})
        self.assertEqual(compare(one, self.store({0: b"a" * SIZE, SIZE: b"b" * 60})).at, SIZE + 60)
        self.assertEqual(compare(one, self.store({0: b"a" * SIZE})), Difference(0, SIZE + 100, SIZE))

    def test_end(self) -> None:
        """The end lies behind the last byte that is not zero; that of an empty log is its begin."""
        self.assertEqual(log_end(self.store({SIZE: b"a\0\0a", 2 * SIZE: b""})), SIZE + 4)
        self.assertEqual(log_end(self.store({SIZE: b""})), SIZE)

    def test_digest(self) -> None:
        """The digest changes with any byte, and not with files that lie ready."""
        one = self.store({0: b"a" * SIZE, SIZE: b"b"})
        self.assertEqual(digest(one), digest(self.store({0: b"a" * SIZE, SIZE: b"b", 2 * SIZE: b""})))
        for other in ({0: b"a" * SIZE, SIZE: b"c"}, {0: b"a" * SIZE}, {0: b"a" * SIZE, SIZE: b"bb"}):
            self.assertNotEqual(digest(one), digest(self.store(other)))

    def test_none(self) -> None:
        """A store without a log cannot be compared."""
        self.assertRaises(FileNotFoundError, log_end, self.store({}))
