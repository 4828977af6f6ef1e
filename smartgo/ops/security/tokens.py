"""
Tokens: long random words that programs show, of which only SHA-256 hashes are kept (reliability X10).

They come from two places: the setting C{opsTokens}, as C{name:scopes:hash}, which a configuration file may hold as it
contains no secret; and the file C{tokens.json} of C{opsPath}, which the API writes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody, SettingError
from smartgo.ops.problems import Problem, not_kept
from smartgo.ops.security.principals import ADMIN, RESERVED, SCOPES
from smartgo.tablefile import TableFile, read_object

SIZE: Final = 32  # bytes of chance in a token; 16 are asked for
PREFIX: Final = "sgo_"
LOCAL: Final = "local token"
"""The name of the token of L{TokenTable.make_local}; no other token can have it, because of the space."""
MOST: Final = 100  # tokens

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class Token(msgspec.Struct, frozen=True, rename="camel"):
    """
    One token.

    @ivar hash: SHA-256 of it, in hex.
    @ivar created_ms: when it was made, C{expires_ms} when it ends (0 never); wall clock in ms.
    @ivar configured: it comes from a setting, and cannot be removed by the API.
    """

    name: str
    scopes: tuple[str, ...]
    hash: str
    created_ms: int = 0
    expires_ms: int = 0
    configured: bool = False


class _Saved(msgspec.Struct):
    tokens: list[Token]


def hash_of(secret: str) -> str:
    """Return the hash of a token that is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_secret(env: IEnvironment) -> str:
    """Return a new token in the form that its owner keeps."""
    return PREFIX + base64.urlsafe_b64encode(env.random.token(SIZE)).rstrip(b"=").decode()


def parse_configured(entries: Iterable[str]) -> list[Token]:
    """
    Read the setting C{opsTokens}.

    @param entries: C{name:scope+scope:sha256}, each.
    @raise SettingError: one cannot be read; the message does not repeat it.
    """
    found: list[Token] = []
    for number, entry in enumerate(entries, 1):
        name, _, rest = entry.partition(":")
        scopes, _, digest = rest.partition(":")
        named = tuple(scopes.split("+"))
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(digest) or not set(named) <= set(SCOPES):
            raise SettingError(
                f"opsTokens: entry {number} is not NAME:SCOPES:HASH, with SCOPES some of {'+'.join(SCOPES)}"
                " and HASH the SHA-256 of the token in 64 hexadecimal digits"
            )
        if name in RESERVED:
            raise SettingError(f"opsTokens: the name {name} is reserved for the audit log")
        if name in (one.name for one in found):
            raise SettingError(f"opsTokens: {name} is listed twice")
        found.append(Token(name, named, digest, configured=True))
    return found


