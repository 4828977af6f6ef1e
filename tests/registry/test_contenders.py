"""Masters that claim a name which another one has."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.registry.contenders import FRESH, LIMIT, Contenders


class _Connection:
    """A connection."""

    open = True


class ContendersTests(SynchronousTestCase):
    """Who is told as a contender, and for how long."""

    def setUp(self) -> None:
        """Begin without any."""
        self.clock = Clock()
        self.contenders = Contenders(self.clock.seconds)
        self.peer = _Connection()

    def refuse(self, name: str, address: str) -> None:
        """Refuse a master."""
        self.contenders.refused(name, address, cast(Any, self.peer))

    def test_repeated(self) -> None:
        """One that repeats its claim stays; one that does not is forgotten."""
        self.refuse("a", "10.0.0.2:1")
        self.refuse("a", "10.0.0.1:1")
        self.refuse("b", "10.0.0.3:1")
        self.assertEqual(self.contenders.addresses(), {"a": ["10.0.0.1:1", "10.0.0.2:1"], "b": ["10.0.0.3:1"]})
        self.clock.advance(FRESH)
        self.refuse("a", "10.0.0.1:1")
        self.clock.advance(1)
        self.assertEqual(self.contenders.addresses(), {"a": ["10.0.0.1:1"]})

    def test_ends(self) -> None:
        """One that is admitted, or whose connection ends, is none any more."""
        self.refuse("a", "10.0.0.1:1")
        self.contenders.admitted("a", "10.0.0.1:1")
        self.assertEqual(self.contenders.addresses(), {})
        self.refuse("a", "10.0.0.1:1")
        self.peer.open = False
        self.assertEqual(self.contenders.addresses(), {})

    def test_limit(self) -> None:
        """Of too many the latest are remembered."""
        for number in range(LIMIT + 5):
            self.refuse("a", f"10.0.0.1:{1000 + number}")
        found = self.contenders.addresses()["a"]
        self.assertEqual((len(found), found[0]), (LIMIT, "10.0.0.1:1005"))
