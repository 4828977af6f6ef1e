"""Declaration of settings: a setting is a field of a struct with its default, its kind, and its name in files."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec

from smartgo.config.kinds import SettingKind

_SPELLED = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "check_crc_on_read": "checkCRCOnRead",
    "check_crc_on_recover": "checkCRCOnRecover",
    "server_mode": "tls.server.mode",
    "server_cert_path": "tls.server.certPath",
    "server_key_path": "tls.server.keyPath",
    "server_key_password": "tls.server.keyPassword",
    "server_trust_cert_path": "tls.server.trustCertPath",
    "server_need_client_auth": "tls.server.need.client.auth",
    "client_enable": "tls.enable",
    "client_cert_path": "tls.client.certPath",
    "client_key_path": "tls.client.keyPath",
    "client_key_password": "tls.client.keyPassword",
    "client_trust_cert_path": "tls.client.trustCertPath",
}


def file_name(attribute: str) -> str:
    """Return what a setting is called in files: camel case, with RocketMQ's exceptions."""
    return _SPELLED.get(attribute) or re.sub("_([a-z])", lambda match: match[1].upper(), attribute)


T = TypeVar("T")


class SettingDefault:
    """
    The default of a field, together with what may be there instead: msgspec keeps nothing else of ours by a field.

    @ivar default: an immutable value.
    """

    def __init__(self, default: Any, kind: SettingKind) -> None:
        self.default = default
        self.kind = kind

    def __call__(self) -> Any:
        """Return the default."""
        return self.default


class Table(msgspec.Struct, frozen=True):
    """Settings of one table, each declared by L{setting}."""

    def __repr__(self) -> str:
        """Leave secrets out: whatever is logged or fails may show us (reliability X18)."""
        shown = []
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            secret = cast("SettingDefault", field.default_factory).kind.secret
            shown.append(f"{field.name}={'***' if secret and value else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def setting(default: T, kind: SettingKind) -> T:
    """Declare one setting."""
    return cast("T", msgspec.field(default_factory=SettingDefault(default, kind)))
