"""Limits of connections, as the settings give them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.settings import LimitsConfig
from smartgo.net.limits import SERVER
from smartgo.node.process import server_limits


class ServerLimitsTests(SynchronousTestCase):
    """Settings become limits."""

    def test_defaults(self) -> None:
        """Without settings the limits are those of the remoting layer."""
        self.assertEqual(server_limits(LimitsConfig(), SERVER.idle), SERVER)

    def test_given(self) -> None:
        """The pace of a frame and the time for what is unsent can be set."""
        limits = server_limits(LimitsConfig(frame_timeout=5.0, frame_minimum_rate=10, unsent_timeout=7.0), 3.0)
        self.assertEqual((limits.partial, limits.partial_rate, limits.unsent_seconds, limits.idle), (5.0, 10, 7.0, 3.0))
