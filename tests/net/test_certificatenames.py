"""Tests of L{smartgo.net.certificatenames}."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier
from OpenSSL.crypto import FILETYPE_PEM, load_certificate
from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.certificates import certificate_name
from smartgo.errors import SettingError
from smartgo.net.certificatenames import certificate_names, names_in_file
from tests.fakes import FakeEnvironment
from tests.remoting.certificates import Authority, place

AUTHORITY = Authority()


def name(*parts: tuple[ObjectIdentifier, str]) -> x509.Name:
    """Return a subject, its most significant part first, as certificates have them."""
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


class CertificateNamesTests(SynchronousTestCase):
    """The names of a certificate."""

    def names(self, *others: str, subject: x509.Name | None = None) -> tuple[str, ...]:
        """Return the names of a certificate; check that an account can give each of them."""
        found = certificate_names(load_certificate(FILETYPE_PEM, AUTHORITY.issue(*others, subject=subject)[0]))
        self.assertEqual(tuple(map(certificate_name, found)), found)
        return found

    def test_order(self) -> None:
        """URIs come first, then DNS names in lower case, the whole subject, and its common name."""
        subject = name(
            (NameOID.ORGANIZATION_NAME, "Example"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "shop"),
            (NameOID.COMMON_NAME, "orders"),
        )
        self.assertEqual(
            self.names("Orders.Example.com", "10.0.0.1", "spiffe://example.com/Orders", subject=subject),
            (
                "URI:spiffe://example.com/Orders", "DNS:orders.example.com", "CN=orders,OU=shop,O=Example", "CN=orders",
            ),
        )  # fmt: skip
        self.assertEqual(self.names("orders"), ("DNS:orders", "CN=orders"))

    def test_lookalikes(self) -> None:
        """No common name looks like a whole subject or another kind of name; of two common names none counts alone."""
        for text, escaped in (
            ("orders,OU=shop", "CN=orders\\,OU=shop"),
            ("orders+OU=shop", "CN=orders\\+OU=shop"),
            ("orders\x00.example.com", "CN=orders\\00.example.com"),
            ("DNS:orders", "CN=DNS:orders"),
        ):
            self.assertEqual(self.names(subject=name((NameOID.COMMON_NAME, text))), (escaped,))
        both = name((NameOID.COMMON_NAME, "orders"), (NameOID.COMMON_NAME, "billing"))
        self.assertEqual(self.names(subject=both), ("CN=billing,CN=orders",))

    def test_none(self) -> None:
        """A certificate without a subject and other names has no name."""
        self.assertEqual(self.names(subject=name()), ())

    def test_file(self) -> None:
        """The first certificate of a file counts; a file without one is refused."""
        files = FakeEnvironment().files
        place(files, "/chain.pem", AUTHORITY.issue("orders")[0] + AUTHORITY.pem)
        self.assertEqual(names_in_file(files, "/chain.pem"), ("DNS:orders", "CN=orders"))
        place(files, "/rubbish", b"rubbish")
        for path in ("/missing", "/rubbish"):
            self.assertIn(path, str(self.assertRaises(SettingError, names_in_file, files, path)))
