"""
Accounts and their rights.

Source: C{Permission}, C{PlainAccessResource} and C{PlainPermissionManager} of RocketMQ 4.9.7; docs/spec/remoting#acl.
As there, a group's rights are kept under the name of its retry topic, so that one table holds topics and groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from smartgo.auth.addresses import AddressPattern
from smartgo.schema.signature import AccessKey
from smartgo.schema.topics import DLQ_PREFIX, HOLD_OTHERS_MESSAGES, RETRY_PREFIX, retry_topic

if TYPE_CHECKING:
    from smartgo.auth.policies import PolicyRights


class Permission(IntFlag):
    """
    Rights for a topic or a group, with RocketMQ's numbers.

    C{DENY} outweighs all others. C{ANY} is only needed, never owned: either C{PUB} or C{SUB} is enough.
    """

    DENY = 1
    ANY = 2
    PUB = 4
    SUB = 8

    def covers(self, needed: Permission) -> bool:
        """Tell whether who owns this may do what needs C{needed}."""
        if self & Permission.DENY:
            return False
        if needed & Permission.ANY:
            return bool(self & (Permission.PUB | Permission.SUB))
        return bool(self & needed)

    @property
    def words(self) -> str:
        """The permission as C{plain_acl.yml} writes it."""
        if self & Permission.DENY:
            return "DENY"
        both = self | (Permission.PUB | Permission.SUB if self & Permission.ANY else self)
        joint = " or " if self & Permission.ANY else "|"
        return joint.join(str(one.name) for one in (Permission.PUB, Permission.SUB) if both & one)


PERMISSIONS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        "PUB": Permission.PUB,
        "SUB": Permission.SUB,
        "PUB|SUB": Permission.PUB | Permission.SUB,
        "SUB|PUB": Permission.PUB | Permission.SUB,
        "DENY": Permission.DENY,
    }
)
"""The permissions that C{plain_acl.yml} can name; RocketMQ reads any other text as C{DENY}."""


_MOST_CERTIFICATES: Final = 1024
"""Certificates whose account is remembered; one more forgets all of them."""


def named(resource: str) -> str:
    """Return what a resource is called in sentences: C{topic orders}, C{group billing}."""
    if resource.startswith(RETRY_PREFIX):
        return f"group {resource[len(RETRY_PREFIX) :]}"
    return f"topic {resource}"


class Rights(NamedTuple):
    """
    The permissions of an account.

    @ivar admin: it may do what only administrators may; without C{resources} it may do everything.
    @ivar topics: its permission for topics that C{resources} does not name.
    @ivar groups: its permission for groups that C{resources} does not name.
    @ivar resources: permissions by topic, and by retry topic for groups.
    """

    admin: bool = False
    topics: Permission = Permission.DENY
    groups: Permission = Permission.DENY
    resources: Mapping[str, Permission] = MappingProxyType({})

    @property
    def unlimited(self) -> bool:
        """Tell whether no permission has to be looked up: an administrator whom no permission was written for."""
        return self.admin and not self.resources

    def of(self, resource: str) -> tuple[Permission, str]:
        """
        Return the permission for a resource, and which setting gives it.

        The default for topics leaves out those in which messages of all topics wait, and the dead letters of a group
        that the account may not consume in: in both are messages of topics that may be denied to it.
        """
        group = resource.startswith(RETRY_PREFIX)
        owned = self.resources.get(resource)
        if owned is not None:
            return owned, "groupPerms" if group else "topicPerms"
        if resource in HOLD_OTHERS_MESSAGES:
            return Permission.DENY, "topicPerms"
        if resource.startswith(DLQ_PREFIX):
            own, setting = self.of(retry_topic(resource[len(DLQ_PREFIX) :]))
            if not own.covers(Permission.SUB):
                return Permission.DENY, setting
        return (self.groups, "defaultGroupPerm") if group else (self.topics, "defaultTopicPerm")

    def publishes(self) -> bool:
        """Tell whether there is a topic that may be published to."""
        if self.unlimited or self.topics.covers(Permission.PUB):
            return True
        return any(
            owned.covers(Permission.PUB)
            for resource, owned in self.resources.items()
            if not resource.startswith(RETRY_PREFIX)
        )


class AccessAccount:
    """
    A client's identity: a key, its secret, its rights, and what shows in the place of a signature who sends a request.

    @ivar name: the public name of the key.
    @ivar key: checks signatures.
    @ivar rights: what it may do.
    @ivar unsigned_from: requests from there count as this account's without a signature.
    @ivar policies: what a normal user of RocketMQ 5 may do, instead of C{rights}; C{None} for other accounts.
    @ivar certificate: the name of a client certificate whose connections need no signature; empty for none. See
        L{smartgo.auth.certificates}.
    """

    __slots__ = ("certificate", "key", "name", "policies", "rights", "unsigned_from")

    def __init__(
        self,
        key: AccessKey,
        rights: Rights,
        unsigned_from: AddressPattern | None = None,
        policies: PolicyRights | None = None,
        certificate: str = "",
    ) -> None:
        self.name = key.access_key
        self.key = key
        self.rights = rights
        self.policies = policies
        self.certificate = certificate
        self.unsigned_from = AddressPattern("") if unsigned_from is None else unsigned_from

    def __repr__(self) -> str:
        """Leave the secret out (reliability X18)."""
        return f"<account {self.name}>"


class AccessRules:
    """
    All accounts, and where requests of any account need no signature. Never changed: a new file makes new rules.

    @ivar accounts: by the public names of their keys; of two that name one certificate the first counts.
    @ivar unsigned_from: requests from there are taken for the account's that they name.
    @ivar notes: what in the file has no effect, or not the one that one might expect; sentences without secrets.
    """

    __slots__ = ("_by_certificate", "_known_certificates", "accounts", "notes", "unsigned_from")

    def __init__(
        self,
        accounts: Iterable[AccessAccount] = (),
        unsigned_from: Iterable[AddressPattern] = (),
        notes: Iterable[str] = (),
    ) -> None:
        self.accounts: Mapping[str, AccessAccount] = MappingProxyType({one.name: one for one in accounts})
        self.unsigned_from = tuple(unsigned_from)
        self.notes = tuple(notes)
        self._by_certificate: dict[str, AccessAccount] = {}
        self._known_certificates: dict[tuple[str, ...], AccessAccount | None] = {}
        for one in self.accounts.values():
            if one.certificate:
                self._by_certificate.setdefault(one.certificate, one)

    @property
    def name_certificates(self) -> bool:
        """Tell whether any account names a certificate."""
        return bool(self._by_certificate)

    def of_certificate(self, names: Iterable[str]) -> AccessAccount | None:
        """
        Return the account of the requests without an access key that come over a connection; C{None}: there is none.

        @param names: the names of the client certificate that TLS has verified; the first that an account has counts.
        """
        if not self._by_certificate:
            return None
        asked = tuple(names)
        try:
            return self._known_certificates[asked]
        except KeyError:
            pass
        account = next((found for name in asked if (found := self._by_certificate.get(name)) is not None), None)
        if len(self._known_certificates) >= _MOST_CERTIFICATES:
            self._known_certificates.clear()
        self._known_certificates[asked] = account
        return account

    def needs_no_signature(self, account: AccessAccount, ip: str) -> str:
        """Return the setting by which requests of an account from an address need no signature; empty if they do."""
        if any(pattern.matches(ip) for pattern in self.unsigned_from):
            return "globalWhiteRemoteAddresses"
        return "whiteRemoteAddress" if account.unsigned_from.matches(ip) else ""
