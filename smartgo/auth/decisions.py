"""
Decisions about requests: who sent one, whether he may, and why, in words.

Order of the checks as in C{PlainPermissionManager.validate} of RocketMQ 4.9.7 (docs/spec/remoting#acl), with the
differences of docs/spec/reliability#X2 to X4: an unknown key and a wrong signature look alike, an address without
signatures still needs permissions, the trace topic is exempt for itself only, an unlisted code is denied. A request
that names no access key counts as that of the account which names the client certificate of its connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from smartgo.auth.accounts import AccessAccount, AccessRules, Permission, Rights, named
from smartgo.auth.needs import NEEDS, ResourceNeed, Role, named_needs, resource_needs
from smartgo.auth.policies import PolicyRights, Resource, ResourceKind, resource_of
from smartgo.auth.policyneeds import SUPER_ONLY, actions_for, admin_actions
from smartgo.errors import AccessDenied, RequestRefused
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.signature import ACCESS_KEY, AccessKey
from smartgo.schema.topics import TRACE_TOPIC

_NOBODY: Final = AccessAccount(AccessKey("", "an unknown key costs as much time as a known one"), Rights())
"""Is checked in the place of an account that does not exist; no request names it."""


class SenderIdentity(NamedTuple):
    """
    The sender of a request.

    @ivar account: whose rights count; C{None} where the request is denied or names nobody.
    @ivar refusal: why the request is denied; empty where it is not.
    @ivar proof: what shows that it is the account's, in words.
    """

    account: AccessAccount | None
    refusal: str = ""
    proof: str = ""


class AccessDecision(NamedTuple):
    """
    The answer to a request.

    @ivar allowed: whether it may be processed.
    @ivar reason: why, in words; what a client that was denied is told.
    """

    allowed: bool
    reason: str


def identify(rules: AccessRules, request: Command, ip: str, certificate: Sequence[str] = ()) -> SenderIdentity:
    """
    Find out who sent a request.

    @param ip: the address that it comes from.
    @param certificate: the names of the client certificate that it came with; none where TLS has verified none.
    """
    name = request.fields.get(ACCESS_KEY)
    if not name:
        account = rules.of_certificate(certificate)
        if account is not None:
            return SenderIdentity(account, proof=f"the client certificate is {account.certificate}")
        if any(pattern.matches(ip) for pattern in rules.unsigned_from):
            return SenderIdentity(
                None, proof=f"globalWhiteRemoteAddresses names {ip}, but the request names no account"
            )
        unknown = f", and no account names the certificate {' or '.join(certificate)}" if certificate else ""
        return SenderIdentity(None, f"No accessKey is configured{unknown}")
    account = rules.accounts.get(name, _NOBODY)
    setting = rules.needs_no_signature(account, ip)
    if setting and account is not _NOBODY:
        return SenderIdentity(account, proof=f"{setting} names {ip}")
    if account.key.signed(request) and account is not _NOBODY:
        return SenderIdentity(account, proof="the signature is right")
    return SenderIdentity(None, f"Check signature failed for accessKey={name}")


def authorize(account: AccessAccount | None, code: int, needs: Iterable[ResourceNeed], ip: str = "") -> AccessDecision:
    """
    Decide about a request whose sender is known.

    @param account: the sender; C{None} for a sender without an account, from an address that needs no signature.
    @param needs: the permissions that it needs, as L{resource_needs} returns them.
    @param ip: the address that it comes from, which the policies of users may depend on.
    """
    need = NEEDS.get(code)
    if need is None:
        return AccessDecision(False, f"request code {code} is not known to access control")
    if need.role is Role.HEALTH:
        return AccessDecision(True, f"{_code_name(code)} is open to everybody who has said who he is")
    if account is None:
        return AccessDecision(False, f"{_code_name(code)} needs permissions, and no accessKey says whose they are")
    rights = account.rights
    if account.policies is not None:
        return _by_policies(account.name, account.policies, code, need.role, needs, ip)
    if need.role is Role.ADMIN:
        if rights.admin:
            return AccessDecision(True, f"accessKey={account.name} is an administrator")
        return AccessDecision(
            False, f"Need admin permission for request code={code}, but accessKey={account.name} is not"
        )
    if rights.unlimited:
        return AccessDecision(True, f"accessKey={account.name} is an administrator without a list of permissions")
    reasons = []
    for resource, needed in needs:
        allowed, reason = _permitted(account.name, rights, resource, needed)
        if not allowed:
            return AccessDecision(False, reason)
        reasons.append(reason)
    if not reasons and need.role is Role.PUBLISHER:
        if not rights.publishes():
            return AccessDecision(False, f"accessKey={account.name} may not publish to any topic")
        reasons.append(f"accessKey={account.name} may publish to a topic")
    return AccessDecision(True, "; ".join(reasons) or f"{_code_name(code)} names no topic and no group here")


def _permitted(name: str, rights: Rights, resource: str, needed: Permission) -> tuple[bool, str]:
    """Decide about one resource of a request."""
    if resource == TRACE_TOPIC and needed is Permission.PUB:
        return True, f"every account may publish its traces to {named(resource)}"
    owned, setting = rights.of(resource)
    if owned.covers(needed):
        return True, f"{setting} of accessKey={name} gives {owned.words} for {named(resource)}"
    return False, (
        f"No permission for {named(resource)}: {needed.words} is needed, "
        f"{setting} of accessKey={name} gives {owned.words}"
    )


def _by_policies(
    name: str, rights: PolicyRights, code: int, role: Role, needs: Iterable[ResourceNeed], ip: str
) -> AccessDecision:
    """Decide about a request of a normal user of RocketMQ 5."""
    if code in SUPER_ONLY:
        return AccessDecision(False, f"User:{name} is no super user, as {_code_name(code)} needs")
    reasons = []
    wanted = [
        (resource_of(resource), admin_actions(code) if role is Role.ADMIN else actions_for(code, needed))
        for resource, needed in needs
        if resource != TRACE_TOPIC or needed is not Permission.PUB
    ]
    if role is Role.ADMIN and not wanted:
        wanted = [(Resource(ResourceKind.CLUSTER, rights.cluster), admin_actions(code))]
    for resource, actions in wanted:
        allowed, reason = rights.decide(resource, actions, ip)
        if not allowed:
            return AccessDecision(False, f"User:{name} has no permission to access {resource.key}, {reason}")
        reasons.append(reason)
    if not wanted and role is Role.PUBLISHER and not rights.publishes(ip):
        return AccessDecision(False, f"User:{name} has no permission to access any topic")
    return AccessDecision(True, "; ".join(reasons) or f"{_code_name(code)} names nothing that a policy is needed for")


def decide(rules: AccessRules, request: Command, ip: str, certificate: Sequence[str] = ()) -> AccessDecision:
    """
    Decide about a request.

    @param ip: the address that it comes from.
    @param certificate: see L{identify}.
    """
    code = request.code
    need = NEEDS.get(code)
    if need is None:
        return authorize(None, code, ())
    identity = identify(rules, request, ip, certificate)
    if identity.refusal:
        return AccessDecision(False, identity.refusal)
    try:
        needs = resource_needs(need, request)
    except RequestRefused as error:
        return AccessDecision(False, str(error))
    decision = authorize(identity.account, code, needs, ip)
    if decision.allowed:
        return AccessDecision(True, f"{identity.proof}; {decision.reason}")
    return decision


def check(rules: AccessRules, request: Command, ip: str) -> None:
    """
    Let a request pass, or refuse it.

    @param ip: the address that it comes from.
    @raise AccessDenied: with the reason.
    """
    decision = decide(rules, request, ip)
    if not decision.allowed:
        raise AccessDenied(decision.reason)


def explain(
    rules: AccessRules, name: str, code: int, topic: str | None, group: str | None, ip: str
) -> tuple[AccessDecision, str]:
    """
    Decide about a request that nobody has sent.

    @param name: the access key that it would name.
    @param topic: the topic that it would name, if any; C{group} likewise.
    @param ip: the address that it would come from; empty for one that no pattern matches.
    @return: the decision for a request that is signed where it has to be; whether it has to be, in words.
    """
    account = rules.accounts.get(name)
    if account is None:
        return AccessDecision(False, f"no account has accessKey={name}"), "no signature can be right"
    setting = rules.needs_no_signature(account, ip) if ip else ""
    signature = f"not needed: {setting} names {ip}" if setting else "needed"
    return _explained(account, code, topic, group, ip), signature


def explain_certificate(
    rules: AccessRules, names: Sequence[str], code: int, topic: str | None, group: str | None, ip: str
) -> tuple[AccessDecision, str]:
    """
    Decide about a request without an access key, which nobody has sent, over a connection with a client certificate.

    @param names: the names of the certificate; see L{explain} for the others.
    @return: the decision; why no signature is needed, or none is of use, in words.
    """
    account = rules.of_certificate(names)
    if account is None:
        return AccessDecision(False, f"no account names the certificate {' or '.join(names)}"), "needed"
    signature = f"not needed: accessKey={account.name} names the certificate {account.certificate}"
    return _explained(account, code, topic, group, ip), signature


def _explained(account: AccessAccount, code: int, topic: str | None, group: str | None, ip: str) -> AccessDecision:
    need = NEEDS.get(code)
    if need is None:
        return authorize(account, code, ())
    try:
        return authorize(account, code, named_needs(need, topic, group), ip)
    except RequestRefused as error:
        return AccessDecision(False, f"{error}; give it")


def _code_name(code: int) -> str:
    return f"request {code} ({RequestCode(code).name})"
