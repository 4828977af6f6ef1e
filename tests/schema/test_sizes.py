"""Numbers of bytes as text."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.sizes import size_text


class SizeTests(SynchronousTestCase):
    """What people read."""

    def test_units(self) -> None:
        """The largest unit of which there is one at least, with four digits."""
        cases = {0: "0 B", 1023: "1023 B", 2048: "2 KiB", 996_519_936: "950.4 MiB", 1 << 30: "1 GiB", 5 << 40: "5 TiB"}
        self.assertEqual({count: size_text(count) for count in cases}, cases)
