"""
The names of a certificate, in the order in which access control looks for an account that names one of them.

 - C{URI:spiffe://example.com/orders}: each URI of the subject alternative names, as it is
 - C{DNS:orders.example.com}: each DNS name of these, in lower case
 - C{CN=orders,OU=shop,O=Example}: the whole subject, as RFC 4514 writes it
 - C{CN=orders}: the common name of the subject alone, where there is exactly one

Special characters are written as RFC 4514 says, with a backslash, so that no common name looks like a whole subject.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509

from smartgo.env.interfaces import IFiles
from smartgo.errors import SettingError

_UNREADABLE: Final = (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)


def certificate_names(certificate: X509) -> tuple[str, ...]:
    """Return the names of a certificate; none of one that cannot be read."""
    try:
        return _names_of(certificate.to_cryptography())
    except _UNREADABLE:
        return ()


def names_in_file(files: IFiles, path: str) -> tuple[str, ...]:
    """
    Return the names of the first certificate of a PEM file; blocking.

    @raise SettingError: there is no such file, or no certificate in it.
    """
    try:
        return _names_of(x509.load_pem_x509_certificate(files.read(path)))
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror or error}") from None
    except _UNREADABLE as error:
        raise SettingError(f"{path} holds no certificate that can be read ({error})") from None


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    found = []
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        pass
    else:
        found += [f"URI:{uri}" for uri in extension.value.get_values_for_type(x509.UniformResourceIdentifier)]
        found += [f"DNS:{name.lower()}" for name in extension.value.get_values_for_type(x509.DNSName)]
    subject = certificate.subject
    if subject.rdns:
        found.append(subject.rfc4514_string())
    common = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(common) == 1:
        found.append(common[0].rfc4514_string())
    return tuple(dict.fromkeys(found))
