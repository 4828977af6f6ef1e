"""Admission of links: which are let in, and which give way (reliability L8, L22)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.admission import EvictingAdmission, RefusingAdmission
from smartgo.net.limits import Limits
from smartgo.net.session import NullSession


class Served(NullSession):
    """A session that is busy, or has begun to read a request, when a test says so."""

    def __init__(self, served: bool, begun: bool) -> None:
        self.is_served = served
        self.pending = int(begun)

    def busy(self) -> bool:
        """Return what the test says."""
        return self.is_served


class AdmittedLink:
    """One link that was let in."""

    def __init__(self, served: bool = False, begun: bool = False) -> None:
        self.session = Served(served, begun)
        self.ended = False

    def abort(self) -> None:
        """Note it."""
        self.ended = True


class EvictingTests(SynchronousTestCase):
    """A new link takes the place of one that does nothing."""

    def setUp(self) -> None:
        self.table = EvictingAdmission(Limits(connections=6, per_address=4), ("10.0.0.9",))

    def admit(self, count: int, address: str, **state: bool) -> list[AdmittedLink]:
        """Let some connections in."""
        found = [AdmittedLink(**state) for _ in range(count)]
        for one in found:
            self.assertTrue(self.table.admit(address))
            self.table.add(one, address)
        return found

    def test_share(self) -> None:
        """An address that has its share loses its own oldest silent connection, whatever its port or IPv6 address."""
        others = self.admit(1, "10.0.0.1")
        mine = self.admit(4, "2001:db8::1")
        self.table.used(mine[0])
        self.admit(1, "2001:db8::2")
        self.assertEqual([one.ended for one in others + mine], [False, False, True, False, False])
        self.assertEqual(len(self.table), 5)

    def test_begun(self) -> None:
        """Those that have begun a request give way after those that have not, those that are served never."""
        served = self.admit(2, "10.0.0.1", served=True)
        begun = self.admit(1, "10.0.0.1", begun=True)
        silent = self.admit(1, "10.0.0.1")
        self.admit(1, "10.0.0.1", served=True)
        self.assertEqual([one.ended for one in (*served, *begun, *silent)], [False, False, False, True])
        self.admit(1, "10.0.0.1", served=True)
        self.assertTrue(begun[0].ended)
        self.assertFalse(self.table.admit("10.0.0.1"))
        self.assertTrue(self.table.admit("10.0.0.2"))

    def test_full(self) -> None:
        """Where there are too many in all, the address gives way that has most."""
        few = self.admit(2, "10.0.0.1")
        many = self.admit(4, "10.0.0.2")
        self.admit(1, "10.0.0.3")
        self.assertEqual([one.ended for one in few + many], [False, False, True, False, False, False])
        for one in [*few, *many]:
            one.session.is_served = True
        self.admit(1, "10.0.0.4")
        self.assertEqual(len(self.table), 6)

    def test_proxy(self) -> None:
        """A trusted proxy, which asks for many, may have all; what is over makes room."""
        found = self.admit(6, "10.0.0.9", served=True)
        self.assertFalse(self.table.admit("10.0.0.1"))
        for one in found:
            self.table.discard(one)
            self.table.discard(one)
        self.assertEqual(len(self.table), 0)
        self.admit(1, "10.0.0.1")


class RefusingTests(SynchronousTestCase):
    """A new link is refused where there are too many."""

    def test_limits(self) -> None:
        """There is a limit in all, and one of each address but those of this machine; who is gone makes room."""
        admission = RefusingAdmission(Limits(connections=4, per_address=2))
        links = [AdmittedLink() for _ in range(4)]
        for link, ip in zip(links[:2], ("10.0.0.1", "10.0.0.1"), strict=True):
            self.assertTrue(admission.admit(ip))
            admission.add(link, ip)
        self.assertEqual([admission.admit(ip) for ip in ("10.0.0.1", "10.0.0.2")], [False, True])
        admission.discard(links[0])
        admission.discard(links[0])
        self.assertTrue(admission.admit("10.0.0.1"))
        for link in (links[0], *links[2:]):
            self.assertTrue(admission.admit("127.0.0.1"))
            admission.add(link, "127.0.0.1")
        self.assertEqual([admission.admit(ip) for ip in ("127.0.0.1", "10.0.0.2")], [False, False])
        self.assertFalse(any(link.ended for link in links))
