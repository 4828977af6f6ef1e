"""
Requests of administrators about RocketMQ 5's users and their policies: 3001 to 3010.

Who has no access control cannot change it (16). No answer holds a password (reliability X8). Source:
C{AdminBrokerProcessor} of RocketMQ 5.3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.auth.ruleediting import RuleEditor
from smartgo.auth.userediting import UserWork
from smartgo.broker.interfaces import IBroker
from smartgo.broker.network import AccessChange
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import InvalidParameter, NoPermission, SettingError
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies.auth import AclInfo, UserInfo
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.access import (
    DeletePoliciesRequest,
    ListPoliciesRequest,
    ListUsersRequest,
    SubjectRequest,
    UserRequest,
)


def _user(request: Command) -> UserInfo:
    """Return the user of a request: its name stands in the header, the rest in the body."""
    return msgspec.structs.replace(UserInfo.decode(request.body), username=_name(request))


def _name(request: Command) -> str:
    name = (request.read(UserRequest).username or "").strip()
    if not name:
        raise InvalidParameter("The username is blank")
    return name


def _create_user(request: Command) -> UserWork:
    user = _user(request)
    return lambda users: users.create_user(user)


def _update_user(request: Command) -> UserWork:
    user = _user(request)
    return lambda users: users.update_user(user)


def _delete_user(request: Command) -> UserWork:
    name = _name(request)
    return lambda users: users.delete_user(name)


def _get_user(request: Command) -> UserWork:
    name = _name(request)
    return lambda users: users.user(name)


def _list_users(request: Command) -> UserWork:
    part = request.read(ListUsersRequest).part or ""
    return lambda users: users.users(part)


def _put_acl(request: Command) -> UserWork:
    subject = request.read(SubjectRequest).subject
    if not request.body:
        raise InvalidParameter("The body of acl is null")
    acl = AclInfo.decode(request.body)
    return lambda users: users.put_acl(subject, acl)


def _delete_acl(request: Command) -> UserWork:
    header = request.read(DeletePoliciesRequest)
    return lambda users: users.delete_acl(header.subject, header.policy_type or "", header.resource or "")


def _get_acl(request: Command) -> UserWork:
    subject = request.read(SubjectRequest).subject
    return lambda users: users.acl(subject)


def _list_acls(request: Command) -> UserWork:
    header = request.read(ListPoliciesRequest)
    return lambda users: users.acls(header.subject_part or "", header.resource_part or "")


_WORK: Final[dict[int, Callable[[Command], UserWork]]] = {
    RequestCode.AUTH_CREATE_USER: _create_user,
    RequestCode.AUTH_UPDATE_USER: _update_user,
    RequestCode.AUTH_DELETE_USER: _delete_user,
    RequestCode.AUTH_GET_USER: _get_user,
    RequestCode.AUTH_LIST_USER: _list_users,
    RequestCode.AUTH_CREATE_ACL: _put_acl,
    RequestCode.AUTH_UPDATE_ACL: _put_acl,
    RequestCode.AUTH_DELETE_ACL: _delete_acl,
    RequestCode.AUTH_GET_ACL: _get_acl,
    RequestCode.AUTH_LIST_ACL: _list_acls,
}
_ASKS: Final = frozenset(
    {RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER, RequestCode.AUTH_GET_ACL, RequestCode.AUTH_LIST_ACL}
)


@implementer(IRequestProcessor)
class UserAdmin(Processor):
    """Changes users and their policies, and tells about them."""

    _log = Logger()

    codes = answered_by("useradmin")

    def __init__(self, broker: IBroker, change: AccessChange | None) -> None:
        """@param change: has the files changed in a thread; C{None} where access control is off."""
        self._access = broker.access
        self._change = change

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Answer once the file is changed and the rules in force.

        @raise RequestRefused: access control is off, or the request cannot be read.
        """
        if self._change is None or self._access is None:
            raise NoPermission("access control is off at this broker (aclEnable)")
        work = _WORK[request.code](request)
        sender = self._access.account_of(request, peer.certificate_names)
        is_super = sender is not None and sender.rights.unlimited
        name = "" if sender is None else sender.name

        def edit(editor: RuleEditor) -> object:
            return work(editor.users(is_super))

        return self._change(edit).addCallbacks(self._answer, _refused, (peer, request, name))

    def _answer(self, found: object, peer: IPeer, request: Command, name: str) -> Answer:
        if request.code not in _ASKS:
            self._log.info(
                "{peer} changed the users of access control by request {code}, as {name}",
                peer=peer.address,
                code=request.code,
                name=name,
            )
        return request.answer(body=b"" if found is None else msgspec.json.encode(found))


def _refused(failure: Failure) -> Answer:
    """Answer with what is wrong about a change. @raise NoPermission: as RocketMQ does."""
    failure.trap(SettingError)
    raise NoPermission(str(failure.value)) from None
