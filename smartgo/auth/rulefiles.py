"""
The files of access control: C{plain_acl.yml} and all C{*.yml} below C{acl}, in one directory, as RocketMQ 4.9 has them.

Source: C{PlainPermissionManager.getAllAclFiles} and C{load} of RocketMQ 4.9.7. As there, the files below C{acl} are
read first, C{plain_acl.yml} last, and of two accounts with one key the first counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from smartgo.auth.accounts import AccessAccount, AccessRules
from smartgo.auth.addresses import AddressPattern
from smartgo.auth.plainacl import BadAccessFile, read_plain_acl
from smartgo.auth.policies import BadPolicy
from smartgo.auth.users import accounts_of, read_users
from smartgo.env.interfaces import IFiles

MAIN_FILE: Final = "plain_acl.yml"
"""The file that RocketMQ has had from the beginning."""

USERS_FILE: Final = "users.json"
"""The users of RocketMQ 5 and their policies."""

MORE_FILES: Final = "acl"
"""The directory of further files."""

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one file."""

_DEEPEST: Final = 8
_ENDINGS: Final = (".yml", ".yaml")

Stamp: TypeAlias = "tuple[tuple[str, int, int], ...]"
"""Of each file: path, time of its last change in ms, size in bytes."""


class RuleFiles:
    """The files of access control in one directory; all methods block."""

    def __init__(self, files: IFiles, directory: str, cluster: str = "") -> None:
        """@param cluster: the name of the cluster that policies for clusters are about."""
        self._files = files
        self.directory = directory
        self._cluster = cluster

    @property
    def main(self) -> str:
        """The path of C{plain_acl.yml}."""
        return posixpath.join(self.directory, MAIN_FILE)

    @property
    def users(self) -> str:
        """The path of C{users.json}."""
        return posixpath.join(self.directory, USERS_FILE)

    def stamp(self) -> Stamp:
        """Return what changes if a file is changed, added or removed."""
        found = []
        for path in (*self.paths(), self.users):
            try:
                found.append((path, self._files.modified_ms(path), self._files.size(path)))
            except FileNotFoundError:
                continue
        return tuple(found)

    def paths(self) -> list[str]:
        """Return the paths of all files of RocketMQ 4's form, in the order in which they are read."""
        found = list(self._below(posixpath.join(self.directory, MORE_FILES), _DEEPEST))
        if self._files.exists(self.main):
            found.append(self.main)
        return found

    def _below(self, directory: str, deepest: int) -> Iterator[str]:
        if not deepest or not self._files.is_directory(directory):
            return
        for name in sorted(self._files.list(directory)):
            path = posixpath.join(directory, name)
            if self._files.is_directory(path):
                yield from self._below(path, deepest - 1)
            elif name.endswith(_ENDINGS):
                yield path

    def read(self, instead: Mapping[str, str] | None = None) -> AccessRules:
        """
        Return the rules of all files together.

        @param instead: texts by path that count in the place of what these files say; they may not be there yet.
        @raise BadAccessFile: there is no file, or one cannot be read; the message names it.
        """
        texts = instead or {}
        paths = self.paths()
        paths += [path for path in texts if path not in (*paths, self.users)]
        has_users = self.users in texts or self._files.exists(self.users)
        if not paths and not has_users:
            raise BadAccessFile(f"there is no access control file: neither {self.main} nor a file below {MORE_FILES}")
        accounts: dict[str, AccessAccount] = {}
        patterns: list[AddressPattern] = []
        notes: list[str] = []
        for path in paths:
            rules = self._read(path, texts.get(path))
            patterns += rules.unsigned_from
            notes += [f"{path}: {note}" for note in rules.notes]
            for name, account in rules.accounts.items():
                if name in accounts:
                    notes.append(f"{path}: account {name}: another file, which is read before, has this accessKey")
                else:
                    accounts[name] = account
        for account in self._read_users(texts.get(self.users)) if has_users else ():
            if account.name in accounts:
                notes.append(f"{self.users}: user {account.name}: an account has this accessKey, and counts instead")
            else:
                accounts[account.name] = account
        notes += _named_twice(accounts.values())
        return AccessRules(accounts.values(), patterns, notes)

    def _read_users(self, text: str | None) -> list[AccessAccount]:
        try:
            data = self._files.read(self.users, LARGEST) if text is None else text.encode()
            return accounts_of(read_users(data), self._cluster)
        except OSError as error:
            raise BadAccessFile(f"{self.users}: {error.strerror or error}") from None
        except BadPolicy as error:
            raise BadAccessFile(f"{self.users}: {error}") from None

    def _read(self, path: str, text: str | None) -> AccessRules:
        try:
            return read_plain_acl(self._files.read(path, LARGEST).decode() if text is None else text)
        except OSError as error:
            raise BadAccessFile(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise BadAccessFile(f"{path}: it is no UTF-8") from None
        except BadAccessFile as error:
            raise BadAccessFile(f"{path}: {error}") from None


def _named_twice(accounts: Iterable[AccessAccount]) -> Iterator[str]:
    """Yield a note for each account whose certificate another one names before it."""
    first: dict[str, str] = {}
    for one in accounts:
        if one.certificate and first.setdefault(one.certificate, one.name) != one.name:
            other = first[one.certificate]
            yield f"account {one.name}: account {other} names certificate {one.certificate}, and counts"
