"""Tests of L{smartgo.auth.certificates}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.certificates import certificate_name
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="smartgo.auth.certificates"):
    """The examples in the docstrings."""


class CertificateNameTests(SynchronousTestCase):
    """The name of a certificate, as an account gives it."""

    def test_forms(self) -> None:
        """URIs stay as they are, DNS names count in lower case, and spaces between the parts of a subject do not."""
        for text, name in (
            ("CN=orders", "CN=orders"),
            (" cn = orders ", "CN=orders"),
            ("CN=orders, OU=shop,  O=Example", "CN=orders,OU=shop,O=Example"),
            ("CN=Orders And More", "CN=Orders And More"),
            ("CN=a\\, b,O=c", "CN=a\\, b,O=c"),
            ("CN=a=b", "CN=a=b"),
            ("URI:spiffe://Example.com/Orders", "URI:spiffe://Example.com/Orders"),
            ("DNS:Orders.Example.com", "DNS:orders.example.com"),
        ):
            self.assertEqual(certificate_name(text), name)
            self.assertEqual(certificate_name(name), name)

    def test_wrong(self) -> None:
        """What names no certificate is refused."""
        for text in ("", " ", "orders", "CN=", "=orders", "CN=orders,shop", "URI:", "DNS:", ","):
            self.assertRaises(ValueError, certificate_name, text)
