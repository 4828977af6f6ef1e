"""The origin of a connection."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.remoting.origin import is_local
from smartgo.schema.address import is_loopback
from tests.broker.doubles import FakePeer


class OriginTests(SynchronousTestCase):
    """Clients on this machine, and others."""

    def test_local(self) -> None:
        """Loopback addresses are this machine, and so is the address that was dialled."""
        local = ("127.9.9.9:1", "[::1]:5", "192.0.2.1:5")
        self.assertEqual([is_local(FakePeer(address)) for address in local], [True] * 3)
        self.assertEqual([is_local(FakePeer(address)) for address in ("[2001:db8::1]:5", "192.0.2.2:5")], [False] * 2)

    def test_dialled_by_us(self) -> None:
        """A connection that we dialled has no address that was dialled: it is not on this machine for that."""
        peer = FakePeer("192.0.2.1:5")
        peer.local_ip = ""
        self.assertFalse(is_local(peer))

    def test_loopback(self) -> None:
        """IPv4 addresses written as IPv6 ones count as what they are; a name is no address."""
        found = [is_loopback(ip) for ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "192.0.2.1", "localhost", "")]
        self.assertEqual(found, [True, True, True, False, False, False])
