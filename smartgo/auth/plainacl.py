"""
The file C{plain_acl.yml} of RocketMQ 4.9.

Source: C{PlainPermissionManager} and C{PlainAccessConfig} of RocketMQ 4.9.7; docs/spec/remoting#acl. Stricter than
there: a pattern that every address matches is refused (docs/spec/reliability#X4), and so is a key that YAML reads as
neither text nor a whole number. Not there: C{certificate} of an account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from smartgo.auth.accounts import PERMISSIONS, AccessAccount, AccessRules, Permission, Rights
from smartgo.auth.addresses import AddressPattern, BadAddressPattern
from smartgo.auth.certificates import certificate_name
from smartgo.auth.yamltext import NotYaml, load_yaml
from smartgo.errors import SettingError
from smartgo.schema.signature import AccessKey
from smartgo.schema.topics import retry_topic

SHORTEST_KEY: Final = 7
"""Characters of an access key and of a secret."""

_KNOWN: Final = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
_KNOWN_OF_ACCOUNT: Final = frozenset(
    {
        "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
        "groupPerms", "certificate",
    }
)  # fmt: skip


class BadAccessFile(SettingError):
    """A C{plain_acl.yml} that cannot be used; the message says where and why, without secrets."""


def read_plain_acl(text: str) -> AccessRules:
    """
    Read the text of a file C{plain_acl.yml}.

    The first of two accounts with one key counts, as in RocketMQ.

    @raise BadAccessFile: it is no YAML, or a part of it has no meaning.
    """
    try:
        content = load_yaml(text)
    except NotYaml as error:
        raise BadAccessFile(f"the access control file is no YAML{error}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise BadAccessFile("the access control file has to be a mapping with globalWhiteRemoteAddresses and accounts")
    notes = [f"{name} is unknown, without effect{_meant(name, _KNOWN)}" for name in content if name not in _KNOWN]
    patterns = [
        pattern
        for pattern in (
            _pattern(one, "globalWhiteRemoteAddresses") for one in _list(content, "globalWhiteRemoteAddresses", "")
        )
        if pattern
    ]
    accounts: dict[str, AccessAccount] = {}
    for number, entry in enumerate(_list(content, "accounts", ""), 1):
        if not isinstance(entry, dict):
            raise BadAccessFile(f"account {number} has to be a mapping with accessKey and secretKey")
        account = _account(entry, f"account {number}", notes)
        if account.name in accounts:
            notes.append(f"account {number}: accessKey {account.name} stands twice, the first one counts")
        else:
            accounts[account.name] = account
    return AccessRules(accounts.values(), patterns, notes)


def _account(entry: Mapping[str, Any], where: str, notes: list[str]) -> AccessAccount:
    """Make an account of its mapping; add to C{notes} what has no effect."""
    name = _key(entry, "accessKey", where)
    secret = _key(entry, "secretKey", where)
    where = f"account {name}"
    notes.extend(
        f"{where}: {one} is unknown, without effect{_meant(one, _KNOWN_OF_ACCOUNT)}"
        for one in entry
        if one not in _KNOWN_OF_ACCOUNT
    )
    resources: dict[str, Permission] = {}
    for group, permission in _permissions(entry, "groupPerms", where, notes):
        resources[retry_topic(group)] = permission
    resources.update(_permissions(entry, "topicPerms", where, notes))
    rights = Rights(
        _admin(entry, where),
        _default(entry, "defaultTopicPerm", where, notes),
        _default(entry, "defaultGroupPerm", where, notes),
        resources,
    )
    unsigned_from = _pattern(entry.get("whiteRemoteAddress"), where)
    return AccessAccount(AccessKey(name, secret), rights, unsigned_from, certificate=_certificate(entry, where))


def _meant(name: object, known: Iterable[str]) -> str:
    """Return a question for the name that somebody may have meant; empty where there is none like it."""
    found = get_close_matches(str(name), known, 1)
    return f" (is {found[0]} meant?)" if found else ""


def _key(entry: Mapping[str, Any], name: str, where: str) -> str:
    """Return a key or a secret; RocketMQ takes whole numbers for text."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and len(value) < SHORTEST_KEY):
        raise BadAccessFile(f"{where}: {name} has to have {SHORTEST_KEY} characters or more")
    if not isinstance(value, str):
        raise BadAccessFile(f"{where}: {name} is no text for YAML, put it in quotes")
    return value


def _admin(entry: Mapping[str, Any], where: str) -> bool:
    value = entry.get("admin")
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise BadAccessFile(f"{where}: admin has to be true or false")


def _certificate(entry: Mapping[str, Any], where: str) -> str:
    """Return the certificate that an account names, which is smartgo's own; RocketMQ looks at no such key."""
    value = entry.get("certificate")
    if value is None or value == "":
        return ""
    try:
        return certificate_name(str(value))
    except ValueError as error:
        raise BadAccessFile(f"{where}: certificate: {error}") from None


def _default(entry: Mapping[str, Any], name: str, where: str, notes: list[str]) -> Permission:
    value = entry.get(name)
    return Permission.DENY if value is None else _permission(str(value), f"{where}: {name}", notes)


def _permission(text: str, where: str, notes: list[str]) -> Permission:
    """Return the permission of a text; one that has no meaning denies, as in RocketMQ, and is noted."""
    permission = PERMISSIONS.get(text.strip())
    if permission is None:
        notes.append(f"{where}: {text.strip()} is none of {', '.join(PERMISSIONS)} and counts as DENY")
        return Permission.DENY
    return permission


def _permissions(entry: Mapping[str, Any], name: str, where: str, notes: list[str]) -> Iterator[tuple[str, Permission]]:
    """Yield the resources of a list such as C{[orders=PUB]} with their permissions."""
    for one in _list(entry, name, f"{where}: "):
        halves = [half.strip() for half in str(one).split("=") if half]
        if len(halves) != 2 or not halves[0]:
            raise BadAccessFile(f"{where}: {name}: {one} is not of the form NAME=PERMISSION")
        yield halves[0], _permission(halves[1], f"{where}: {name}: {halves[0]}", notes)


def _list(content: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = content.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadAccessFile(f"{where}{name} has to be a list")
    return value


def _pattern(value: object, where: str) -> AddressPattern:
    try:
        return AddressPattern("" if value is None else str(value))
    except BadAddressPattern as error:
        raise BadAccessFile(f"{where}: {error}") from None
