"""Resources about access itself: the session, tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.env.interfaces import IClock
from smartgo.env.product import product_version
from smartgo.ops.problems import UNKEPT, Problem
from smartgo.ops.security.audit import AuditEntry, AuditLog
from smartgo.ops.security.principals import Principal
from smartgo.ops.security.requestguard import RequestGuard
from smartgo.ops.security.sessions import CODE_SECONDS, COOKIE, SESSION_SECONDS, Session, SessionOwner, SessionTable
from smartgo.ops.security.tokens import Token, TokenTable
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route

Scope = Literal["read", "publish", "admin"]
TokenName = Annotated[
    str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9._-]+$", description="The token's name.")
]

_YEAR: Final = 366 * 86400


LoginToken = Annotated[str, Meta(max_length=256, description="A token of this API.")]
LoginKey = Annotated[str, Meta(max_length=256, description="The access key of an account of access control.")]
LoginSecret = Annotated[str, Meta(max_length=256, description="The secret of that account.")]
LoginCode = Annotated[str, Meta(max_length=256, description="The one-time code of a login link.")]


class Login(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The credentials of a login: C{token}, C{code}, or C{accessKey} and C{secretKey}."""

    token: LoginToken = ""
    code: LoginCode = ""
    access_key: LoginKey = ""
    secret_key: LoginSecret = ""


class SessionView(msgspec.Struct, rename="camel"):
    """
    The identity of the logged-in user.

    @ivar name: the token's name, C{account} and the access key, C{login-link} or C{anonymous}.
    @ivar scopes: granted scopes: C{read}, C{publish}, C{admin} (which holds the others).
    @ivar csrf_token: for the header X-CSRF-Token of every request but GET; null without a session.
    @ivar expires_ms: when the session ends, wall clock; null without one.
    @ivar login_needed: whether reading needs a token, an account or a session.
    @ivar accounts: whether accounts of access control can log in.
    @ivar limited: whether it is an account without scopes, whose rights depend on the topic and the group.
    @ivar version: the version of smartgo, for those who may read; else empty.
    """

    name: str
    scopes: list[str]
    csrf_token: str | None
    expires_ms: int | None
    login_needed: bool
    accounts: bool
    limited: bool
    version: str


NewTokenScopes = Annotated[list[Scope], Meta(min_length=1, max_length=3)]
NewTokenSeconds = Annotated[int, Meta(ge=0, le=_YEAR, description="Seconds until it expires; 0: never.")]


