"""Which old backups go."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.backuppruning import BackupAbout, BackupOptions, outdated

DAY_MS = 86_400_000


class OutdatedTests(SynchronousTestCase):
    def gone(self, **options: float) -> list[str]:
        """The names that go of five backups, one a day, the last one just now."""
        found = [BackupAbout(f"day-{day}", "/store", day * DAY_MS, 0) for day in (3, 1, 5, 2, 4)]
        return outdated(found, BackupOptions(0, int(options.get("keep", 0)), options.get("age", 0.0)), 5 * DAY_MS)

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
        self.assertEqual([BackupOptions(rate).portion >> 20 for rate in (0, 1, 40 << 20, 1 << 40)], [64, 4, 10, 64])
