"""Tests of L{smartgo.store.recovery.damagefinder}, through a store."""

from __future__ import annotations

from smartgo.schema import regions
from smartgo.schema.record import HEAD_SIZE
from smartgo.schema.regions import Region
from smartgo.store.recovery import damagefinder
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, message, small


class ListedTests(StoreTestCase):
    """Regions of the list when a store is opened."""

    SETTINGS = small(log_file_size=1 << 14)

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        store = self.opened(self.env, self.SETTINGS)
        self.offsets = self.send(store, *[message(body=b"%d" % number * 20) for number in range(30)])
        self.stopped(store)
        self.log = self.env.files.files[f"{ROOT}/commitlog/{0:020d}"]

    def flip(self, *numbers: int) -> None:
        """Flip a bit of the body of each of these messages."""
        for number in numbers:
            self.log.data[self.offsets[number] + HEAD_SIZE] ^= 1

    def missing(self) -> list[int]:
        """The queue offsets of the messages that a store that is opened now does not deliver."""
        store = self.opened(self.env, self.SETTINGS)
        found = {one.queue_offset for one in self.read_all(store)}
        self.stopped(store)
        return [number for number in range(30) if number not in found]

    def listed(self) -> list[Region]:
        """The list in the store's directory."""
        return regions.decode(self.env.files.read(f"{ROOT}/{regions.PATH}"))

    def test_put_right(self) -> None:
        """What was put right is delivered, however many regions are damaged; the others are found again."""
        for most in (1000, 3, 0):
            self.patch(damagefinder, "_MOST_TRIED", most)
            self.flip(*range(2, 12))
            self.assertEqual(self.missing(), list(range(2, 12)))
            self.flip(*range(2, 12, 2))
            self.assertEqual(self.missing(), list(range(3, 12, 2)))
            self.assertEqual([one.queue_offset for one in self.listed()], list(range(3, 12, 2)))
            self.flip(*range(3, 12, 2))
            self.assertEqual((self.missing(), self.listed()), ([], []))

    def test_part(self) -> None:
        """Of a region that holds several records, those that were put right are delivered."""
        self.flip(3, 5)
        self.assertEqual(self.missing(), [3, 5])
        begin, end = self.offsets[3], self.offsets[6]
        self.env.files.replace(f"{ROOT}/{regions.PATH}", regions.encode([Region(begin, end - begin, "bad")]), False)
        self.assertEqual(self.missing(), [3, 5])
        self.assertEqual(
            [(one.offset, one.end) for one in self.listed()],
            [(self.offsets[number], self.offsets[number + 1]) for number in (3, 5)],
        )
