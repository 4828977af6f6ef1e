"""Tests of L{smartgo.cli.support.session}."""

from __future__ import annotations

from tests.broker.fakecluster import BROKER
from tests.cli.case import ClusterCase


class RegistryAddressTests(ClusterCase):
    def test_broker(self) -> None:
        """A broker's address in place of a registry's is named as such."""
        for words in (("topic", "ls"), ("send", "T", "x"), ("group", "ls"), ("cluster", "ls")):
            said = self.refused(*words, "-r", BROKER, status=69)
            self.assertIn(f"{BROKER} is a broker, not a registry; give the address of a registry", said)

    def test_registry(self) -> None:
        """A request that a broker does not support keeps its own sentence."""
        said = self.refused("cluster", "clean", "log", "broker-a", "--yes", status=69)
        self.assertNotIn("not a registry", said)
