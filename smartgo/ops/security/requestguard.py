"""
The guard: where a request may come from, who sent it, and which scopes are granted (reliability X10, X11, X13).

Pure decisions over a request's headers; the tables of tokens and sessions are given to it.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from smartgo.net.endpoints import address_block, canonical_ip
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.ops.problems import Problem
from smartgo.ops.security.accounts import AccountAccess, RouteRight, basic_credentials
from smartgo.ops.security.principals import ADMIN, LOCAL_READER, NOBODY, SCOPES, Principal
from smartgo.ops.security.sessions import SessionTable
from smartgo.ops.security.tokens import TokenTable
from smartgo.schema.address import is_loopback, is_loopback_host

CSRF_HEADER: Final = "X-CSRF-Token"
FAILURES: Final = 5
"""
Wrong tokens, codes or secrets of one address in a minute; after these, further wrong ones get 429 (reliability X10).

As many wrong secrets for one account from one address; after these, right ones get 429, too: people choose secrets that
can be guessed, and tokens cannot.
"""
FAILURE_SECONDS: Final = 60.0
BURST_SECONDS: Final = 5.0
"""Requests that were not made are saved up for so long."""

_TOO_MANY: Final = "too many wrong tokens or secrets from this address"
_FORWARDED: Final = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via")
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="smartgo"'}
_PORTS: Final = {True: 443, False: 80}


class RequestCredentials(NamedTuple):
    """The origin and the credentials of a request."""

    changes: bool
    """Whether anything may be changed: no GET or HEAD."""
    header: Callable[[str], str | None]
    """A header's value; C{None} where there is none."""
    cookie: str | None
    """The session's cookie."""
    peer: str
    """The IP address at the socket's other end."""
    local: tuple[str, int]
    """The address and port that were connected to."""
    secure: bool
    """Whether by TLS."""
    certificate: str | None = None
    """The name in the client certificate that TLS verified."""
    certificate_names: tuple[str, ...] = ()
    """All names of it, see L{smartgo.net.certificatenames}."""
    old: bool = False
    """Whether it speaks HTTP/1.0, as proxies do that were told nothing else (nginx before 1.29.7)."""
    hosts: int = 1
    """How many C{Host} headers there are: of two, a proxy before us may have looked at the other."""


class GuardSettings(NamedTuple):
    """The settings of the guard."""

    hosts: Collection[str] = ()
    """Names, or names with a port, by which we may be asked for besides addresses and localhost."""
    trusted_proxies: Collection[str] = ()
    """Addresses whose C{X-Forwarded-For} is believed."""
    per_second: float = 200.0
    """Requests of one address."""
    certificate_scope: str | None = None
    """What a verified client certificate is good for."""


