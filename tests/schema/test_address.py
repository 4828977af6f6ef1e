"""Addresses as text."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.address import is_address, is_loopback, is_loopback_host, parse_address


class AddressTests(SynchronousTestCase):
    def test_parse(self) -> None:
        """Addresses are host:port; IPv6 addresses may be in brackets."""
        for text, expected in (
            ("10.0.0.1:9876", ("10.0.0.1", 9876)), ("broker-a.example:1", ("broker-a.example", 1)),
            ("[::1]:10911", ("::1", 10911)), ("::1:10911", ("::1", 10911)),
        ):  # fmt: skip
            self.assertEqual(parse_address(text), expected)
        for text in (
            "",
            "host",
            ":1",
            "host:",
            "host:0",
            "host:65536",
            "host:-1",
            "host:+1",
            "host:1_0",
            "host:\u0661",
        ):
            self.assertRaises(ValueError, parse_address, text)

    def test_strict(self) -> None:
        """Settings take names and numbers with a port, an IPv6 address in brackets alone."""
        for text in ("10.0.0.1:9876", "broker-a.example:1", "[::1]:65535", "h:00080"):
            self.assertTrue(is_address(text), text)
        for text in (
            "",
            "host",
            "host:0",
            "host:65536",
            "::1:10911",
            "[10.0.0.1]:1",
            "[::1]",
            "-a:1",
            "a b:1",
            "h:1\n",
        ):
            self.assertFalse(is_address(text), text)

    def test_loopback(self) -> None:
        """A loopback address is one however it is written; no name is, but for localhost as a host."""
        loopback = ("127.0.0.1", "127.9.9.9", "::1", "::1%lo", "::ffff:127.0.0.1")
        others = ("192.0.2.1", "::ffff:192.0.2.1", "fe80::1%eth0", "", "example.org", "127.0.0.1:80")
        self.assertEqual([is_loopback(one) for one in loopback], [True] * len(loopback))
        self.assertEqual([is_loopback(one) for one in (*others, "localhost")], [False] * (len(others) + 1))
        self.assertEqual([is_loopback_host(one) for one in (*loopback, "localhost")], [True] * (len(loopback) + 1))
        self.assertEqual([is_loopback_host(one) for one in others], [False] * len(others))
