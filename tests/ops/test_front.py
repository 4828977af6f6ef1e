"""What every request meets: limits, problem bodies, headers, routing."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.ops.front import Front


class FrontTests(SynchronousTestCase):
    """The HTTP front."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def test_health(self) -> None:
        """Anybody may ask whether the process is there."""
        self.assertEqual(self.front.get("/health"), {"status": "up"})
