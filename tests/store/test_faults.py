"""Some cases of L{tests.store.faults}; its command runs as many as are asked for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import logcheck
from smartgo.store import verifiedlog
from tests.store.faults import run


class FaultTests(SynchronousTestCase):
    def test_flipped_bits(self) -> None:
        """One flipped bit in any file costs one message at most, and delivers none that is wrong (F6)."""
        self.patch(verifiedlog, "REGION", 1024)
        self.patch(logcheck, "CHUNK", 512)
        result = run("flips", 120)
        self.assertEqual(result.wrong, [])
        self.assertGreater(result.missing[1], 10)
        self.assertEqual(
            set(result.by_file) & {"commitlog", "consumequeue", "index"}, {"commitlog", "consumequeue", "index"}
        )

    def test_power_failures(self) -> None:
        """Whatever part of the unflushed sectors survives, what was flushed is there, and nothing torn (F4)."""
        result = run("power", 120)
        self.assertEqual(result.wrong, [])
        self.assertGreater(len(result.missing), 3)
