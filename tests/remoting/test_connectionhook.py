"""Tests of L{smartgo.remoting.connectionhook}."""

from __future__ import annotations

import gc
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.connections import AccessControl, ConnectionAccess
from smartgo.auth.plainacl import read_plain_acl
from smartgo.errors import AccessDenied
from smartgo.remoting.connectionhook import ConnectionHook, RequestCheck
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.command import Command, encode
from smartgo.schema.signature import AccessKey
from tests.remoting.doubles import Accepted, Doing, request


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

    def test_access_control(self) -> None:
        """Access control stops what is not allowed before its processor, with RocketMQ's code; answers stay encoded."""
        rules = read_plain_acl("accounts: [{accessKey: publisher, secretKey: secret-1, topicPerms: [t=PUB]}]")
        control = AccessControl(rules)
        hook = ConnectionHook(lambda peer: ConnectionAccess(control, "192.0.2.7").check)
        sends = Doing(310, lambda _, asked: encode(asked.answer()))
        accepted = Accepted([sends], [hook])
        made = []
        for opaque, topic, key in ((1, "t", ""), (2, "t", "publisher"), (3, "u", "publisher"), (4, "t", "publisher")):
            made.append(Command.request(310, fields={"b": topic}))
            made[-1].opaque = opaque
            if key:
                AccessKey(key, "secret-1").sign(made[-1])
        accepted.hear(*made, request(999, 5))
        self.assertEqual([one.opaque for one in sends.seen], [2, 4])
        self.assertEqual(
            [(one.opaque, one.code, one.remark) for one in accepted.answers()],
            [
                (1, 1, "No accessKey is configured"),
                (2, 0, None),
                (3, 1, "No permission for topic u: PUB is needed, defaultTopicPerm of accessKey=publisher gives DENY"),
                (4, 0, None),
                (5, 1, "request code 999 is not known to access control"),
            ],
        )

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