class NewToken(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A new token to create."""

    name: TokenName
    scopes: NewTokenScopes
    seconds: NewTokenSeconds = 0


class TokenView(msgspec.Struct, rename="camel"):
    """
    A token, without its secret.

    @ivar configured: it is defined by the setting opsTokens and can be removed only there.
    """

    name: str
    scopes: list[str]
    created_ms: int
    expires_ms: int
    configured: bool


class CreatedToken(msgspec.Struct, rename="camel"):
    """
    A new token.

    @ivar token: the secret; it is shown only once.
    """

    name: str
    scopes: list[str]
    expires_ms: int
    token: str


class LoginLink(msgspec.Struct, rename="camel"):
    """
    A new login link.

    @ivar code: the one-time code; it is shown only once.
    @ivar path: the end of the link, below the URL of the console: C{#login=} and the code. A browser sends it nowhere.
    @ivar expires_ms: when the code expires, wall clock.
    """

    code: str
    path: str
    expires_ms: int


class TokenPath(msgspec.Struct):
    """One token."""

    name: TokenName


AuditFailed = Annotated[
    bool | None, Meta(description="true: only actions that failed; false: only those that did not.")
]


class AuditQuery(ListQuery, kw_only=True):
    """Filters of the audit log; C{q} is searched in who, address, action, subject and error."""

    failed: AuditFailed = None


class SessionApi:
    """The session."""

    def __init__(self, guard: RequestGuard, tokens: TokenTable, sessions: SessionTable, clock: IClock) -> None:
        self._guard = guard
        self._clock = clock
        self._tokens = tokens
        self._sessions = sessions
        self._version = product_version()

    @route("GET", "/session", scope=None, answer=SessionView, remote=False)
    def show(self, call: RouteCall[None, None, None]) -> SessionView:
        """Show who is logged in."""
        who = call.principal
        return self._view(who, self._sessions.by_key(who.session) if who.session else None)

    def _view(self, who: Principal, session: Session | None) -> SessionView:
        return SessionView(
            who.name,
            sorted(who.scopes),
            session.csrf if session else None,
            session.ends_ms if session else None,
            self._guard.login_needed,
            self._guard.knows_accounts,
            who.limited,
            self._version if who.may(READ) or who.limited else "",
        )

    @route(
        "POST",
        "/session",
        scope=None,
        body=Login,
        answer=SessionView,
        remote=False,
        refuses={401: "The token, the code or the secret is wrong, or the code was used."},
    )
    def begin(self, call: RouteCall[None, None, Login]) -> SessionView:
        """
        Log in with a token, a one-time code, or an account of access control.

        The answer sets a cookie (HttpOnly, SameSite=Strict, 8 hours) and contains the CSRF token.
        """
        begun = self._begun(call.body, call.address)
        if begun is None:
            key = call.body.access_key
            self._guard.failed(call.address, key or None)
            wrong = "the token or code is wrong, expired or already used"
            raise Problem(401, "access key and secret are not valid" if key else wrong, "bad-token")
        if call.principal.session:
            self._sessions.end(call.principal.session)
        session, secret = begun
        call.cookies.append(_cookie(secret, SESSION_SECONDS, call.secure))
        who = session.principal()
        call.noted["as"] = who.name
        return self._view(who, session)

    @route("POST", "/session/links", scope=ADMIN, answer=LoginLink, status=201, remote=False)
    def link(self, call: RouteCall[None, None, None]) -> LoginLink:
        """
        Create a login link: its code begins one session for admin, once, within an hour.

        The session ends with the token or the account that the request came with.
        """
        who = call.principal
        code = self._sessions.new_code(self._tokens.get(who.token) if who.account is None else who)
        return LoginLink(code, f"#login={code}", self._clock.wall_ms() + CODE_SECONDS * 1000)

    def _begun(self, login: Login, address: str) -> tuple[Session, str] | None:
        given = [login.token, login.code, login.access_key]
        if given.count("") != 2 or bool(login.access_key) != bool(login.secret_key):
            raise Problem(400, "give one of token, code, and accessKey with secretKey", "invalid-value")
        if login.code:
            return self._sessions.redeem(login.code)
        owner: SessionOwner
        if login.access_key:
            owner = self._guard.account(login.access_key, login.secret_key.encode(), address)
        else:
            owner = self._tokens.find(login.token)
        return None if owner is None else self._sessions.begin(owner)

    @route("DELETE", "/session", scope=None, remote=False)
    def end(self, call: RouteCall[None, None, None]) -> None:
        """Log out."""
        self._sessions.end(call.principal.session)
        call.cookies.append(_cookie("", 0, call.secure))


class TokensApi:
    """Tokens."""

    def __init__(self, tokens: TokenTable) -> None:
        self._tokens = tokens

    @route("GET", "/tokens", scope=ADMIN, query=ListQuery, answer=Page[TokenView], remote=False)
    def list(self, call: RouteCall[None, ListQuery, None]) -> Page[TokenView]:
        """List the tokens; sorted by name, createdMs or expiresMs."""
        sorts = {
            "name": lambda one: one.name,
            "createdMs": lambda one: one.created_ms,
            "expiresMs": lambda one: one.expires_ms,
        }
        return page_of([_view(one) for one in self._tokens.all()], call.query, sorts, lambda one: one.name, "name")

    @route(
        "POST",
        "/tokens",
        scope=ADMIN,
        body=NewToken,
        answer=CreatedToken,
        status=201,
        remote=False,
        refuses={
            409: "The name is taken, there are too many tokens, or the first token does not have the scope admin"
            " (unless an account creates it).",
            **UNKEPT,
        },
    )
    async def create(self, call: RouteCall[None, None, NewToken]) -> CreatedToken:
        """
        Create a token.

        Once a token exists, every request needs one, or a session or an account.
        """
        wanted = call.body
        token, secret, saved = self._tokens.create(
            wanted.name, sorted(set(wanted.scopes)), wanted.seconds, call.principal.account is not None
        )
        await saved
        return CreatedToken(token.name, [*token.scopes], token.expires_ms, secret)

    @route(
        "DELETE",
        "/tokens/{name}",
        scope=ADMIN,
        path_type=TokenPath,
        remote=False,
        refuses={404: "There is no such token.", 409: "The token comes from the settings.", **UNKEPT},
    )
    async def delete(self, call: RouteCall[TokenPath, None, None]) -> None:
        """Delete a token; its sessions end too."""
        await self._tokens.delete(call.path.name)


class AuditApi:
    """The audit log."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    @route("GET", "/audit", scope=ADMIN, query=AuditQuery, answer=Page[AuditEntry], remote=False)
    def list(self, call: RouteCall[None, AuditQuery, None]) -> Page[AuditEntry]:
        """
        List changes and attempted changes, newest first; the newest 2000 entries are available.

        Sorted by atMs, who or status. Changes requested over the remoting protocol (request code 25) appear under the
        name C{remoting}.
        """
        query = call.query
        rows = self._audit.entries()
        if query.failed is not None:
            rows = [one for one in rows if (one.status >= 400) == query.failed]
        numbered = list(enumerate(rows))
        page = page_of(numbered, query, _AUDIT_SORTS, lambda one: _words(one[1]), "-atMs")
        return Page([one for _, one in page.items], page.total, page.next)


_AUDIT_SORTS: Final = {
    "atMs": lambda one: -one[0],
    "who": lambda one: (one[1].who, -one[0]),
    "status": lambda one: (one[1].status, -one[0]),
}


def _words(one: AuditEntry) -> str:
    return " ".join((one.who, one.address, one.action, *one.subject.values(), one.error))


def _view(one: Token) -> TokenView:
    return TokenView(one.name, [*one.scopes], one.created_ms, one.expires_ms, one.configured)


def _cookie(secret: str, seconds: int, secure: bool) -> bytes:
    parts = [f"{COOKIE}={secret}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else [])]).encode()
