"""The way to a cluster: registries, TLS, access keys, time-outs; the options that every connection needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from smartgo.schema.signature import AccessKey

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""The group in whose name is pulled where none is given: brokers always have it, and it stands for no consumer."""


@dataclass(frozen=True)
class TLSFileNames:
    """
    The files of TLS, all PEM.

    @ivar trust: the authorities that servers' certificates must come from, C{None} for the system's.
    @ivar certificate: our own, for servers that ask; C{key} its private key, C{password} what that is encrypted with.
    @ivar name: the name that certificates must have instead of the host dialled.
    """

    trust: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: str | None = field(default=None, repr=False)
    name: str | None = None


@dataclass(frozen=True)
class ClusterAccess:
    """
    The way to a cluster.

    @ivar registries: C{host:port} of each.
    @ivar group: in whose name is pulled; L{TOOLS_GROUP} for nobody's.
    @ivar tls: C{None} for plain connections.
    @ivar key: access key and secret, C{None} for unsigned requests.
    @ivar timeout: seconds without an answer that brings something on, all attempts together, after which a request
        has failed.
    """

    registries: tuple[str, ...]
    group: str = TOOLS_GROUP
    tls: TLSFileNames | None = None
    key: tuple[str, str] | None = field(default=None, repr=False)
    timeout: float = 30.0

    @property
    def signer(self) -> AccessKey | None:
        """Signer of requests, C{None} for unsigned ones."""
        return None if self.key is None else AccessKey(*self.key)
