"""
Accounts of access control as users of the API: by key and secret (HTTP Basic), or by the client certificate they name.

An administrator without limits has all scopes. Any other account may use the routes of L{ROUTES} alone, each of which
asks about one topic or one group: it may if the same account may send the request of the remoting protocol that asks
the same. So the answer to "who may do what" stands in one place (L{smartgo.auth.needs}), for both protocols.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from smartgo.auth.accounts import AccessAccount
from smartgo.auth.connections import AccessControl
from smartgo.auth.decisions import AccessDecision, authorize
from smartgo.auth.needs import NEEDS, named_needs
from smartgo.errors import RequestRefused
from smartgo.ops.problems import Problem
from smartgo.ops.security.principals import SCOPES, Principal
from smartgo.schema.codes import RequestCode


class AccountRoute(NamedTuple):
    """
    A route that accounts with limits may use.

    @ivar code: the request of the remoting protocol that asks the same.
    @ivar topic: the field of path, query or body that names its topic; empty for none. C{group} likewise.
    """

    code: RequestCode
    topic: str = ""
    group: str = ""


class RouteRight(NamedTuple):
    """
    The right of an account to use a route, or the lack of it, with the reason.

    @ivar reason: in words.
    """

    method: str
    path: str
    allowed: bool
    reason: str


_TOPIC: Final = AccountRoute(RequestCode.GET_TOPIC_STATS_INFO, topic="name")
_MESSAGES: Final = AccountRoute(RequestCode.QUERY_MESSAGE, topic="topic")
_GROUP: Final = AccountRoute(RequestCode.GET_CONSUME_STATS, group="name")

ROUTES: Final[Mapping[tuple[str, str], AccountRoute]] = {
    ("GET", "/topics/{name}"): _TOPIC,
    ("GET", "/topics/{name}/queues"): _TOPIC,
    ("GET", "/topics/{name}/route"): _TOPIC,
    ("GET", "/messages"): _MESSAGES,
    ("GET", "/messages/at"): _MESSAGES,
    ("GET", "/messages/newest"): _MESSAGES,
    ("GET", "/messages/peek"): _MESSAGES,
    ("GET", "/tail"): _MESSAGES,
    ("GET", "/groups/{name}"): _GROUP,
    ("GET", "/groups/{name}/progress"): _GROUP,
    ("GET", "/groups/{name}/topics"): _GROUP,
    ("GET", "/groups/{name}/lag"): _GROUP,
    ("GET", "/groups/{name}/clients"): _GROUP,
    ("POST", "/send"): AccountRoute(RequestCode.SEND_MESSAGE, topic="topic"),
}
"""By method and path; every other route that needs a scope, but for L{LISTS}, is closed to accounts with limits."""

LISTS: Final[Mapping[tuple[str, str], AccountRoute]] = {
    ("GET", "/topics"): _TOPIC,
    ("GET", "/groups"): _GROUP,
}
"""Lists that are cut for accounts with limits: each keeps the names for which the account may ask this of one."""

_NOBODYS: Final = b"an unknown key costs as much time as a known one"


class AccountAccess:
    """The accounts of a process's access control, as the guard of its API asks for them."""

    def __init__(self, control: AccessControl | None) -> None:
        """@param control: the rules in force; C{None} where access control is off: then there is no account."""
        self._control = control

    @property
    def required(self) -> bool:
        """Tell whether access control is on: then nobody reads who has not shown who he is."""
        return self._control is not None

    def knows(self, key: str) -> bool:
        """Tell whether there is an account of this name."""
        return self._control is not None and key in self._control.rules.accounts

    def by_secret(self, key: str, secret: bytes) -> Principal | None:
        """Return the principal of an account; C{None}: there is none of that key and secret."""
        account = None if self._control is None else self._control.rules.accounts.get(key)
        right = hmac.compare_digest(_NOBODYS if account is None else account.key.secret, secret)
        return None if account is None or not right else _principal(account)

    def by_certificate(self, names: Sequence[str]) -> Principal | None:
        """Return the principal of a verified client certificate that an account names; C{None}: none does."""
        account = None if self._control is None else self._control.rules.of_certificate(names)
        return None if account is None else _principal(account)

    def lasts(self, principal: Principal) -> bool:
        """Tell whether the account of a principal is the same as it was: its secret, its certificate, its rights."""
        was = principal.account
        now = None if self._control is None or was is None else self._control.rules.accounts.get(was.name)
        return now is not None and was is not None and _described(now) == _described(was)

    def check(self, principal: Principal, route: tuple[str, str], given: Sequence[object], ip: str) -> None:
        """
        Check that an account with limits may use a route.

        @param route: method and path.
        @param given: path, query and body of the request, as far as there are any.
        @param ip: the address that the request comes from.
        @raise Problem: 403, it may not.
        """
        account = principal.account
        if route in LISTS:
            return
        asked = ROUTES.get(route)
        if account is None or asked is None:
            raise Problem(403, f"{principal.name} is no administrator without limits", "scope-missing")
        decision = _decided(account, asked, _named(given, asked.topic), _named(given, asked.group), ip)
        if not decision.allowed:
            raise Problem(403, decision.reason, "not-permitted")

    def sight(self, principal: Principal, route: tuple[str, str], ip: str) -> Callable[[str], bool] | None:
        """
        Return what tells whether a name may stand in a list; C{None}: every name may.

        @param route: method and path.
        @param ip: the address that the request comes from.
        """
        asked, account = LISTS.get(route), principal.account
        if asked is None or account is None or not principal.limited:
            return None
        return lambda name: _decided(account, asked, name, name, ip).allowed

    def rights(self, principal: Principal, topic: str, group: str, ip: str) -> list[RouteRight]:
        """
        Tell which of L{ROUTES} an account with limits may use for a topic or a group.

        @param topic: empty for none; C{group} likewise.
        @param ip: the address that the request comes from.
        """
        account = principal.account
        if account is None:
            return []
        found = []
        for (method, path), asked in ROUTES.items():
            if topic if asked.topic else group:
                decision = _decided(account, asked, topic, group, ip)
                found.append(RouteRight(method, path, decision.allowed, decision.reason))
        return found


def _decided(
    account: AccessAccount, asked: AccountRoute, topic: str | None, group: str | None, ip: str
) -> AccessDecision:
    """Decide about the request of the remoting protocol that asks the same as a route."""
    try:
        needs = named_needs(NEEDS[asked.code], topic if asked.topic else None, group if asked.group else None)
    except RequestRefused as error:
        return AccessDecision(False, str(error))
    return authorize(account, asked.code, needs, ip)


def basic_credentials(text: str) -> tuple[str, bytes]:
    """Return key and secret of what follows the word C{Basic} in a header; empty ones where it is none."""
    try:
        key, _, secret = base64.b64decode(text.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return "", b""
    return key.decode("utf-8", "replace"), secret


def _principal(account: AccessAccount) -> Principal:
    scopes = SCOPES if account.rights.unlimited else ()
    return Principal(f"account {account.name}", frozenset(scopes), account=account)


def _described(account: AccessAccount) -> tuple[object, ...]:
    policies = None if account.policies is None else (account.policies.entries, account.policies.cluster)
    return account.key.secret, account.certificate, account.rights, policies


def _named(given: Sequence[object], field: str) -> str | None:
    """Return the value of a field of path, query or body; C{None} where there is none."""
    if not field:
        return None
    found = next((value for one in given if (value := getattr(one, field, None)) is not None), None)
    return None if found is None else str(found)
