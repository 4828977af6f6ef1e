"""
Access control of connections: what a key may do is remembered for a connection until the rules change.

The signature of each request is verified, as by RocketMQ. One that was overheard has only its own effect when it is
sent again; a connection that was trusted after its first signature would give the listener all rights of the key
(docs/decisions/hooks-see-each-request).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from smartgo.auth.accounts import AccessAccount, AccessRules, Permission
from smartgo.auth.decisions import authorize, identify
from smartgo.auth.needs import NEEDS, CodeNeed, named_needs, producer_group_needs, resource_needs
from smartgo.errors import AccessDenied, RequestRefused
from smartgo.observer import ObserverList
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.signature import ACCESS_KEY

MOST_REMEMBERED: Final = 1024
"""Decisions that are remembered for a connection and a request code; one more forgets all of them."""

_NAMES: Final[dict[int, Callable[[Any], Hashable]]] = {
    int(code): names
    for codes, names in (
        (
            (
                RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
                RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
            ),
            attrgetter("access_key", "topic"),
        ),
        (
            (
                RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET,
                RequestCode.UPDATE_CONSUMER_OFFSET,
            ),
            attrgetter("access_key", "topic", "consumer_group"),
        ),
    )
    for code in codes
}  # fmt: skip
"""Of frequent requests, whose headers are decoded to their typed forms: the account and all resources they name."""


class HeldIdentity(NamedTuple):
    """
    The proof of who sent a request that waits, so that it can be looked at again.

    @ivar name: the access key that it named; empty for none.
    @ivar secret: the secret that it was signed with; C{None} where it needed no signature.
    @ivar ip: the address that it came from.
    @ivar certificate: the names of the client certificate that it came with.
    """

    name: str
    secret: bytes | None
    ip: str
    certificate: tuple[str, ...] = ()


class AccessControl:
    """
    The rules in force.

    @ivar checks_producer_groups: whether a client needs PUB for the producer groups that it joins.
    @ivar problem: why the files as they are now are not in force; empty where they are.
    """

    def __init__(self, rules: AccessRules, checks_producer_groups: bool = False) -> None:
        self._rules = rules
        self.checks_producer_groups = checks_producer_groups
        self.problem = ""
        self._replaced: ObserverList[[]] = ObserverList("new access rules")

    @property
    def rules(self) -> AccessRules:
        """The rules; L{replace} replaces them as a whole, nothing changes them."""
        return self._rules

    def when_replaced(self, observer: Callable[[], object]) -> None:
        """Call an observer each time other rules are in force, before any request is checked by them."""
        self._replaced.add(observer)

    def grant(self, name: str, code: int, topic: str, group: str) -> bytes | None:
        """
        Return the secret of a key that may send a request by the rules as they are; C{None}: it may not.

        What is granted holds until L{when_replaced} tells, for requests from any address: a right signature is enough
        everywhere.

        @param name: the key's public name.
        @param topic: what the request names; C{group} likewise, empty where it names none.
        """
        account, need = self._rules.accounts.get(name), NEEDS.get(code)
        if account is None or need is None:
            return None
        if account.policies is not None and account.policies.by_address:
            return None  # that each request has to be looked at for
        try:
            needs = named_needs(need, topic, group)
        except RequestRefused:
            return None
        return account.key.secret if authorize(account, code, needs).allowed else None

    def account_of(self, request: Command, certificate: Sequence[str] = ()) -> AccessAccount | None:
        """
        Return the account of a request that L{ConnectionAccess.check} has let in; C{None}: it needed none.

        @param certificate: the names of the client certificate that it came with.
        """
        name = request.fields.get(ACCESS_KEY)
        return self._rules.accounts.get(name) if name else self._rules.of_certificate(certificate)

    def check_resource(
        self, request: Command, resource: str, permission: Permission, ip: str, certificate: Sequence[str] = ()
    ) -> None:
        """
        Check the permission for a topic or a retry topic that a request, which was let in, does not name itself.

        @param request: its sender was found out before, by L{ConnectionAccess.check}.
        @param ip: the address that it came from.
        @param certificate: the names of the client certificate that it came with.
        @raise AccessDenied: its sender does not have the permission.
        """
        account = self.account_of(request, certificate)
        decision = authorize(account, request.code, ((resource, permission),), ip)
        if not decision.allowed:
            raise AccessDenied(decision.reason)

    def hold(self, name: str | None, ip: str, certificate: tuple[str, ...] = ()) -> HeldIdentity:
        """
        Return what has to be kept of a request that was let in, and is about to wait, for L{check_held}.

        @param name: the access key that it named, if any.
        @param ip: the address that it came from.
        @param certificate: the names of the client certificate that it came with.
        """
        account = self._rules.accounts.get(name or "")
        signed = account is not None and not self._rules.needs_no_signature(account, ip)
        return HeldIdentity(name or "", account.key.secret if account is not None and signed else None, ip, certificate)

    def check_held(self, identity: HeldIdentity, code: int, topic: str, group: str) -> None:
        """
        Check again, by the rules as they are now, a request that was let in before and waited.

        @param topic: what it named; C{group} likewise.
        @raise AccessDenied: its sender may not send it any more, or would have to show again who he is.
        """
        name, secret, ip, certificate = identity
        account = self._rules.accounts.get(name) if name else self._rules.of_certificate(certificate)
        needs_signature = account is not None and name and not self._rules.needs_no_signature(account, ip)
        right = account is not None and secret is not None and hmac.compare_digest(secret, account.key.secret)
        if needs_signature and not right:
            raise AccessDenied(f"Check signature failed for accessKey={name}: the rules changed while this waited")
        decision = authorize(account, code, named_needs(NEEDS[code], topic, group), ip)
        if not decision.allowed:
            raise AccessDenied(decision.reason)

    def replace(self, rules: AccessRules) -> None:
        """Apply other rules from now on, to open connections as well."""
        self._rules = rules
        self._replaced.tell()


class ConnectionAccess:
    """The decisions about the requests of one connection."""

    __slots__ = ("_allowed", "_certificate", "_control", "_ip", "_rules")

    def __init__(self, control: AccessControl, ip: str, certificate: Sequence[str] = ()) -> None:
        """
        @param ip: the address that it comes from.
        @param certificate: the names of the client certificate that TLS has verified on it.
        """
        self._control = control
        self._ip = ip
        self._certificate = certificate
        self._rules = control.rules
        self._allowed: dict[int, set[Hashable]] = {}

    def check(self, request: Command) -> None:
        """
        Let a request pass, or refuse it.

        @raise AccessDenied: with the reason.
        @raise smartgo.errors.RequestRefused: the request cannot be read.
        """
        if self._rules is not self._control.rules:
            self._rules = self._control.rules
            self._allowed = {}
        code = request.code
        header = request.header
        need = NEEDS.get(code)
        if need is None:
            raise AccessDenied(authorize(None, code, ()).reason)
        identity = identify(self._rules, request, self._ip, self._certificate)
        if identity.refusal:
            raise AccessDenied(identity.refusal)
        if header is None or code not in _NAMES:
            self._authorize(identity.account, need, request)
            return
        names = _NAMES[code](header)
        known = self._allowed.setdefault(code, set())
        if names not in known:
            self._authorize(identity.account, need, request)
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            known.add(names)

    def _authorize(self, account: AccessAccount | None, need: CodeNeed, request: Command) -> None:
        needs = resource_needs(need, request)
        if request.code == RequestCode.HEART_BEAT and self._control.checks_producer_groups:
            needs += producer_group_needs(request.body)
        decision = authorize(account, request.code, needs, self._ip)
        if not decision.allowed:
            raise AccessDenied(decision.reason)
