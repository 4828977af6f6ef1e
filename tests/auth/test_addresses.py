"""Tests of L{smartgo.auth.addresses}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.addresses import AddressPattern, BadAddressPattern

MATCHES = (
    # pattern, addresses in it, addresses outside
    ("", (), ("127.0.0.1", "::1", "")),
    ("  ", (), ("127.0.0.1",)),
    ("127.0.0.1", ("127.0.0.1", "::ffff:127.0.0.1"), ("127.0.0.2", "::1", "localhost", "")),
    ("::1", ("::1", "0:0:0:0:0:0:0:1"), ("127.0.0.1", "::2")),
    ("fe80::1", ("FE80::1", "fe80::1%eth0"), ("fe80::2",)),
    ("127.0.0.1,127.0.0.3", ("127.0.0.1", "127.0.0.3"), ("127.0.0.2",)),
    ("127.0.0.1, ::1", ("127.0.0.1", "::1"), ("127.0.0.2",)),
    ("192.168.1.{5,7}", ("192.168.1.5", "192.168.1.7"), ("192.168.1.6", "192.168.2.5")),
    ("1050:0:0:0:5:600:300c:{1,a}", ("1050::5:600:300c:1", "1050::5:600:300c:a"), ("1050::5:600:300c:2",)),
    ("192.168.1.*", ("192.168.1.0", "192.168.1.255"), ("192.168.2.1", "192.16.8.1", "::1")),
    ("192.168.*.*", ("192.168.0.9", "192.168.255.1"), ("192.169.0.1", "193.168.0.1")),
    ("192.*.*.*", ("192.0.0.9",), ("193.168.0.1",)),
    ("192.168.1.10-20", ("192.168.1.10", "192.168.1.20"), ("192.168.1.9", "192.168.1.21", "192.168.1.100")),
    ("192.168.1-5.*", ("192.168.1.1", "192.168.5.200"), ("192.168.0.1", "192.168.6.1")),
    ("192.168.1-5.7", ("192.168.3.7",), ("192.168.3.8",)),
    ("fe80::*", ("fe80::", "fe80::ffff"), ("fe80::1:1", "fe81::1")),
    ("2::ac5:78:1-200", ("2::ac5:78:1", "2::ac5:78:200"), ("2::ac5:78:201", "2::ac5:79:1")),
    ("2::ac5:78:1-200:*", ("2::ac5:78:1:9", "2::ac5:78:200:ffff"), ("2::ac5:78:201:9",)),
)

REFUSED = (
    "*", "*.*.*.*", "*:*:*:*:*:*:*:*", "*,10.0.0.1", "10.0.0.1,*.*.*.*", "*.1.1.1", "1-5.1.1.1", "10.0.0", "10.0.0.0.1",
    "10.0.0.256", "10.0.0.-5", "10.0.0.5-", "10.0.0.9-5", "10.0.0.1-256", "10.0.0.{1", "10.0.0.{}", "10.0.{0,1}.1",
    "10.0.0.1{2,3}", "host", "host.example.org", "10.0.0.1:80", ",", "fe80::*:1", "fe80::1-5:1", "fe80::10000", "*::1",
    "fe80::f-1",
)  # fmt: skip


class AddressPatternTests(SynchronousTestCase):
    """Patterns of addresses."""

    def test_matches(self) -> None:
        """A pattern matches the addresses that it describes, and no others."""
        for text, inside, outside in MATCHES:
            pattern = AddressPattern(text)
            self.assertEqual([one for one in inside if not pattern.matches(one)], [], text)
            self.assertEqual([one for one in outside if pattern.matches(one)], [], text)
            self.assertEqual(bool(pattern), bool(inside), text)

    def test_refused(self) -> None:
        """What every address would match (reliability X4), and what is no pattern, is refused and quoted."""
        for text in REFUSED:
            error = self.assertRaises(BadAddressPattern, AddressPattern, text)
            self.assertIn(text, str(error))

    def test_equal(self) -> None:
        """Patterns of the same addresses are equal."""
        self.assertEqual(AddressPattern("10.0.0.{1,2}"), AddressPattern("10.0.0.1,10.0.0.2"))
        self.assertEqual(hash(AddressPattern("::1")), hash(AddressPattern("0::1")))
        self.assertNotEqual(AddressPattern("10.0.0.1"), AddressPattern("10.0.0.2"))
        self.assertEqual(repr(AddressPattern("10.0.0.*")), "AddressPattern('10.0.0.*')")
