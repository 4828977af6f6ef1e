"""The command that has a broker copy its store."""

from __future__ import annotations

from tests.cli.case import ClusterCase


class BackupTests(ClusterCase):
    def test_backup(self) -> None:
        """It waits for the end, and says where the backup is; the name is the time by default."""
        self.assertIn("No backup", self.out("cluster", "backup", "broker-a", "--show"))
        self.cluster.send("Orders", b"body")
        found = self.json("cluster", "backup", "broker-a")
        self.assertEqual((found["state"], found["name"][8]), ("done", "T"))
        self.assertTrue(self.env.files.exists(f"{found['directory']}/smartgo.backup.json"))
        words = self.out("cluster", "backup", "broker-a", "before-upgrade")
        self.assertIn("before-upgrade", words)
        self.assertIn("hard link", words)
        self.assertIn("done", self.out("cluster", "backup", "broker-a", "--show"))
        self.assertIn("there is a backup", self.refused("cluster", "backup", "broker-a", "before-upgrade", status=1))
        self.assertEqual(self.json("store", "verify", found["directory"])["damaged"], False)

    def test_cancel(self) -> None:
        """The backup that runs is ended; where none runs that is said."""
        self.assertIn("no backup is running", self.refused("cluster", "backup", "broker-a", "--cancel", status=1))

    def test_options(self) -> None:
        """Rate and the number of backups to keep are taken, and what was removed is said."""
        self.cluster.send("Orders", b"body")
        self.out("cluster", "backup", "broker-a", "first", "--rate", "50M")
        self.cluster.pump(10.0)
        found = self.json("cluster", "backup", "broker-a", "second", "--keep", "1")
        self.assertEqual((found["removed"], found["done"]), (["first"], found["size"]))
        self.invoke("cluster", "backup", "broker-a", "third", "--rate", "fast", status=2)
        self.invoke("cluster", "backup", "broker-a", "third", "--keep-age", "fast", status=2)
