"""Who asks, and what he is allowed."""

from __future__ import annotations

from typing import Final, NamedTuple

READ: Final = "read"
"""To look."""
PUBLISH: Final = "publish"
"""To send messages, dead ones again among them."""
ADMIN: Final = "admin"
"""To change anything; holds the other two."""

SCOPES: Final = (READ, PUBLISH, ADMIN)


class Principal(NamedTuple):
    """Somebody who asks."""

    name: str
    """For the audit log."""
    scopes: frozenset[str]
    session: str = ""
    """The session's id, hashed; empty where he came with a token."""
    token: str = ""
    """The name of the token that he came with, now or at login."""

    def may(self, scope: str | None) -> bool:
        """Whether he is allowed this; C{None} is allowed to anybody."""
        return scope is None or scope in self.scopes or ADMIN in self.scopes


NOBODY: Final = Principal("anonymous", frozenset())
"""Who did not say who he is, where that is needed."""
LOCAL_READER: Final = Principal("anonymous", frozenset({READ}))
"""Who did not say who he is, on this machine, while no token is configured (reliability X10)."""
