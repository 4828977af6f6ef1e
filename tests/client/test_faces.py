"""The faces of the client, each with all cases, against our registry and broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from smartgo import AccessKey, Admin, ClientTLS
from smartgo.aio import TLSFiles
from smartgo.client.client import Client
from tests.client.facecases import CASES
from tests.client.facecluster import Cluster
from tests.client.faces import Blocking, Face, OnAsyncio, OnTwisted, TwistedFace
from tests.client.securecases import ACCESS_CASES, ADMIN, RULES, TLS_CASES
from tests.client.test_cluster import ClusterCase
from tests.interop.certificates import Certificates


class FaceCase(ClusterCase):
    """
    A node of ours, and one face.

    @ivar options: of the clients.
    """

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
    options: dict[str, Any] = {}

    def face(self) -> Face:
        """Return the face to be tested."""
        raise NotImplementedError

    def run_case(self, case: Callable[[Cluster], None]) -> Deferred[None]:
        """Run a case in a thread, with a client of its own."""
        return deferToThread(self._run_in_thread, self.face(), case)

    def _run_in_thread(self, face: Face, case: Callable[[Cluster], None]) -> None:
        try:
            cluster = Cluster(face, self.node.registry, self._make_topic, **self.options)
            try:
                case(cluster)
            finally:
                cluster.stop()
        finally:
            face.close()

    def _make_topic(self, name: str) -> None:
        TwistedFace(self.reactor).do(lambda: Deferred.fromCoroutine(self._create(name)))

    async def _create(self, name: str) -> None:
        await Admin(self.client).topics.create(name, queues=4)


class AccessCase(FaceCase):
    """A node with access control, and one face."""

    def setUp(self) -> Deferred[None]:  # type: ignore[override]
        """Write the rules, then start."""
        folder = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        with open(os.path.join(folder, "plain_acl.yml"), "w") as file:
            file.write(RULES)
        self.settings = {"aclEnable": "true", "aclPath": folder, "accessKey": ADMIN[0], "secretKey": ADMIN[1]}  # type: ignore[misc]
        self.options = {"access_key": AccessKey(*ADMIN)}
        return super().setUp()

    def make_client(self) -> Client:
        """Return a client that signs."""
        self.clients.append(Client(self.env, self.node.registry, **self.options))
        return self.clients[-1]


class TLSCase(FaceCase):
    """A node that serves TLS alone, and one face."""

    def setUp(self) -> Deferred[None]:  # type: ignore[override]
        """Make the certificates, then start."""
        made = Certificates.make(os.path.abspath(self.mktemp()))
        self.settings = {  # type: ignore[misc]
            "tls.server.mode": "enforcing",
            "tls.server.certPath": made.certificate,
            "tls.server.keyPath": made.key,
            "tls.enable": "true",
            "tls.client.trustCertPath": made.authority,
        }
        self.options = {"tls": TLSFiles(trust=made.authority)}
        return super().setUp()

    def make_client(self) -> Client:
        """Return a client that trusts the authority."""
        self.clients.append(Client(self.env, self.node.registry, tls=ClientTLS(self.env, self.options["tls"].trust)))
        return self.clients[-1]


class TwistedTests(OnTwisted, FaceCase):
    """The cases with Deferreds."""


class AioTests(OnAsyncio, FaceCase):
    """The cases with coroutines."""


class SyncTests(Blocking, FaceCase):
    """The cases with calls that block."""


class TwistedAccessTests(OnTwisted, AccessCase):
    """The cases of access control with Deferreds."""


class AioAccessTests(OnAsyncio, AccessCase):
    """The cases of access control with coroutines."""


class SyncAccessTests(Blocking, AccessCase):
    """The cases of access control with calls that block."""


class TwistedTLSTests(OnTwisted, TLSCase):
    """The cases of TLS with Deferreds."""


class AioTLSTests(OnAsyncio, TLSCase):
    """The cases of TLS with coroutines."""


class SyncTLSTests(Blocking, TLSCase):
    """The cases of TLS with calls that block."""


def _test_of(case: Callable[[Cluster], None]) -> Callable[[FaceCase], Deferred[None]]:
    def test(self: FaceCase) -> Deferred[None]:
        return self.run_case(case)

    test.__doc__ = case.__doc__
    return test


def _add(kinds: Iterable[type[FaceCase]], cases: Iterable[Callable[[Cluster], None]]) -> None:
    for kind in kinds:
        for case in cases:
            setattr(kind, f"test_{case.__name__}", _test_of(case))


_add((TwistedTests, AioTests, SyncTests), CASES)
_add((TwistedAccessTests, AioAccessTests, SyncAccessTests), ACCESS_CASES)
_add((TwistedTLSTests, AioTLSTests, SyncTLSTests), TLS_CASES)
