"""C{smartgo cluster tidy}."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from smartgo.store.filecleaner import FileCleaner
from smartgo.store.retention import LogFile, Removal, RemovalReason, RetentionPlan
from tests.broker.fakecluster import BROKER
from tests.cli.case import ClusterCase


class TidyTests(ClusterCase):
    def setUp(self) -> None:
        """A broker with one file that may go."""
        super().setUp()
        changed = self.env.clock.wall_ms() - 80 * 3_600_000
        file = LogFile("/store/commitlog/00000000000000000000", 0, 1 << 20, changed)
        self.plan = RetentionPlan([Removal(file, RemovalReason.EXPIRED, "it is old")], "it is young")
        self.cleaned: list[bool] = []
        self.patch(FileCleaner, "plan", lambda cleaner: succeed(self.plan))
        self.patch(FileCleaner, "clean", self.clean)

    def clean(self, expired: bool = True) -> Deferred[None]:
        """Note it."""
        self.cleaned.append(expired)
        return succeed(None)

    def test_dry_run(self) -> None:
        """The files are shown with their reasons, and nothing is done."""
        (row,) = self.json("cluster", "tidy", "--dry-run")
        (file,) = row.pop("files")
        self.assertEqual(row, {"broker": "broker-a", "kept": "it is young"})
        self.assertLess(abs(file.pop("age_seconds") - 80 * 3600), 60)
        self.assertEqual(file, {"file": "0" * 20, "bytes": 1 << 20, "reason": "expired", "why": "it is old"})
        said = self.out("cluster", "tidy", "broker-a", "--dry-run")
        self.assertIn("it is old", said)
        self.assertIn("1 MiB", said)
        self.assertEqual(self.cleaned, [])

    def test_done(self) -> None:
        """After a confirmation the brokers are asked; by name or by address."""
        self.assertIn("--yes", self.invoke("cluster", "tidy", status=2).stderr)
        self.assertEqual(self.cleaned, [])
        self.out("cluster", "tidy", BROKER, "--yes")
        self.assertEqual(self.cleaned, [True])

    def test_nothing(self) -> None:
        """Where no file would go nobody is asked anything."""
        self.plan = RetentionPlan([], "it is young")
        self.assertIn("No file would be removed.", self.out("cluster", "tidy"))
        self.assertEqual(self.cleaned, [])
        self.refused("cluster", "tidy", "nobody", status=1)
