"""The table of HTTP connections: who is let in, who gives way (reliability L22)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.web.connections import ConnectionTable, HttpLimits


class CountedConnection:
    """One connection for the table."""

    def __init__(self, served: bool = False, begun: bool = False) -> None:
        self.is_served = served
        self.has_begun = begun
        self.ended = False

    def abort(self) -> None:
        """Note it."""
        self.ended = True


class TableTests(SynchronousTestCase):
    """Which connections there may be."""

    def setUp(self) -> None:
        self.table = ConnectionTable(HttpLimits(connections=6, per_address=4, proxies=("10.0.0.9",)))

    def admit(self, count: int, address: str, **state: bool) -> list[CountedConnection]:
        """Let some connections in."""
        found = [CountedConnection(**state) for _ in range(count)]
        for one in found:
            self.assertTrue(self.table.admit(one, address))
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
        self.assertFalse(self.table.admit(CountedConnection(), "10.0.0.1"))
        self.assertTrue(self.table.admit(CountedConnection(), "10.0.0.2"))

    def test_full(self) -> None:
        """Where there are too many in all, the address gives way that has most."""
        few = self.admit(2, "10.0.0.1")
        many = self.admit(4, "10.0.0.2")
        self.admit(1, "10.0.0.3")
        self.assertEqual([one.ended for one in few + many], [False, False, True, False, False, False])
        for one in [*few, *many]:
            one.is_served = True
        self.admit(1, "10.0.0.4")
        self.assertEqual(len(self.table), 6)

    def test_proxy(self) -> None:
        """A trusted proxy, which asks for many, may have all; what is over makes room."""
        found = self.admit(6, "10.0.0.9", served=True)
        self.assertFalse(self.table.admit(CountedConnection(), "10.0.0.1"))
        for one in found:
            self.table.discard(one)
            self.table.discard(one)
        self.assertEqual(len(self.table), 0)
        self.admit(1, "10.0.0.1")