class RequestGuard:
    """Admits or refuses requests. Called on the reactor thread."""

    def __init__(
        self,
        seconds: Callable[[], float],
        tokens: TokenTable,
        sessions: SessionTable,
        settings: GuardSettings,
        accounts: AccountAccess | None = None,
    ) -> None:
        """
        @param seconds: the monotonic clock.
        @param accounts: those of access control; C{None}: there are none.
        """
        self._accounts = AccountAccess(None) if accounts is None else accounts
        self._tokens = tokens
        self._sessions = sessions
        self._settings = settings
        self._hosts = {one.lower() for one in settings.hosts}
        self._seconds = seconds
        self._failures = TokenBuckets(FAILURES / FAILURE_SECONDS, FAILURES)
        self._guesses = TokenBuckets(FAILURES / FAILURE_SECONDS, FAILURES)
        self._requests = TokenBuckets(settings.per_second, settings.per_second * BURST_SECONDS)

    @property
    def login_needed(self) -> bool:
        """Tell whether reading needs a token, an account, or a session: a token exists, or access control is on."""
        return self._tokens.any or self._accounts.required

    # -- where it comes from -----------------------------------------------------------------------------------

    def address(self, credentials: RequestCredentials) -> str:
        """Return the address to count by: the peer's, or what a trusted proxy says of it (reliability X13)."""
        if credentials.peer not in self._settings.trusted_proxies:
            return credentials.peer
        forwarded = (credentials.header("X-Forwarded-For") or "").split(",")
        # The last address that no trusted proxy added is the one that our own proxies vouch for.
        for one in reversed([one.strip() for one in forwarded]):
            if one not in self._settings.trusted_proxies:
                return one if _is_address(one) else credentials.peer
        return credentials.peer

    def check_place(self, credentials: RequestCredentials) -> None:
        """
        Let a request for us pass that no foreign page made (DNS rebinding, cross-site requests).

        @raise Problem: 400 no C{Host}, or several; 403 another's, or another site's page; 429 too many requests.
        """
        key = self._counted_as(credentials)
        now = self._seconds()
        if not self._requests.take(key, now):
            raise _slow_down(self._requests.wait(key, now), "too many requests from this address")
        host = credentials.header("Host")
        if not host:
            raise Problem(400, "the header Host is missing")
        if credentials.hosts > 1:
            raise Problem(400, "the header Host is given more than once")
        if not self._is_us(host.lower(), credentials):
            raise Problem(
                403, "this host name is not allowed; the setting opsHosts lists those that are", "host-not-allowed"
            )
        origin = credentials.header("Origin")
        scheme = "https" if credentials.secure else "http"
        if origin is not None and origin.lower() not in (
            f"{scheme}://{host.lower()}",
            *self._proxied(host, credentials),
        ):
            raise Problem(403, "the request comes from a page of another origin", "origin-not-allowed")
        # Another site's page may link to us; it may not have us answer again and again, images and frames of it.
        linked = not credentials.changes and credentials.header("Sec-Fetch-Dest") == "document"
        if credentials.header("Sec-Fetch-Site") in ("cross-site", "same-site") and not linked:
            raise Problem(403, "the request comes from a page of another site", "origin-not-allowed")

    def _counted_as(self, credentials: RequestCredentials) -> str:
        """
        Return whose requests are counted together: a token's or an account's, a session's, else an address's.

        Others at an address, such as users of this machine, take nothing from those who showed who they are.
        """
        header, address = credentials.header("Authorization"), self.address(credentials)
        shown = None if header is None else self._shown(header, address)
        if shown is not None:
            return f"token {shown.name}"
        session = self._sessions.find(credentials.cookie) if credentials.cookie else None
        return address_block(address) if session is None else f"session {session.key}"

    def _proxied(self, host: str, credentials: RequestCredentials) -> Iterable[str]:
        """The origin as a browser sees it that speaks TLS with a trusted proxy."""
        if credentials.peer in self._settings.trusted_proxies:
            yield f"https://{host.lower()}"

    def _is_us(self, host: str, credentials: RequestCredentials) -> bool:
        name, port = _split_host(host, _PORTS[credentials.secure])
        if host in self._hosts or name in self._hosts:
            return True
        local, local_port = credentials.local
        if port != local_port:
            return False
        if name == "localhost":
            return is_loopback(local)
        # A foreign page can point its own name at us, but it cannot make the browser call us by our address.
        own = canonical_ip(local)
        return own is not None and canonical_ip(name) == own

    # -- who it is ---------------------------------------------------------------------------------------------

    def principal(self, credentials: RequestCredentials) -> Principal:
        """
        Return the principal of a request.

        @raise Problem: 401, the token or session is not valid; 403, a session without its CSRF token; 429, too many
            failed attempts.
        """
        address = self.address(credentials)
        header = credentials.header("Authorization")
        if header is not None:
            shown = self._shown(header, address)
            if shown is None:
                key = basic_credentials(_secret(header))[0] if _is_basic(header) else None
                self.failed(address, key)
                what = "the token is" if key is None else "key and secret are"
                raise Problem(401, f"{what} not valid", "bad-token", _CHALLENGE)
            return shown
        if credentials.cookie:
            session = self._sessions.find(credentials.cookie)
            if session is not None:
                if credentials.changes and not hmac.compare_digest(
                    session.csrf.encode(), (credentials.header(CSRF_HEADER) or "").encode()
                ):
                    raise Problem(403, f"the header {CSRF_HEADER} is missing or wrong", "csrf")
                return session.principal()
        account = self._accounts.by_certificate(credentials.certificate_names)
        if account is not None:
            return account
        scope = self._settings.certificate_scope
        if credentials.certificate is not None and scope is not None:
            scopes = {ADMIN: SCOPES}.get(scope, (scope,))
            return Principal(f"certificate {credentials.certificate}", frozenset(scopes))
        if not self.login_needed and is_loopback(credentials.peer) and not _may_be_forwarded(credentials):
            return LOCAL_READER
        return NOBODY

    def _shown(self, header: str, address: str) -> Principal | None:
        """Return the principal of a header C{Authorization}; C{None}: what it shows is not valid."""
        if _is_basic(header):
            return self.account(*basic_credentials(_secret(header)), address)
        scheme = header.partition(" ")[0]
        token = self._tokens.find(_secret(header).strip()) if scheme.lower() == "bearer" else None
        return None if token is None else Principal(token.name, frozenset(token.scopes), token=token.name)

    def account(self, key: str, secret: bytes, address: str) -> Principal | None:
        """
        Return the principal of an account; C{None}: key and secret are not valid, or were guessed too often.

        Where that is C{None}, L{failed} has to be called.
        """
        if self._guesses.wait((address_block(address), key), self._seconds()):
            return None
        return self._accounts.by_secret(key, secret)

    def sight(self, principal: Principal, route: tuple[str, str], ip: str) -> Callable[[str], bool] | None:
        """Return what tells whether a name may stand in a list; see L{AccountAccess.sight}."""
        return self._accounts.sight(principal, route, ip)

    def rights(self, principal: Principal, topic: str, group: str, ip: str) -> list[RouteRight]:
        """Tell which routes an account may use for a topic or a group; see L{AccountAccess.rights}."""
        return self._accounts.rights(principal, topic, group, ip)

    @property
    def knows_accounts(self) -> bool:
        """Tell whether accounts of access control can log in."""
        return self._accounts.required

    def check_account(
        self, principal: Principal, scope: str | None, route: tuple[str, str], given: Sequence[object], ip: str
    ) -> None:
        """
        Check that an account with limits may use a route; see L{AccountAccess.check}.

        @param scope: of the route.
        @raise Problem: 403, it may not.
        """
        if principal.account is not None and not principal.may(scope):
            self._accounts.check(principal, route, given, ip)

    def check_scope(self, principal: Principal, scope: str | None) -> None:
        """Check that a principal has a scope. @raise Problem: 401 unauthenticated; 403 the scope is missing."""
        if principal.may(scope) or principal.account is not None:  # L{check_account} sees to these
            return
        if principal is NOBODY:
            account = ", key and secret of an account (HTTP Basic)" if self._accounts.required else ""
            sentence = f"send a token (Authorization: Bearer …){account}, or log in"
            raise Problem(401, sentence, "login-needed", _CHALLENGE)
        if principal is LOCAL_READER:
            path = self._tokens.local_path
            raise Problem(
                401,
                f"this needs the scope {scope}; without a token or a login only reading is allowed"
                + (f"; smartgo dev left a token in {path}" if path else ""),
                "login-needed",
                _CHALLENGE,
            )
        raise Problem(403, f"this needs the scope {scope}", "scope-missing")

    def still(self, principal: Principal) -> bool:
        """Tell whether a principal would be admitted again: neither its session nor its token has ended."""
        if principal.session:
            return self._sessions.lasts(principal.session)
        if principal.account is not None:
            return self._accounts.lasts(principal)
        if principal.token:
            token = self._tokens.get(principal.token)
            return token is not None and self._tokens.valid(token)
        return principal is not LOCAL_READER or not self.login_needed

    # -- being wrong -------------------------------------------------------------------------------------------

    def check_failures(self, address: str) -> None:
        """Refuse an address with too many failed logins. @raise Problem: 429."""
        wait = self._failures.wait(address_block(address), self._seconds())
        if wait:
            raise _slow_down(wait, _TOO_MANY)

    def failed(self, address: str, key: str | None = None) -> None:
        """
        Count that an address was wrong; who is right is let in however often others there were wrong.

        @param key: the access key of the account whose secret was wrong. Such an account is let in again only after a
            while (L{account}).
        @raise Problem: 429, the address was wrong too often, or about that account.
        """
        now = self._seconds()
        if key is not None and self._accounts.knows(key):  # else anybody could fill the table with names
            guessed = (address_block(address), key)
            wait = self._guesses.wait(guessed, now)
            if wait:
                raise _slow_down(wait, _TOO_MANY)
            self._guesses.take(guessed, now)
        self.check_failures(address)
        self._failures.take(address_block(address), now)


def _is_basic(header: str) -> bool:
    return header.partition(" ")[0].lower() == "basic"


def _secret(header: str) -> str:
    """Return what follows the scheme in a header C{Authorization}."""
    return header.partition(" ")[2]


def _may_be_forwarded(credentials: RequestCredentials) -> bool:
    """
    Tell whether a proxy may have forwarded the request: its sender may then be anywhere.

    One that says so by no header may show it by its HTTP/1.0, or by passing on the name that its own client used.
    """
    name, _ = _split_host((credentials.header("Host") or "").lower(), 0)
    local = is_loopback_host(name)
    return credentials.old or not local or any(credentials.header(one) is not None for one in _FORWARDED)


def _slow_down(seconds: float, sentence: str) -> Problem:
    return Problem(429, sentence, "", {"Retry-After": str(math.ceil(seconds))})


def _split_host(host: str, port: int) -> tuple[str, int]:
    """Return name and port of a C{Host} header; port -1 where it is none."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        colon, text = rest[:1], rest[1:]
    else:
        name, colon, text = host.partition(":")
    if not colon:
        return name, port
    return name, int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else -1


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
