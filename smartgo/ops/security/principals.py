"""Principals: who sends a request, and which scopes are granted."""

from __future__ import annotations

from typing import Final, NamedTuple

from smartgo.auth.accounts import AccessAccount

READ: Final = "read"
"""To look."""
PUBLISH: Final = "publish"
"""To send messages, dead ones again among them."""
ADMIN: Final = "admin"
"""To change anything; holds the other two."""

_SECRET_WORDS: Final = ("secret", "password", "token", "key")

SCOPES: Final = (READ, PUBLISH, ADMIN)


ANONYMOUS: Final = "anonymous"
LOGIN_LINK: Final = "login-link"
REMOTING: Final = "remoting"
RESERVED: Final = frozenset({ANONYMOUS, LOGIN_LINK, REMOTING})
"""Names that the audit log has for those who have no token: no token may have one of them."""


class Principal(NamedTuple):
    """The sender of a request."""

    name: str
    """For the audit log."""
    scopes: frozenset[str]
    session: str = ""
    """The session's id, hashed; empty where a token was sent."""
    token: str = ""
    """The name of the token that was sent, now or at login."""
    account: AccessAccount | None = None
    """The account of access control, where one sends it."""

    @property
    def limited(self) -> bool:
        """Tell whether it is an account whose rights depend on the topic and the group."""
        return self.account is not None and not self.scopes

    def may(self, scope: str | None) -> bool:
        """Tell whether a scope is granted; C{None} is granted to anybody."""
        return scope is None or scope in self.scopes or ADMIN in self.scopes


NOBODY: Final = Principal(ANONYMOUS, frozenset())
"""An unauthenticated sender, where authentication is needed."""
LOCAL_READER: Final = Principal(ANONYMOUS, frozenset({READ}))
"""An unauthenticated sender on this machine, without tokens and without access control (reliability X10)."""


def is_secret(name: str) -> bool:
    """Tell whether a name says that its value is nobody else's business (reliability X8)."""
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS)
