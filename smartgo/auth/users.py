"""
The file of RocketMQ 5's users and their policies, C{users.json}, which requests 3001 to 3010 change.

It is JSON in the form of these requests' bodies: C{users}, a list of C{UserInfo}, and C{acls}, a list of C{AclInfo}.
Users are accounts as those of C{plain_acl.yml} are: the user name is the access key, the password the secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from smartgo.auth.accounts import AccessAccount, Rights
from smartgo.auth.certificates import certificate_name
from smartgo.auth.policies import MOST_ENTRIES, BadPolicy, PolicyEntry, PolicyRights, read_entry
from smartgo.schema.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from smartgo.schema.signature import AccessKey

SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"

_SUBJECT: Final = "User:"


class StoredUser(UserInfo, omit_defaults=True):
    """
    A user as the file has it.

    @ivar certificate: the name of a client certificate whose connections need no signature; see
        L{smartgo.auth.certificates}. No request tells or changes it.
    """

    certificate: str | None = None


class UserFile(msgspec.Struct, omit_defaults=True):
    """The content of the file; never changed, a change makes another one."""

    users: list[StoredUser] = []
    acls: list[AclInfo] = []


def read_users(text: bytes) -> UserFile:
    """
    Read the file.

    @raise BadPolicy: it is not in its form; it names no secret.
    """
    try:
        return msgspec.json.decode(text, type=UserFile)
    except msgspec.MsgspecError as error:
        raise BadPolicy(f"it is no list of users and their policies: {error}") from None


def write_users(content: UserFile) -> bytes:
    """Return the text of a file."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def user_type(text: str | None) -> str | None:
    """Return the type of a user as it is written; C{None} for none. @raise BadPolicy: there is no such type."""
    return _one_of(text, (SUPER, NORMAL), "user type")


def user_status(text: str | None) -> str | None:
    """Return the status of a user as it is written; C{None} for none. @raise BadPolicy: there is no such status."""
    return _one_of(text, (ENABLED, DISABLED), "user status")


def _one_of(text: str | None, words: tuple[str, str], what: str) -> str | None:
    if not text:
        return None
    found = next((one for one in words if one.lower() == text.lower()), None)
    if found is None:
        raise BadPolicy(f"The {what} is {words[0]} or {words[1]}.")
    return found


def subject_of(name: str) -> str:
    """Return how the policies of a user name it."""
    return f"{_SUBJECT}{name}"


def name_of(subject: str | None) -> str:
    """Return the user that a subject names. @raise BadPolicy: it names none."""
    if not subject or not subject.startswith(_SUBJECT) or len(subject) == len(_SUBJECT):
        raise BadPolicy("The subject is no User:NAME.")
    return subject[len(_SUBJECT) :]


def entries_of(acl: AclInfo) -> list[PolicyEntry]:
    """Return the entries of all policies. @raise BadPolicy: one of them has no meaning."""
    found = [
        read_entry(one.resource, one.actions, one.source_ips, one.decision, policy.policy_type or "Custom")
        for policy in acl.policies or ()
        for one in policy.entries or ()
    ]
    if len(found) > MOST_ENTRIES:
        raise BadPolicy(f"A user has {MOST_ENTRIES} policy entries at most.")
    return found


def acl_of(subject: str, entries: Iterable[PolicyEntry]) -> AclInfo:
    """Return the body that tells entries."""
    policies: dict[str, list[PolicyEntryInfo]] = {}
    for one in entries:
        policies.setdefault("Custom" if one.custom else "Default", []).append(
            PolicyEntryInfo(
                resource=one.resource.key,
                actions=list(one.actions),
                source_ips=list(one.sources) or None,
                decision="Allow" if one.allows else "Deny",
            )
        )
    return AclInfo(
        subject=subject,
        policies=[PolicyInfo(policy_type=kind, entries=found) for kind, found in policies.items()],
    )


def _certificate(user: StoredUser) -> str:
    try:
        return certificate_name(user.certificate) if user.certificate else ""
    except ValueError as error:
        raise BadPolicy(f"user {user.username}: certificate: {error}") from None


def accounts_of(content: UserFile, cluster: str) -> list[AccessAccount]:
    """
    Return the accounts of the users that are not disabled.

    @param cluster: the name of the cluster that requests of administrators are for.
    @raise BadPolicy: a user or a policy has no meaning.
    """
    policies: dict[str, list[PolicyEntry]] = {}
    for acl in content.acls:  # a file that somebody wrote may have several of one user
        policies.setdefault(name_of(acl.subject), []).extend(entries_of(acl))
    found = []
    for user in content.users:
        if not user.username or not user.password:
            raise BadPolicy("a user has no username or no password")
        kind, status = user_type(user.user_type), user_status(user.user_status)
        if status == DISABLED:
            continue
        own = None if kind == SUPER else PolicyRights(policies.get(user.username, ()), cluster)
        key = AccessKey(user.username, user.password)
        found.append(AccessAccount(key, Rights(own is None), policies=own, certificate=_certificate(user)))
    return found
