"""
Changes of the users and policies of RocketMQ 5, as administrators ask for them (3001 to 3010).

Source: C{AuthenticationMetadataManagerImpl} and C{AuthorizationMetadataManagerImpl} of C{rocketmq-auth} 5.3.3, whose
sentences these are. All methods read the file; a change replaces it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from smartgo.auth.policies import MOST_ENTRIES, BadPolicy, PolicyEntry, read_resource
from smartgo.auth.rulefiles import LARGEST, RuleFiles
from smartgo.auth.users import (
    ENABLED,
    NORMAL,
    SUPER,
    StoredUser,
    UserFile,
    acl_of,
    entries_of,
    name_of,
    read_users,
    subject_of,
    user_status,
    user_type,
    write_users,
)
from smartgo.env.interfaces import IFiles
from smartgo.schema.bodies.auth import AclInfo, UserInfo


class UserEditor:
    """Changes the users and their policies; all methods block."""

    def __init__(self, files: IFiles, rules: RuleFiles, by_super_user: bool) -> None:
        """@param by_super_user: an administrator without limits asks, who alone may change super users."""
        self._files = files
        self._rules = rules
        self._by_super_user = by_super_user

    # -- users ---------------------------------------------------------------------------------------------------

    def create_user(self, user: UserInfo) -> None:
        """Create a user. @raise BadPolicy: it is not valid, or there is one of its name."""
        name, content = user.username or "", self._content()
        if not (user.password or "").strip():
            raise BadPolicy("password can not be blank")
        if _user(content, name) is not None or name in self._rules.read().accounts:
            raise BadPolicy("The user is existed")
        made = StoredUser(
            username=name,
            password=user.password,
            user_type=user_type(user.user_type) or NORMAL,
            user_status=user_status(user.user_status) or ENABLED,
        )
        self._check_super(made, "create")
        self._write(UserFile([*content.users, made], content.acls))

    def update_user(self, user: UserInfo) -> None:
        """Change what is given of a user. @raise BadPolicy: it is not valid, or there is no such user."""
        content = self._content()
        old = _user(content, user.username or "")
        if old is None:
            raise BadPolicy("The user is not exist")
        made = StoredUser(
            username=old.username,
            password=((user.password or "").strip() and user.password) or old.password,
            user_type=user_type(user.user_type) or old.user_type,
            user_status=user_status(user.user_status) or old.user_status,
            certificate=old.certificate,
        )
        self._check_super(old, "update")
        self._check_super(made, "update")
        self._write(UserFile([made if one is old else one for one in content.users], content.acls))

    def delete_user(self, name: str) -> None:
        """
        Delete a user and its policies; as in RocketMQ, it is no mistake if there is none.

        @raise BadPolicy: it is a super user, and none asks.
        """
        content = self._content()
        old = _user(content, name)
        if old is None:
            return
        self._check_super(old, "update")
        acls = [acl for acl in content.acls if acl.subject != subject_of(name)]
        self._write(UserFile([one for one in content.users if one is not old], acls))

    def user(self, name: str) -> UserInfo | None:
        """Return a user without its password; C{None}: there is none."""
        found = _user(self._content(), name)
        return None if found is None else _told(found)

    def users(self, part: str) -> list[UserInfo]:
        """Return the users whose names have a part, without their passwords."""
        return [_told(one) for one in self._content().users if part in (one.username or "")]

    def _check_super(self, user: UserInfo, what: str) -> None:
        if user.user_type == SUPER and not self._by_super_user:
            raise BadPolicy(f"The super user can only be {what} by super user")

    # -- policies ------------------------------------------------------------------------------------------------

    def put_acl(self, subject: str, acl: AclInfo) -> None:
        """
        Add entries to a user's policies; one takes the place of that for the same resource in the same policy.

        @raise BadPolicy: an entry is not valid, or there is no such user.
        """
        content = self._content()
        if not acl.policies:
            raise BadPolicy("The policies is empty.")
        if not all(policy.entries for policy in acl.policies):
            raise BadPolicy("The policy entries is empty.")
        changed = {(one.custom, one.resource): one for one in entries_of(acl)}
        self._subject(content, subject, f"The subject of {subject} is not exist.")
        kept = {(one.custom, one.resource): one for one in self._entries(content, subject)}
        entries = list((kept | changed).values())
        if len(entries) > MOST_ENTRIES:
            raise BadPolicy(f"A user has {MOST_ENTRIES} policy entries at most.")
        self._replace(content, subject, entries)

    def delete_acl(self, subject: str, policy_type: str, resource: str) -> None:
        """
        Delete a user's policies, or the entry for one resource of one of them.

        @param policy_type: C{Custom} where it is empty.
        @param resource: empty for all.
        @raise BadPolicy: there is no such user, or it has no policies.
        """
        content = self._content()
        self._subject(content, subject, "The subject is not exist.")
        entries = self._entries(content, subject)
        if not entries:
            raise BadPolicy("The acl is not exist.")
        kept: list[PolicyEntry] = []
        if resource:
            wanted = (policy_type.lower() != "default", read_resource(resource))
            kept = [one for one in entries if (one.custom, one.resource) != wanted]
        self._replace(content, subject, kept)

    def acl(self, subject: str) -> AclInfo | None:
        """Return a user's policies; C{None}: it has none. @raise BadPolicy: there is no such user."""
        content = self._content()
        self._subject(content, subject, "The subject is not exist.")
        entries = self._entries(content, subject)
        return acl_of(subject, entries) if entries else None

    def acls(self, subject_part: str, resource_part: str) -> list[AclInfo]:
        """Return the policies of users whose subjects have a part, with the entries whose resources have another."""
        found = []
        for acl in self._content().acls:
            entries = [one for one in entries_of(acl) if resource_part in one.resource.key]
            if entries and subject_part in (acl.subject or ""):
                found.append(acl_of(acl.subject or "", entries))
        return found

    def _subject(self, content: UserFile, subject: str, missing: str) -> None:
        if _user(content, name_of(subject)) is None:
            raise BadPolicy(missing)

    def _entries(self, content: UserFile, subject: str) -> list[PolicyEntry]:
        return [entry for acl in content.acls if acl.subject == subject for entry in entries_of(acl)]

    def _replace(self, content: UserFile, subject: str, entries: list[PolicyEntry]) -> None:
        acls = [acl for acl in content.acls if acl.subject != subject]
        if entries:
            acls.append(acl_of(subject, entries))
        self._write(UserFile(content.users, acls))

    # -- the file ------------------------------------------------------------------------------------------------

    def _content(self) -> UserFile:
        path = self._rules.users
        if not self._files.exists(path):
            return UserFile()
        try:
            return read_users(self._files.read(path, LARGEST))
        except OSError:
            raise BadPolicy("the file of users cannot be read: the server's log tells why") from None

    def _write(self, content: UserFile) -> None:
        text = write_users(content)
        self._rules.read({self._rules.users: text.decode()})
        self._files.make_directories(self._rules.directory)
        self._files.replace(self._rules.users, text)


UserWork = Callable[[UserEditor], object]
"""A change, or a question."""


def _user(content: UserFile, name: str) -> StoredUser | None:
    return next((one for one in content.users if one.username == name), None)


def _told(user: UserInfo) -> UserInfo:
    return UserInfo(username=user.username, user_type=user.user_type, user_status=user.user_status)
