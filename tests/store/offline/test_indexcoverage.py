"""Tests for L{smartgo.store.offline.indexcoverage}: messages that the index should lead to, and does not."""

from __future__ import annotations

from smartgo.schema.index import ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, Geometry, IndexHeader
from smartgo.store.offline.storecheck import StoreCheck
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, message, small

GEOMETRY = Geometry(20, 30)


class CoverageTests(StoreTestCase):
    """A store with 50 messages of one key or two, in three index files."""

    def setUp(self) -> None:
        """Make it, and close it."""
        self.env = FakeEnvironment()
        self.settings = small(index=True, index_geometry=GEOMETRY)
        store = self.opened(self.env, self.settings)
        for number in range(50):
            keys = b"\2KEYS\1odd" if number % 2 else b""
            self.send(store, message(body=b"%d" % number, properties=b"UNIQ_KEY\1u%d" % number + keys))
        self.close(store)

    def close(self, store: OpenStore) -> None:
        """Let the index come to its end, and close the store."""
        for _ in range(200):
            self.env.clock.advance(0.1)
        self.assertEqual(store.index_behind, 0)
        self.stopped(store)

    def found(self, env: FakeEnvironment | None = None) -> list[str]:
        """Return what the check says of messages without entries, each with its file."""
        files = (env or self.env).files
        findings = StoreCheck(files, ROOT, self.settings).run().findings
        return [f"{one.where} {one.what}" for one in findings if "without an entry" in one.what]

    def paths(self) -> list[str]:
        """Return the index files, the oldest first."""
        return [f"{ROOT}/index/{name}" for name in sorted(self.env.files.list(f"{ROOT}/index"))]

    def test_whole(self) -> None:
        """A whole index lacks nothing, and neither does that of a killed store."""
        self.assertEqual(len(self.paths()), 3)
        self.assertEqual(self.found(), [])
        store = self.opened(self.env, self.settings)
        self.send(store, message(properties=b"UNIQ_KEY\1last"))
        self.assertEqual(self.found(killed(self.env)), [])
        self.close(store)

    def test_overwritten(self) -> None:
        """An entry that was written over with its neighbour's bytes is missed."""
        path = self.paths()[1]
        data = self.env.files.files[path].data
        at = GEOMETRY.entry_at(FIRST_ENTRY + 5)
        data[at : at + ENTRY_SIZE - 4] = data[at + ENTRY_SIZE : at + 2 * ENTRY_SIZE - 4]
        (words,) = self.found()
        self.assertTrue(words.startswith(f"{path} 1 messages of the log have keys without an entry"), words)

    def test_cut(self) -> None:
        """Entries are missed that the header does not count, and those of a file that is gone."""
        _, middle, last = self.paths()
        data = self.env.files.files[last].data
        header = IndexHeader.unpack(bytes(data))
        data[:HEADER_SIZE] = header._replace(index_count=header.index_count - 3).pack()
        (words,) = self.found()
        self.assertTrue(words.startswith(last), words)
        count = int(words.split()[1])
        self.env.files.remove(middle)
        words = self.found()[-1]
        self.assertTrue(words.startswith(last), words)
        self.assertGreater(int(words.split()[1]), count + 10)
