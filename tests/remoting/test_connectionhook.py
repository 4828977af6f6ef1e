"""Tests of L{smartgo.remoting.connectionhook}."""

from __future__ import annotations

import gc
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import AccessDenied
from smartgo.remoting.connectionhook import ConnectionHook, RequestCheck
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.command import Command


class Peer:
    """A connection of which only the address counts."""

    def __init__(self, address: str) -> None:
        self.address = address


class ConnectionHookTests(SynchronousTestCase):
    """A check for each connection."""

    def setUp(self) -> None:
        """Refuse code 17 on each connection; remember what was asked."""
        self.made: list[str] = []
        self.asked: list[tuple[str, int]] = []
        self.hook = ConnectionHook(self.make)

    def make(self, peer: IPeer) -> RequestCheck:
        """Make the check of a connection."""
        address = peer.address
        self.made.append(address)

        def check(request: Command) -> None:
            self.asked.append((address, request.code))
            if request.code == 17:
                raise AccessDenied("no")

        return check

    def peer(self, address: str) -> Any:
        """Return a connection."""
        return cast(IPeer, Peer(address))

    def test_one_each(self) -> None:
        """Each connection gets one check, which is asked about each of its requests."""
        one, other = self.peer("a"), self.peer("b")
        for peer, code in ((one, 10), (other, 11), (one, 12)):
            self.hook.before(peer, Command.request(code))
        self.assertEqual(self.made, ["a", "b"])
        self.assertEqual(self.asked, [("a", 10), ("b", 11), ("a", 12)])

    def test_stops(self) -> None:
        """What the check raises stops the request, and later ones are asked about again."""
        one = self.peer("a")
        self.assertRaises(AccessDenied, self.hook.before, one, Command.request(17))
        self.assertRaises(AccessDenied, self.hook.before, one, Command.request(17))
        self.hook.before(one, Command.request(10))
        self.assertEqual(self.made, ["a"])

    def test_freed(self) -> None:
        """The check goes with its connection; a later connection in the same place in memory gets its own."""
        for _ in range(50):
            peer = self.peer("a")
            self.hook.before(peer, Command.request(10))
            self.assertEqual(len(self.hook), 1)
            del peer
            gc.collect()
            self.assertEqual(len(self.hook), 0)
        self.assertEqual(len(self.made), 50)
