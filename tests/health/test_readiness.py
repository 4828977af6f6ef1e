"""Readiness: the parts that keep a process from serving."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.readiness import PartState, part_state, store_state


class ReadinessTests(SynchronousTestCase):
    """Each part by itself."""

    def test_parts(self) -> None:
        """A part serves once it has started; one that could not start says why."""
        self.assertEqual(part_state("broker", True, None), PartState("broker", True, "serves"))
        self.assertEqual(part_state("broker", False, None), PartState("broker", False, "starts"))
        self.assertEqual(part_state("broker", False, "no disk"), PartState("broker", False, "no disk"))

    def test_store(self) -> None:
        """A store that refuses messages keeps the process from serving, and gives its reason."""
        self.assertEqual(store_state(None), PartState("store", True, "takes messages"))
        self.assertEqual(store_state("disk full"), PartState("store", False, "disk full"))
