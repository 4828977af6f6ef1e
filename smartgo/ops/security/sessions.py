"""Sessions of people at the console, and the one-time codes that begin one (reliability X11)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, TypeAlias

from smartgo.env.interfaces import IEnvironment
from smartgo.ops.problems import Problem
from smartgo.ops.security.accounts import AccountAccess
from smartgo.ops.security.principals import ADMIN, LOGIN_LINK, Principal
from smartgo.ops.security.tokens import Token, TokenTable

COOKIE: Final = "smartgo_session"
SESSION_SECONDS: Final = 8 * 3600
CODE_SECONDS: Final = 3600

_MOST: Final = 1000
_CODES: Final = 16

SessionOwner: TypeAlias = "Token | Principal | None"
"""Whose a session is: a token's, an account's (the principal that has it), or, C{None}, of a link of the process."""


class Session:
    """
    The session of one person.

    @ivar key: the hash of what the cookie holds.
    @ivar csrf: what a change must bring along in C{X-CSRF-Token}.
    @ivar ends: monotonic, in seconds.
    """

    __slots__ = ("csrf", "ends", "ends_ms", "key", "owner")

    def __init__(self, key: str, csrf: str, ends: float, ends_ms: int, owner: SessionOwner) -> None:
        self.key = key
        self.csrf = csrf
        self.ends = ends
        self.ends_ms = ends_ms
        self.owner = owner

    def principal(self) -> Principal:
        """Return the principal of the session."""
        owner = self.owner
        if owner is None:
            return Principal(LOGIN_LINK, frozenset({ADMIN}), self.key)
        if isinstance(owner, Principal):
            return owner._replace(session=self.key)
        return Principal(owner.name, frozenset(owner.scopes), self.key, owner.name)


class SessionTable:
    """All sessions, in memory: they end with the process. Called on the reactor thread."""

    def __init__(self, env: IEnvironment, tokens: TokenTable, accounts: AccountAccess | None = None) -> None:
        """@param accounts: those of access control; C{None}: there are none."""
        self._env = env
        self._tokens = tokens
        self._accounts = AccountAccess(None) if accounts is None else accounts
        self._sessions: dict[str, Session] = {}
        self._codes: dict[str, tuple[float, SessionOwner]] = {}  # when each ends, and whose it is

    def __len__(self) -> int:
        return len(self._sessions)

    # -- one-time codes ----------------------------------------------------------------------------------------

    def new_code(self, owner: SessionOwner = None) -> str:
        """
        Return a code that begins one session for admin, once, within L{CODE_SECONDS}: for a login link.

        @param owner: who asks for it: the session ends with that token or account. C{None} for the process itself.
        """
        secret = self._secret()
        while len(self._codes) >= _CODES:
            del self._codes[next(iter(self._codes))]
        self._codes[_hash(secret)] = self._env.clock.seconds() + CODE_SECONDS, owner
        return secret

    def redeem(self, code: str) -> tuple[Session, str] | None:
        """Begin the session of a code, which is used up; C{None} if it is no code, or has ended, or its owner has."""
        shown = _hash(code)
        found = next((one for one in self._codes if hmac.compare_digest(one, shown)), None)
        if found is None:
            return None
        ends, owner = self._codes.pop(found)
        return None if ends < self._env.clock.seconds() or not self._still(owner) else self.begin(owner)

    # -- sessions ----------------------------------------------------------------------------------------------

    def begin(self, owner: SessionOwner) -> tuple[Session, str]:
        """Begin a session with its owner's rights (C{None}: a login link's); return it and what its cookie holds."""
        self._sweep()
        if len(self._sessions) >= _MOST:
            raise Problem(503, "there are too many sessions", "too-many-sessions")
        secret = self._secret()
        clock = self._env.clock
        session = Session(
            _hash(secret),
            self._secret(),
            clock.seconds() + SESSION_SECONDS,
            clock.wall_ms() + SESSION_SECONDS * 1000,
            owner,
        )
        self._sessions[session.key] = session
        return session, secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie; C{None}: it has ended, or its owner has, or there was none."""
        session = self._sessions.get(_hash(secret))
        if session is None:
            return None
        if not self.lasts(session.key):
            del self._sessions[session.key]
            return None
        return session

    def by_key(self, key: str) -> Session | None:
        """Return a session by its hash."""
        return self._sessions.get(key)

    def lasts(self, key: str) -> bool:
        """Tell whether a session, given by its hash, is still valid, and so is its owner."""
        session = self._sessions.get(key)
        return session is not None and session.ends >= self._env.clock.seconds() and self._still(session.owner)

    def end(self, key: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(key, None)

    def _still(self, owner: SessionOwner) -> bool:
        """Tell whether a token or an account is as it was."""
        if owner is None:
            return True
        return self._accounts.lasts(owner) if isinstance(owner, Principal) else self._tokens.valid(owner)

    def _sweep(self) -> None:
        now = self._env.clock.seconds()
        for key in [key for key, one in self._sessions.items() if one.ends < now or not self._still(one.owner)]:
            del self._sessions[key]

    def _secret(self) -> str:
        token: bytes = self._env.random.token(32)
        return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
