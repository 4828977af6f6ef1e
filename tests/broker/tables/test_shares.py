"""Limits that many share."""

from __future__ import annotations

from random import Random
from socket import AF_INET6, inet_ntop

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.shares import Shares, source_of
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="smartgo.broker.tables.shares"):
    """The examples in its docstrings."""


class SharesTests(SynchronousTestCase):
    """One limit, shared by many."""

    def fill(self, table: Shares, source: str) -> int:
        """Take entries one by one until there are no more."""
        count = 0
        while table.take(source):
            count += 1
        return count

    def test_one(self) -> None:
        """One alone gets half, the next half of what is left, and whoever comes then finds room still."""
        table = Shares(lambda: 1000)
        self.assertEqual([self.fill(table, name) for name in "abcd"], [500, 250, 125, 63])
        self.assertEqual(table.total, 938)
        self.assertTrue(table.take("e"))

    def test_side_by_side(self) -> None:
        """Those who fill it at the same time get the same."""
        table = Shares(lambda: 1000)
        while any([table.take("a"), table.take("b")]):
            pass
        self.assertEqual((table.of("a"), table.of("b")), (334, 333))

    def test_smallest(self) -> None:
        """A limit of one lets one in."""
        table = Shares(lambda: 1)
        self.assertEqual([table.take("a"), table.take("a"), table.take("b")], [True, False, False])
        table.give_back("a")
        self.assertTrue(table.take("b"))

    def test_all_or_none(self) -> None:
        """Many at once are taken as one by one, or not at all."""
        random = Random(5)
        for _ in range(300):
            limit, before, count = random.randrange(40), random.randrange(20), random.randrange(1, 20)
            together, single = Shares(limit.__int__), Shares(limit.__int__)
            for table in together, single:
                for _ in range(before):
                    table.take("a")
                table.take("b")
            fits = all(single.take("a") for _ in range(count))
            self.assertEqual(together.room("a") >= count, fits, (limit, before, count))
            self.assertEqual(together.take("a", count), fits, (limit, before, count))
            if not fits:
                self.assertLessEqual(together.of("a"), before)

    def test_given_back(self) -> None:
        """What is given back is free for all; nothing is left of who has nothing."""
        table = Shares(lambda: 10)
        self.assertTrue(table.take("a", 5))
        table.give_back("a", 2)
        self.assertEqual((table.of("a"), table.total), (3, 3))
        table.give_back("a", 3)
        self.assertEqual((table.of("a"), table.total, table._taken), (0, 0, {}))

    def test_lowered(self) -> None:
        """A limit that falls below what there is lets nobody in until enough has gone."""
        limits = [10]
        table = Shares(lambda: limits[-1])
        table.take("a", 5)
        limits.append(4)
        self.assertEqual((table.take("b"), table.room("b")), (False, 0))


class SourceTests(SynchronousTestCase):
    """The sources of a table's entries."""

    def test_networks(self) -> None:
        """Addresses of one IPv6 network are one source; those of IPv4 are each their own."""
        self.assertEqual(source_of("[2001:db8:0:1::5]:1"), source_of("[2001:db8:0:1:ffff::]:2"))
        self.assertNotEqual(source_of("[2001:db8:0:1::5]:1"), source_of("[2001:db8:0:2::5]:1"))
        self.assertNotEqual(source_of("192.0.2.1:5"), source_of("192.0.2.2:5"))

    def test_every_network(self) -> None:
        """However the system writes an IPv6 address, its network is that of its first 8 bytes."""
        random = Random(6)
        addresses = [b"\0" * 16, b"\0" * 15 + b"\1", b"\0" * 10 + b"\xfe\xff\1\2\3\4"]
        for _ in range(2000):
            groups = [random.choice((0, 0, 1, 0xABC, 0xFFFF)).to_bytes(2, "big") for _ in range(8)]
            addresses.append(b"".join(groups))
        networks: dict[bytes, str] = {}
        for raw in addresses:
            found = source_of(f"[{inet_ntop(AF_INET6, raw)}]:5")
            self.assertEqual(networks.setdefault(raw[:8], found), found)
        self.assertEqual(len(set(networks.values())), len(networks))
