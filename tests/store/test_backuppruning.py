"""Which old backups go."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.backuppruning import ABOUT, BackupAbout, BackupOptions, BackupPruning, outdated
from tests.fakes import FakeEnvironment

DAY_MS = 86_400_000


class OutdatedTests(SynchronousTestCase):
    def gone(self, **options: float) -> list[str]:
        """The names that go of five backups, one a day, the last one just now."""
        found = [BackupAbout(f"day-{day}", "/store", day * DAY_MS, 0) for day in (3, 1, 5, 2, 4)]
        wanted = BackupOptions(0, int(options.get("keep", 0)), options.get("age", 0.0))
        return outdated(found, found[2], wanted, 5 * DAY_MS)

    def test_all(self) -> None:
        """What either rule keeps stays; the newest always does."""
        self.assertEqual(self.gone(), [])
        self.assertEqual(self.gone(keep=2), ["day-1", "day-2", "day-3"])
        self.assertEqual(self.gone(keep=9), [])
        self.assertEqual(self.gone(age=2.5 * 86_400), ["day-1", "day-2"])
        self.assertEqual(self.gone(age=1.0), ["day-1", "day-2", "day-3", "day-4"])
        self.assertEqual(self.gone(keep=4, age=1.0), ["day-1"])
        self.assertEqual(self.gone(keep=1, age=3.5 * 86_400), ["day-1"])

    def test_portion(self) -> None:
        """What is copied before a pause follows the rate, within bounds."""
        self.assertEqual([BackupOptions(rate).portion >> 20 for rate in (0, 40 << 20, 1 << 40)], [64, 10, 64])
        self.assertEqual([BackupOptions(rate).portion for rate in (1, 64 << 10)], [4096, 16 << 10])

    def test_clock_ahead(self) -> None:
        """One that an older clock, which was ahead, has dated after the new one stays, and so does the new one."""
        old, ahead = BackupAbout("old", "/store", DAY_MS, 0), BackupAbout("ahead", "/store", 9 * DAY_MS, 0)
        new = BackupAbout("new", "/store", 5 * DAY_MS, 0)
        for options in (BackupOptions(keep=1), BackupOptions(keep_seconds=60.0)):
            self.assertEqual(outdated([old, new, ahead], new, options, 6 * DAY_MS), ["old"])


class PruningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.pruning = BackupPruning(self.env.files, self.env.clock)
        self.env.clock.advance(10 * 86_400.0)
        for day, name in enumerate(("one", "two", "three")):
            self.make(name, name, day)
        self.new = BackupAbout("three", "/store", self.env.clock.wall_ms(), 0)

    def make(self, directory: str, name: str, day: int) -> None:
        """Make the description of a backup that began so many days after the first one."""
        begun_ms = self.env.clock.wall_ms() - (2 - day) * DAY_MS
        self.env.files.make_directories(f"/backups/{directory}")
        about = msgspec.json.encode(BackupAbout(name, "/store", begun_ms, 0))
        self.env.files.create(f"/backups/{directory}/{ABOUT}", about)

    def prune(self, options: BackupOptions) -> list[str]:
        return self.pruning.prune("/backups", self.new, options)

    def test_renamed(self) -> None:
        """A copy that somebody set aside under another name is neither removed nor counted."""
        self.make("golden", "one", 0)
        self.assertEqual(self.prune(BackupOptions(keep=2)), ["one"])
        self.assertEqual(self.env.files.list("/backups"), ["golden", "three", "two"])

    def test_clock_set(self) -> None:
        """Ages are not believed where the clock was set since the store was opened; a count is."""
        self.assertTrue(self.pruning.believes_ages())
        self.env.clock.wall_offset_ms += 3650 * DAY_MS
        self.assertEqual(self.prune(BackupOptions(keep_seconds=30 * 86_400.0)), [])
        self.assertEqual(self.prune(BackupOptions(keep=2, keep_seconds=30 * 86_400.0)), [])
        self.assertEqual(self.prune(BackupOptions(keep=2)), ["one"])

    def test_stopped(self) -> None:
        """Nothing is removed after a stop."""
        self.pruning.stop()
        self.assertEqual(self.prune(BackupOptions(keep=1)), [])
