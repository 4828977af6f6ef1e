"""Tests of L{smartgo.node.assembly}."""

from __future__ import annotations

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import Configuration
from smartgo.node.assembly import NodeService
from tests.fakes import FakeEnvironment


class NodeTests(SynchronousTestCase):
    """Services over one environment."""

    def logged(self, user: int) -> list[str]:
        """What is logged at the start of a process of this user."""
        node = NodeService(FakeEnvironment(), Configuration(), lambda: user)
        with capturedLogs() as events:
            node.startService()
        self.successResultOf(node.stopService())
        return [formatEvent(event) for event in events]

    def test_root(self) -> None:
        """A process that runs as root says so at its start, any other says nothing (reliability X15)."""
        self.assertEqual(
            self.logged(0), ["this process runs as root, which nothing here needs: give it a user of its own"]
        )
        self.assertEqual(self.logged(1000), [])
