"""
The signature of RocketMQ's access control: who sent a request has the secret of a key, and nobody has changed it.

Two ext fields are added: C{AccessKey}, the key's public name, and C{Signature}: Base64 of the HMAC-SHA1, under the
secret, of the values of all other ext fields in the order of their names with nothing between them, then the body.

Source: C{AclUtils}, C{AclSigner} and C{AclClientRPCHook} of RocketMQ 4.9; docs/spec/remoting#acl.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final

from smartgo.schema.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a name

_ADDED_LATER: Final = "_UNIQUE_KEY_QUERY"
"""An ext field that RocketMQ's clients add to a request that they have signed; its brokers leave it out, too."""

_UNSIGNED: Final = frozenset({SIGNATURE, _ADDED_LATER})


class AccessKey:
    """
    A key and its secret, which is shown to nobody.

    @ivar access_key: the key's public name.
    """

    __slots__ = ("_secret", "_token", "access_key")

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        """@param security_token: sent along with requests of ours, for a service that wants one besides the key."""
        self.access_key = access_key
        self._secret = _utf8(secret_key)
        self._token = security_token

    @property
    def secret(self) -> bytes:
        """The secret as HMAC takes it; for who verifies signatures elsewhere, never for a text."""
        return self._secret

    def __repr__(self) -> str:
        """Leave the secret out (reliability X18)."""
        return f"AccessKey({self.access_key!r})"

    def sign(self, request: Command) -> None:
        """Sign a request of ours, whose fields and body must not change any more."""
        request.fields[ACCESS_KEY] = self.access_key
        if self._token is not None:
            request.fields[SECURITY_TOKEN] = self._token
        request.fields[SIGNATURE] = self._signature(request).decode()

    def sign_unsigned(self, request: Command) -> None:
        """Sign a request of ours as L{sign} does, unless it bears the signature of another key."""
        if request.fields.get(ACCESS_KEY) in (None, self.access_key):
            self.sign(request)

    def signed(self, request: Command) -> bool:
        """Tell whether a request was signed with this key; how long that takes does not depend on what is wrong."""
        fields = request.fields
        ours = hmac.compare_digest(_utf8(fields.get(ACCESS_KEY, "")), _utf8(self.access_key))
        right = hmac.compare_digest(_utf8(fields.get(SIGNATURE, "")), self._signature(request))
        return ours & right

    def _signature(self, request: Command) -> bytes:
        values = [value for name, value in sorted(request.fields.items()) if name not in _UNSIGNED]
        return base64.b64encode(hmac.digest(self._secret, _utf8("".join(values)) + request.body, "sha1"))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
