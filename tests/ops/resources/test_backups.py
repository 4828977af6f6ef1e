"""Backups by the REST API."""

from __future__ import annotations

from tests.ops.resources.test_cluster import ClusterCase


class BackupTests(ClusterCase):
    def test_backup(self) -> None:
        """One is begun, and is shown when it has ended; a bad name and an unknown broker are refused."""
        self.assertEqual(self.get("/brokers/broker-a/backup")["state"], "")
        status, begun = self.order("POST", "/brokers/broker-a/backup", {"name": "one"})
        self.assertEqual((status, begun["name"]), (200, "one"))
        self.front.cluster.pump(5.0)
        found = self.get("/brokers/broker-a/backup")
        self.assertEqual((found["state"], found["error"]), ("done", ""))
        self.assertTrue(found["directory"].endswith("/backups/one"))
        self.assertEqual(self.order("POST", "/brokers/broker-a/backup", {"name": "../x"})[0], 400)
        self.assertGreaterEqual(self.order("POST", "/brokers/broker-a/backup", {"name": "one"})[0], 400)
        self.assertEqual(self.order("GET", "/brokers/nobody/backup")[0], 404)

    def test_cancel(self) -> None:
        """One that runs is cancelled; where none runs nothing happens."""
        self.assertEqual(self.order("DELETE", "/brokers/broker-a/backup")[1]["state"], "")
        threads = self.front.cluster.env.threads
        threads.held.add("backup")
        self.order("POST", "/brokers/broker-a/backup", {"name": "one"})
        status, found = self.order("DELETE", "/brokers/broker-a/backup")
        self.assertEqual((status, found["state"]), (200, "running"))
        threads.held.clear()
        threads.release("backup")
        self.front.cluster.pump(5.0)
        found = self.get("/brokers/broker-a/backup")
        self.assertEqual((found["state"], found["error"]), ("cancelled", ""))

    def test_keep(self) -> None:
        """Older backups go if the order says so, and the answer names them."""
        for name, keep in (("one", 0), ("two", 1)):
            order = {"name": name, "rateBytes": 1 << 20, "keep": keep, "keepSeconds": 0}
            self.assertEqual(self.order("POST", "/brokers/broker-a/backup", order)[0], 200)
            self.front.cluster.pump(10.0)
        found = self.get("/brokers/broker-a/backup")
        self.assertEqual((found["state"], found["removed"], found["done"]), ("done", ["one"], found["size"]))
