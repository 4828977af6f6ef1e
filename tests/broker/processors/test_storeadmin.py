"""Requests of administrators about the store as a whole, against a broker in memory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.bodies import BackupReport
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import Cluster


class StoreAdminTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def ask(self, **fields: str) -> Command:
        """30003."""
        return self.cluster.ask(Command.request(RequestCode.BACKUP_STORE, fields=fields))

    def test_backup(self) -> None:
        """30003 begins a backup, and without a name tells how the last one went."""
        self.assertEqual(BackupReport.decode(self.ask().body), BackupReport())
        self.cluster.send("T", b"body")
        begun = BackupReport.decode(self.ask(name="one").body)
        self.assertEqual((begun.name, begun.state in ("running", "done")), ("one", True))
        self.cluster.pump(5.0)
        ended = BackupReport.decode(self.ask().body)
        self.assertEqual((ended.name, ended.state, ended.error), ("one", "done", ""))
        self.assertGreater(ended.end, 0)
        self.assertTrue(self.cluster.env.files.exists(f"{ended.directory}/smartgo.backup.json"))

    def test_refused(self) -> None:
        """A name that leads elsewhere is refused."""
        answer = self.ask(name="../../etc")
        self.assertEqual(answer.code, 1)
        self.assertIn("letters, digits", answer.remark or "")
