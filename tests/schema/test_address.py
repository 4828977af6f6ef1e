"""Addresses as text."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.address import is_address, parse_address


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
