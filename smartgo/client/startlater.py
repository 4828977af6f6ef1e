"""The plan of a client that is made later, on a reactor that is not there yet: for asyncio, and for a thread."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from smartgo.client.client import Client
from smartgo.client.tracesettings import Tracing, tracing_of
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.net.tls import ClientTLS
from smartgo.schema.registryaddresses import registry_addresses
from smartgo.schema.signature import AccessKey


class TLSFiles(msgspec.Struct, frozen=True, kw_only=True):
    """
    The certificates for TLS with registries and brokers, read when the client starts.

    @ivar trust: path of the authorities that servers' certificates must come from; C{None}: the system's.
    @ivar certificate: path of our own certificate, for servers that ask.
    @ivar key: path of its private key.
    @ivar password: what the key is encrypted with.
    @ivar name: the host name or IP address that certificates must have, instead of the one dialled.
    """

    trust: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: str | None = None
    name: str | None = None


class ClientPlan:
    """
    The arguments of a client, checked; it can be made any number of times.

    @ivar registries: C{host:port} of each registry.
    """

    def __init__(
        self,
        registries: str | Sequence[str],
        instance: str | None,
        tls: TLSFiles | None,
        access_key: AccessKey | None,
        trace: bool | str | Tracing = False,
    ) -> None:
        """
        @raise SettingError: no registry is given, an address cannot be read, or an argument is of a wrong type.
        @raise BadName: the name of the topic of traces breaks the rules.
        """
        self.registries = registry_addresses(registries)
        if tls is not None and not isinstance(tls, TLSFiles):
            raise SettingError(f"tls is {type(tls).__name__}, and must be TLSFiles")
        tracing_of(trace)
        self._instance = instance
        self._tls = tls
        self._access_key = access_key
        self._trace = trace

    def client(self, env: IEnvironment) -> Client:
        """
        Make the client, on its reactor's thread.

        @raise SettingError: a file of the certificates cannot be used.
        """
        files = self._tls
        tls = None
        if files is not None:
            tls = ClientTLS(env, files.trust, files.certificate, files.key, files.password, files.name)
        return Client(env, self.registries, self._instance, tls, access_key=self._access_key, trace=self._trace)
