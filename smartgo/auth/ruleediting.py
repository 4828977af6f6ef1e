"""
Changes of the files of access control, as administrators ask for them (50, 51, 53).

Source: C{PlainPermissionManager.updateAccessConfig}, C{deleteAccessConfig} and C{updateGlobalWhiteAddrsConfig} of
RocketMQ 4.9.7. As there, an account is changed in the file that has it, a new one goes to C{plain_acl.yml}, and each
change counts up the C{dataVersion} of its file. What a file has besides is kept, but for comments. Stricter than there:
a change after which one of the files could not be read is refused, and deleted is an account from all files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from smartgo.auth.accounts import AccessRules
from smartgo.auth.plainacl import BadAccessFile
from smartgo.auth.rulefiles import LARGEST, RuleFiles, Stamp
from smartgo.auth.userediting import UserEditor
from smartgo.auth.yamltext import NotYaml, dump_yaml, load_yaml
from smartgo.env.interfaces import IFiles


class AccountChange(NamedTuple):
    """
    An account as it is to be; what is empty or C{None} stays as it is.

    @ivar topics: of the form C{NAME=PERMISSION}; C{groups} likewise.
    """

    access_key: str
    secret_key: str
    white_address: str = ""
    admin: bool | None = None
    default_topic: str = ""
    default_group: str = ""
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Return what is given, by its names in the file."""
        found: dict[str, Any] = {
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "whiteRemoteAddress": self.white_address,
            "defaultTopicPerm": self.default_topic,
            "defaultGroupPerm": self.default_group,
            "topicPerms": list(self.topics),
            "groupPerms": list(self.groups),
        }
        found = {name: value for name, value in found.items() if value}
        return found if self.admin is None else {**found, "admin": self.admin}


class FileVersion(NamedTuple):
    """The version of one file: how often it was changed by requests, and when it was changed last, in ms."""

    counter: int
    timestamp: int


class RuleEditor:
    """Changes the files of access control; all methods block."""

    def __init__(self, files: IFiles, rules: RuleFiles, wall_ms: Callable[[], int]) -> None:
        """@param wall_ms: the wall clock."""
        self._files = files
        self._rules = rules
        self._wall_ms = wall_ms

    def read(self) -> tuple[Stamp, AccessRules]:
        """Return the rules as they are now, and the stamp of the files."""
        stamp = self._rules.stamp()
        return stamp, self._rules.read()

    def users(self, by_super_user: bool) -> UserEditor:
        """Return what changes the users of RocketMQ 5; see there."""
        return UserEditor(self._files, self._rules, by_super_user)

    def update(self, change: AccountChange) -> None:
        """
        Change an account, or create it.

        @raise BadAccessFile: the account would not be valid, or a user has its name.
        """
        for path in self._rules.paths():
            content = self._content(path)
            for account in _accounts(content):
                if str(account.get("accessKey")) == change.access_key:
                    account.update(change.settings())
                    self._write(path, content)
                    return
        if self.users(False).user(change.access_key) is not None:
            raise BadAccessFile(f"{change.access_key} is a user of RocketMQ 5, in whose place the account would count")
        path = self._rules.main
        content = self._content(path) if self._files.exists(path) else {}
        content["accounts"] = [*_accounts(content), change.settings()]
        self._write(path, content)

    def delete(self, access_key: str) -> bool:
        """Delete an account from all files, since of two with one key the next would count; false: no file has it."""
        found = False
        for path in self._rules.paths():
            content = self._content(path)
            accounts = _accounts(content)
            kept = [one for one in accounts if str(one.get("accessKey")) != access_key]
            if len(kept) < len(accounts):
                content["accounts"] = kept
                self._write(path, content)
                found = True
        return found

    def set_white_addresses(self, addresses: list[str], name: str = "") -> None:
        """
        Replace the addresses of one file whose requests need no signature.

        @param name: the file, by its path or its name as L{versions} gives it; empty for C{plain_acl.yml}.
        @raise BadAccessFile: it is none of the files, or an address is not allowed.
        """
        path = self._rules.main
        if name:
            found = [one for one in self._rules.paths() if name in (one, self._name(one))]
            if not found:
                raise BadAccessFile("the file that is named is none of the access control files")
            path = found[0]
        content = self._content(path) if self._files.exists(path) else {}
        content["globalWhiteRemoteAddresses"] = addresses
        self._write(path, content)

    def versions(self) -> dict[str, FileVersion]:
        """Return the version of each file, by its path below the directory; C{plain_acl.yml} is always there."""
        found = {self._name(path): self._version(path) for path in self._rules.paths()}
        return {self._name(self._rules.main): FileVersion(0, 0), **found}

    # -- files ---------------------------------------------------------------------------------------------------

    def _name(self, path: str) -> str:
        return posixpath.relpath(path, self._rules.directory)

    def _version(self, path: str) -> FileVersion:
        try:
            said = self._content(path).get("dataVersion")
            first: Mapping[str, Any] = said[0] if isinstance(said, list) else {}
            return FileVersion(int(first["counter"]), int(first["timestamp"]))
        except (LookupError, TypeError, ValueError, BadAccessFile):
            return FileVersion(0, self._files.modified_ms(path))

    def _content(self, path: str) -> dict[str, Any]:
        try:
            content = load_yaml(self._files.read(path, LARGEST))
        except (OSError, NotYaml):
            raise BadAccessFile(f"{self._name(path)} cannot be read: the server's log tells why") from None
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise BadAccessFile(f"{self._name(path)} cannot be read: the server's log tells why")
        return content

    def _write(self, path: str, content: dict[str, Any]) -> None:
        before = self._version(path).counter if self._files.exists(path) else 0
        content["dataVersion"] = [{"counter": before + 1, "timestamp": self._wall_ms()}]
        text = dump_yaml(content)
        self._rules.read({path: text})
        self._files.make_directories(posixpath.dirname(path))
        self._files.replace(path, text.encode())


def _accounts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the accounts of a file, as they stand in it."""
    accounts = content.get("accounts")
    if not isinstance(accounts, list):
        return []
    return [one for one in accounts if isinstance(one, dict)]
