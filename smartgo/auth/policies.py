"""
Policies of RocketMQ 5's users: what a user may do with which topics, groups and clusters, and from where.

Source: C{Resource}, C{PolicyEntry} and C{AclAuthorizationHandler} of C{rocketmq-auth} 5.3.3. As there, the custom
policy counts before the default one, and of several entries that match a request the one with the most definite
resource.
Stricter than there: of two entries for one resource the one that denies counts, whatever their order.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from smartgo.errors import SettingError
from smartgo.schema.topics import DLQ_PREFIX, HOLD_OTHERS_MESSAGES, RETRY_PREFIX

ALL: Final = "All"
"""The action that stands for all others."""

ACTIONS: Final = (ALL, "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
"""The actions of an entry, as RocketMQ 5 names them."""

_BY_NAME: Final = {name.lower(): name for name in ACTIONS}

MOST_ENTRIES: Final = 1024
"""Entries of the policies of one user."""


class BadPolicy(SettingError):
    """A user or a policy that cannot be used; the message is RocketMQ's where it has one."""


class ResourceKind(Enum):
    """The kinds of resources, with RocketMQ's names."""

    ANY = "*"
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """
    A resource of a request, or a pattern for several.

    @ivar name: the whole name, or its beginning where C{begins} is true.
    @ivar begins: it stands for all names that begin so; with an empty name for all of its kind.
    """

    kind: ResourceKind
    name: str
    begins: bool = False

    @property
    def key(self) -> str:
        """The resource as RocketMQ writes it: C{Topic:orders}, C{Group:bill*}, C{*}."""
        if self.kind is ResourceKind.ANY:
            return "*"
        return f"{self.kind.value}:{self.name}{'*' if self.begins else ''}"

    def matches(self, one: Resource) -> bool:
        """Tell whether this pattern stands for a resource, among others."""
        if self.kind is ResourceKind.ANY:
            return True
        if self.kind is not one.kind:
            return False
        return one.name.startswith(self.name) if self.begins else one.name == self.name

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """Greater for a more definite pattern."""
        return self.kind is not ResourceKind.ANY, not self.begins, len(self.name)


def read_resource(key: str) -> Resource:
    """
    Read a resource as RocketMQ writes it.

    @raise BadPolicy: it is none.
    """
    if key == "*":
        return Resource(ResourceKind.ANY, "", True)
    word, _, name = key.partition(":")
    kind = next((one for one in ResourceKind if one.value.lower() == word.lower()), None)
    if kind is None or kind is ResourceKind.ANY or not name:
        raise BadPolicy("The resource is null.")
    if name.endswith("*"):
        return Resource(kind, name[:-1], True)
    return Resource(kind, name)


def resource_of(name: str) -> Resource:
    """Return the resource of a topic, or of the group whose retry topic this is."""
    if name.startswith(RETRY_PREFIX):
        return Resource(ResourceKind.GROUP, name[len(RETRY_PREFIX) :])
    return Resource(ResourceKind.TOPIC, name)


class PolicyEntry(NamedTuple):
    """
    One entry of a policy.

    @ivar actions: of L{ACTIONS}.
    @ivar sources: the addresses and networks that it holds for; empty for all.
    @ivar allows: whether it allows or denies.
    @ivar custom: whether it belongs to the custom policy, and not to the default one.
    """

    resource: Resource
    actions: tuple[str, ...]
    sources: tuple[str, ...] = ()
    allows: bool = True
    custom: bool = True

    def matches(self, resource: Resource, actions: Iterable[str], ip: str) -> bool:
        """
        Tell whether the entry says something about a request.

        @param actions: any of them is enough for the request.
        @param ip: where the request comes from.
        """
        if not self.resource.matches(resource) or not (ALL in self.actions or set(actions) & set(self.actions)):
            return False
        return not self.sources or any(_lies_in(ip, one) for one in self.sources)

    @property
    def words(self) -> str:
        """The entry in a sentence."""
        decision = "allows" if self.allows else "denies"
        where = f" from {', '.join(self.sources)}" if self.sources else ""
        return f"the policy for {self.resource.key} {decision} {', '.join(self.actions)}{where}"


def read_entry(
    resource: str | None, actions: Iterable[str] | None, sources: Iterable[str] | None, decision: str | None, kind: str
) -> PolicyEntry:
    """
    Make an entry of the texts of a request or a file.

    @param kind: the type of its policy, C{Custom} or C{Default}.
    @raise BadPolicy: one of them has no meaning.
    """
    if not resource:
        raise BadPolicy("The resource is null.")
    known = tuple(dict.fromkeys(_BY_NAME.get(one.strip().lower(), "") for one in actions or ()))
    if not known:
        raise BadPolicy("The actions is empty.")
    if "" in known:
        raise BadPolicy(f"The actions are {', '.join(ACTIONS)}.")
    found = tuple(one.strip() for one in sources or ())
    for one in found:
        if not one:
            raise BadPolicy("The source ip is empty.")
        try:
            ipaddress.ip_network(one, strict=False)
        except ValueError:
            raise BadPolicy("The source ip is invalid.") from None
    allows = {"allow": True, "deny": False}.get((decision or "").lower())
    if allows is None:
        raise BadPolicy("The decision is null or illegal.")
    if kind.lower() not in ("custom", "default"):
        raise BadPolicy("The policy type is null or illegal.")
    return PolicyEntry(read_resource(resource), known, found, allows, kind.lower() == "custom")


def _lies_in(ip: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(ip) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


class PolicyRights:
    """
    The rights of a normal user of RocketMQ 5: those of its policies.

    @ivar entries: of the custom policy first, then by weight.
    @ivar cluster: the name of the cluster that administrators' requests are for.
    """

    __slots__ = ("cluster", "entries")

    def __init__(self, entries: Iterable[PolicyEntry], cluster: str = "") -> None:
        self.entries = tuple(
            sorted(entries, key=lambda one: (one.custom, one.resource.weight, not one.allows), reverse=True)
        )
        self.cluster = cluster

    @property
    def by_address(self) -> bool:
        """True if an entry depends on the address that a request comes from."""
        return any(one.sources for one in self.entries)

    def decide(self, resource: Resource, actions: Iterable[str], ip: str) -> tuple[bool, str]:
        """
        Decide about one resource of a request.

        @param actions: any of them is enough.
        @return: whether it is allowed, and why.
        """
        wanted = tuple(actions)
        for entry in self.entries:
            if entry.matches(resource, wanted, ip) and not self._means_others(entry, resource, ip):
                return entry.allows, entry.words
        return False, f"no policy for {resource.key} has {' or '.join(wanted)}"

    def _means_others(self, entry: PolicyEntry, resource: Resource, ip: str) -> bool:
        """
        Tell whether an entry that allows many topics is not meant for one of them.

        Messages of all topics wait in that one, or it has the dead letters of a group that the user may not consume in.
        """
        if not entry.allows or not entry.resource.begins or resource.kind is not ResourceKind.TOPIC:
            return False
        if resource.name in HOLD_OTHERS_MESSAGES:
            return True
        if not resource.name.startswith(DLQ_PREFIX):
            return False
        group = Resource(ResourceKind.GROUP, resource.name[len(DLQ_PREFIX) :])
        return not self.decide(group, ("Sub", "Get"), ip)[0]

    def publishes(self, ip: str) -> bool:
        """Tell whether there is a topic that may be published to, from an address."""
        return any(
            one.allows and one.matches(one.resource, ("Pub",), ip)
            for one in self.entries
            if one.resource.kind in (ResourceKind.TOPIC, ResourceKind.ANY)
        )