class TokenTable:
    """All tokens. Called on the reactor thread."""

    def __init__(self, env: IEnvironment, file: TableFile, configured: Sequence[Token] = ()) -> None:
        self._env = env
        self._file = file
        self._configured = {one.name: one for one in configured}
        self._saved: dict[str, Token] = {}
        self._local: Token | None = None
        self._local_path = ""

    def load(self) -> None:
        """Read the file; blocking. @raise smartgo.errors.BrokenTable: it is there and cannot be read."""
        saved = self._file.load(_read)
        self._saved = {} if saved is None else {one.name: one for one in saved.tokens}

    @property
    def any(self) -> bool:
        """Tell whether a token exists: then every request needs one."""
        return bool(self._configured or self._saved)

    def all(self) -> list[Token]:
        """Return all of them, by name."""
        return sorted([*self._configured.values(), *self._saved.values()], key=lambda one: one.name)

    def get(self, name: str) -> Token | None:
        """Return one by its name."""
        if name == LOCAL:
            return self._local
        return self._configured.get(name) or self._saved.get(name)

    @property
    def local_path(self) -> str:
        """Return the file that has the token of L{make_local}; empty for none."""
        return self._local_path

    def make_local(self, path: str = "") -> str:
        """
        Make a token with the scope admin that ends with the process; return its secret.

        It is for commands of the person who runs the process. It is not listed, and reading without a token stays
        allowed if there is no other. A second call ends the token of the first one.

        @param path: the file that it will be written to, which local users without a token are told.
        """
        secret = new_secret(self._env)
        self._local_path = path
        self._local = Token(LOCAL, (ADMIN,), hash_of(secret), self._env.clock.wall_ms(), configured=True)
        return secret

    def find(self, secret: str) -> Token | None:
        """Return the token that somebody shows, if it is one; takes the same time for all that are none."""
        shown = hash_of(secret)
        found: Token | None = None
        local = () if self._local is None else (self._local,)
        for one in (*self._configured.values(), *self._saved.values(), *local):
            if hmac.compare_digest(one.hash, shown):
                found = one
        return found if found is not None and self.valid(found) else None

    def valid(self, token: Token) -> bool:
        """Tell whether a token exists and has not expired."""
        if self.get(token.name) != token:
            return False
        return not token.expires_ms or self._env.clock.wall_ms() < token.expires_ms

    def create(
        self, name: str, scopes: Sequence[str], seconds: int = 0, by_account: bool = False
    ) -> tuple[Token, str, Deferred[None]]:
        """
        Make a token; return it, what its owner must keep, and what fires when it is saved.

        @param seconds: how long it holds; 0 for good.
        @param by_account: an account of access control asks for it, which needs no token to ask for another.
        @raise Problem: 400, no token may have that name; 409, there is one of it, or there are too many, or nobody
            could undo this; through the Deferred, 507: it could not be written, and is none.
        """
        if name in RESERVED:
            raise Problem(400, f"the name {name} is reserved for the audit log", "invalid-value")
        if self.get(name) is not None:
            raise Problem(409, f"token {name} exists already", "token-exists")
        if len(self._saved) >= MOST:
            raise Problem(409, f"there are {MOST} tokens already, the most that are kept", "too-many-tokens")
        if not self.any and ADMIN not in scopes and not by_account:
            raise Problem(
                409, "the first token must have the scope admin, or nobody could create another", "first-token"
            )
        secret = new_secret(self._env)
        now = self._env.clock.wall_ms()
        token = Token(name, tuple(scopes), hash_of(secret), now, now + seconds * 1000 if seconds else 0)
        self._saved[name] = token
        return token, secret, self._save().addErrback(self._not_kept, token)

    def _not_kept(self, failure: Failure, token: Token) -> Failure:
        """Forget a token that could not be saved: nobody was told it, and everybody else would be kept out by it."""
        if self._saved.get(token.name) == token:
            del self._saved[token.name]
        return self._unwritten(failure)

    def _not_forgotten(self, failure: Failure, token: Token) -> Failure:
        """Let a token hold on that the file still has: it would be back after a restart, and nobody would know."""
        self._saved.setdefault(token.name, token)
        return self._unwritten(failure)

    def _unwritten(self, failure: Failure) -> Failure:
        error = failure.value
        return Failure(not_kept(error, self._file.path)) if isinstance(error, OSError) else failure

    def delete(self, name: str) -> Deferred[None]:
        """
        Forget a token; fires when that is saved.

        @raise Problem: 404 there is none; 409 it comes from the settings; through the Deferred, 507: it could not be
            written, and holds on.
        """
        if name in self._configured:
            raise Problem(409, f"token {name} comes from the setting opsTokens; remove it there", "token-configured")
        token = self._saved.pop(name, None)
        if token is None:
            raise Problem(404, f"there is no token {name}", "token-not-found")
        return self._save().addErrback(self._not_forgotten, token)

    def _save(self) -> Deferred[None]:
        return self._file.save({"tokens": list(self._saved.values())})


def _read(data: bytes) -> _Saved:
    read_object(data)
    try:
        return msgspec.json.decode(data, type=_Saved)
    except msgspec.MsgspecError as error:
        raise BadBody(str(error)) from None
