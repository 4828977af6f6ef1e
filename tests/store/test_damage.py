"""Tests of L{smartgo.store.damage}: the table of damaged regions."""

from __future__ import annotations

from random import Random

from twisted.logger import capturedLogs
from twisted.trial.unittest import TestCase

from smartgo.schema.regions import UNREADABLE, Region
from smartgo.store.damage import DamageTable, RegionIndex


class DamageTableTests(TestCase):
    def setUp(self) -> None:
        self.changes = 0

    def changed(self) -> None:
        """Count a change."""
        self.changes += 1

    def table(self, *known: tuple[int, int]) -> DamageTable:
        """A table with regions, each given as its begin and end."""
        return DamageTable([Region(begin, end - begin) for begin, end in known], self.changed)

    def places(self, table: DamageTable) -> list[tuple[int, int]]:
        """The begins and ends of all regions."""
        return [(region.offset, region.end) for region in table.regions]

    def test_longer(self) -> None:
        """Damage that has grown since it was found is entered whole, once."""
        for new in ((100, 300), (50, 300), (50, 200), (150, 250)):
            table = self.table((100, 200))
            with capturedLogs() as logs:
                table.add([Region(new[0], new[1] - new[0], "bad")])
                table.add([Region(new[0], new[1] - new[0], "bad")])
            self.assertEqual(self.places(table), [(min(100, new[0]), max(200, new[1]))])
            self.assertEqual((table.end, table.found, len(logs)), (max(200, new[1]), 1, 1))

    def test_covered(self) -> None:
        """What lies in a known region changes nothing."""
        table = self.table((100, 200))
        table.add([Region(100, 100, "other"), Region(120, 10)])
        self.assertEqual((self.places(table), table.found, self.changes), ([(100, 200)], 0, 0))

    def test_neighbours(self) -> None:
        """Regions side by side stay apart, so that each names its message; parts that the disk cannot read do not."""
        table = self.table((100, 200), (300, 400))
        table.add([Region(200, 100, "bad", "T", 0, 7)])
        self.assertEqual(self.places(table), [(100, 200), (200, 300), (300, 400)])
        self.assertEqual(table.regions[1].queue_offset, 7)
        reason = f"{UNREADABLE}: EIO"
        table = self.table()
        for begin, end, why in ((100, 200, reason), (400, 500, "bad"), (300, 400, reason), (200, 300, reason)):
            table.add([Region(begin, end - begin, why)])
        table.add([Region(500, 100, reason, "T", 0, 7)])
        self.assertEqual(self.places(table), [(100, 500), (500, 600)])
        self.assertEqual(table.regions[0].reason, reason)

    def test_union(self) -> None:
        """A union with a part that could not be read is tried by the next start; a whole region keeps its name."""
        table = DamageTable([Region(100, 100, f"{UNREADABLE}: EIO")], self.changed)
        table.add([Region(150, 100, "bad", "T", 1, 5)])
        self.assertEqual(table.regions, [Region(100, 150, f"{UNREADABLE}: EIO")])
        table = self.table((120, 130), (140, 150))
        table.add([Region(100, 100, "bad", "T", 1, 5)])
        self.assertEqual(table.regions, [Region(100, 100, "bad", "T", 1, 5)])

    def test_found(self) -> None:
        """A region is found by any place in it, the first of several that overlap, and the next one behind a place."""
        random = Random(5)
        for _ in range(200):
            regions = sorted(
                (Region(random.randrange(60), random.randrange(1, 25)) for _ in range(random.randrange(6))),
                key=lambda one: one.offset,
            )
            known = RegionIndex(regions)
            for place in range(90):
                first = next((one for one in regions if one.offset <= place < one.end), None)
                self.assertEqual(known.at(place), first)
                self.assertEqual(known.next_after(place), next((one for one in regions if one.offset > place), None))

    def test_overlapping_list(self) -> None:
        """A list of a former start may hold regions that overlap."""
        table = self.table((100, 200), (50, 300), (250, 350), (400, 500))
        self.assertEqual(self.places(table), [(50, 350), (400, 500)])

    def test_any(self) -> None:
        """The table answers as a set of damaged bytes does, whatever is added and in which order."""
        for seed in range(60):
            random = Random(seed)
            table = self.table()
            damaged: set[int] = set()
            for _ in range(30):
                begin = random.randrange(120)
                length = random.choice((1, 2, 5, 20, 60))
                reason = random.choice(("bad", f"{UNREADABLE}: EIO"))
                table.add([Region(begin, length, reason)])
                damaged.update(range(begin, begin + length))
                self.assertEqual([one for one in range(200) if table.holds(one)], sorted(damaged), seed)
                self.assertEqual((table.end, table.size), (max(damaged) + 1, len(damaged)), seed)
                first = random.randrange(180)
                last = first + random.randrange(1, 20)
                touched = not damaged.isdisjoint(range(first, last))
                self.assertEqual(table.touches(first, last), touched, seed)
                self.assertEqual(bool(table.between(first, last)), touched, seed)
            places = self.places(table)
            self.assertEqual(places, sorted(places), seed)
