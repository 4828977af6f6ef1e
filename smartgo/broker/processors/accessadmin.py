"""
Requests of administrators about the accounts of 4.x's access control: 50 to 53.

Who has no access control cannot change it (16). No answer holds a secret, and the request for all of the configuration
(54) is not answered (reliability X8). Source: C{AdminBrokerProcessor} of RocketMQ 4.9.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.auth.ruleediting import AccountChange, FileVersion, RuleEditor
from smartgo.broker.interfaces import IBroker
from smartgo.broker.network import AccessChange
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import NoPermission, RequestRefused, SettingError
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.access import (
    AccessVersionResponse,
    DeleteAccountRequest,
    UpdateAccountRequest,
    WhiteAddressesRequest,
)

_FAILED: Final = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
    RequestCode.DELETE_ACL_CONFIG: ResponseCode.DELETE_ACL_CONFIG_FAILED,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: ResponseCode.SYSTEM_ERROR,
}


@implementer(IRequestProcessor)
class AccessAdmin(Processor):
    """Changes accounts and the addresses that need no signature, and tells the version of their files."""

    _log = Logger()

    codes = answered_by("accessadmin")

    def __init__(self, broker: IBroker, change: AccessChange | None) -> None:
        """@param change: has the files changed in a thread; C{None} where access control is off."""
        self._identity = broker.identity
        self._access = broker.access
        self._change = change
        self._edits: dict[int, Callable[[Command], Callable[[RuleEditor], object]]] = {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: _update,
            RequestCode.DELETE_ACL_CONFIG: _delete,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _white_addresses,
        }

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Answer once the files are changed and the rules in force.

        @raise RequestRefused: access control is off, or the request cannot be read.
        """
        if self._change is None or self._access is None:
            raise NoPermission("access control is off at this broker (aclEnable)")
        code = RequestCode(request.code)
        if code == RequestCode.GET_BROKER_CLUSTER_ACL_INFO:
            asked = self._change(RuleEditor.versions).addCallback(self._versions, request)
        else:
            sender = self._access.account_of(request, peer.certificate_names)
            name = "" if sender is None else sender.name
            asked = self._change(self._edits[code](request)).addCallback(self._changed, peer, request, name)
        return asked.addErrback(_refused, code)

    def _changed(self, _: object, peer: IPeer, request: Command, name: str) -> Answer:
        self._log.info(
            "{peer} changed the access control files by request {code}, as {name}",
            peer=peer.address,
            code=request.code,
            name=name,
        )
        return request.answer()

    def _versions(self, found: object, request: Command) -> Answer:
        versions: dict[str, dict[str, int]] = {
            name: one._asdict() for name, one in found.items() if isinstance(one, FileVersion)
        } if isinstance(found, dict) else {}  # fmt: skip
        main = next((one for name, one in versions.items() if "/" not in name), {})
        identity = self._identity
        return request.answer(
            header=AccessVersionResponse(
                version=msgspec.json.encode(main).decode(),
                all_versions=msgspec.json.encode(versions).decode(),
                broker_name=identity.name,
                broker_addr=identity.address,
                cluster_name=identity.cluster,
            )
        )


class AccessChangeRefused(RequestRefused):
    """A change of the access control files that was not made; has the code of RocketMQ for its request."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def _refused(failure: Failure, code: RequestCode) -> Answer:
    """Answer with what is wrong about a change. @raise AccessChangeRefused: the change is not valid."""
    failure.trap(SettingError)
    raise AccessChangeRefused(_FAILED[code], str(failure.value)) from None


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(one.strip() for one in (text or "").split(",") if one.strip())


def _update(request: Command) -> Callable[[RuleEditor], object]:
    header = request.read(UpdateAccountRequest)
    change = AccountChange(
        header.account,
        header.secret_key or "",
        header.white_remote_address or "",
        header.admin if "admin" in request.fields else None,
        header.default_topic_perm or "",
        header.default_group_perm or "",
        _parts(header.topic_perms),
        _parts(header.group_perms),
    )
    return lambda editor: editor.update(change)


def _delete(request: Command) -> Callable[[RuleEditor], object]:
    name = request.read(DeleteAccountRequest).account

    def delete(editor: RuleEditor) -> None:
        if not editor.delete(name):
            raise SettingError(f"there is no account with accessKey={name}")

    return delete


def _white_addresses(request: Command) -> Callable[[RuleEditor], object]:
    header = request.read(WhiteAddressesRequest)
    return lambda editor: editor.set_white_addresses(list(_parts(header.addresses)), header.file or "")
