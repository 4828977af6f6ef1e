"""
The name of a certificate as an account gives it: C{certificate: CN=orders}.

It is one of the names that L{smartgo.net.certificatenames} finds in a certificate: C{URI:...}, C{DNS:...}, a whole
subject in the form of RFC 4514, or its common name alone. Spaces behind the commas of a subject and around the names of
its attributes do not count.
"""

from __future__ import annotations

import re
from typing import Final

_URI: Final = "URI:"
_DNS: Final = "DNS:"
_PART: Final = re.compile(r"(?:\\.|[^\\,])+", re.DOTALL)


def certificate_name(text: str) -> str:
    """
    Return the name of a certificate in the form in which names are compared.

    >>> certificate_name("cn = orders, OU=shop")
    'CN=orders,OU=shop'

    @raise ValueError: it is none.
    """
    text = text.strip()
    if text.startswith(_URI) and len(text) > len(_URI):
        return text
    if text.startswith(_DNS) and len(text) > len(_DNS):
        return text.lower().replace(_DNS.lower(), _DNS, 1)
    parts = []
    for part in _PART.findall(text):
        kind, equals, value = part.partition("=")
        if not kind.strip() or not equals or not value.strip():
            raise ValueError("it has to be URI:..., DNS:..., or a subject such as CN=orders or CN=orders,O=Example")
        parts.append(f"{kind.strip().upper()}={value.lstrip()}")
    if not parts:
        raise ValueError("it is empty")
    return ",".join(parts)
