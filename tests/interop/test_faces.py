"""The three faces of our client with real brokers: all cases of L{tests.client.facecases} on each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar
from unittest import SkipTest

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from smartgo.sync import AccessKey, Admin, Client, TLSFiles
from tests.client.facecases import CASES
from tests.client.facecluster import Cluster as FaceCluster
from tests.client.faces import Blocking, Face, OnAsyncio, OnTwisted
from tests.client.securecases import ACCESS_CASES, ADMIN, RULES, TLS_CASES
from tests.interop.case import Cluster
from tests.interop.certificates import Certificates
from tests.interop.driver import rocketmq_home
from tests.interop.peers import ROCKETMQ, Peer
from tests.interop.peers5 import ROCKETMQ5, access_settings, unavailable5
from tests.interop.test_ownclient import OwnClientCase

Case = Callable[[FaceCluster], None]


class Clusters:
    """
    The clusters that all tests of a peer share: an open one, one with access control, and one that serves TLS alone.

    Those of one peer run at a time.
    """

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._running: dict[str, tuple[Cluster, dict[str, Any]]] = {}

    def get(self, peer: Peer, kind: str) -> tuple[Cluster, dict[str, Any]]:
        """Return a cluster that runs, and the options of its clients."""
        if peer is not self._peer:
            for cluster, _ in self._running.values():
                cluster.end()
            self._peer, self._running = peer, {}
        if kind not in self._running:
            home = os.path.abspath(f"interop-faces-{peer.name}-{kind}")
            cluster, options = getattr(self, f"_{kind}")(peer, home)
            cluster.start()
            self._running[kind] = cluster, options
        return self._running[kind]

    def _open(self, peer: Peer, home: str) -> tuple[Cluster, Mapping[str, Any]]:
        return Cluster(peer, home), {}

    def _access(self, peer: Peer, home: str) -> tuple[Cluster, Mapping[str, Any]]:
        settings = access_settings(ADMIN) if peer is ROCKETMQ5 else {"aclEnable": "true"}
        with open(os.path.join(rocketmq_home(home), "conf", "plain_acl.yml"), "w") as file:
            file.write(RULES)  # 5 does not read it
        return Cluster(peer, home, settings, key=ADMIN), {"access_key": AccessKey(*ADMIN)}

    def _tls(self, peer: Peer, home: str) -> tuple[Cluster, Mapping[str, Any]]:
        certificates = Certificates.make(home)
        return Cluster(peer, home, tls=certificates), {"tls": TLSFiles(trust=certificates.authority)}


CLUSTERS = Clusters()


class FaceCase(OwnClientCase):
    """Cases of one face with one peer."""

    peer: ClassVar[Peer] = ROCKETMQ

    def face(self) -> Face:
        """Return the face to be tested."""
        raise NotImplementedError

    def run_case(self, kind: str, case: Case) -> Deferred[None]:
        """Run a case in a thread, with a client of its own."""
        return deferToThread(self._run_in_thread, kind, case)

    def _run_in_thread(self, kind: str, case: Case) -> None:
        running, options = CLUSTERS.get(self.peer, kind)
        face = self.face()
        try:
            with Client(running.namesrv, **options) as maker:
                cluster = FaceCluster(
                    face, running.namesrv, lambda topic: Admin(maker).topics.create(topic, queues=4), **options
                )
                try:
                    case(cluster)
                finally:
                    cluster.stop()
        finally:
            face.close()


class Rocketmq5Case(FaceCase):
    """Cases of one face with RocketMQ 5.5.0."""

    peer = ROCKETMQ5

    def setUp(self) -> None:
        """Skip where RocketMQ 5's servers cannot run."""
        super().setUp()
        reason = unavailable5()
        if reason is not None:
            raise SkipTest(f"the servers of RocketMQ 5 cannot run: {reason}")


class TwistedTests(OnTwisted, FaceCase):
    """RocketMQ 4.9.7, with Deferreds."""


class AioTests(OnAsyncio, FaceCase):
    """RocketMQ 4.9.7, with coroutines."""


class SyncTests(Blocking, FaceCase):
    """RocketMQ 4.9.7, with calls that block."""


class Twisted5Tests(OnTwisted, Rocketmq5Case):
    """RocketMQ 5.5.0, with Deferreds."""


class Aio5Tests(OnAsyncio, Rocketmq5Case):
    """RocketMQ 5.5.0, with coroutines."""


class Sync5Tests(Blocking, Rocketmq5Case):
    """RocketMQ 5.5.0, with calls that block."""


def _test_of(kind: str, case: Case) -> Callable[[FaceCase], Deferred[None]]:
    def test(self: FaceCase) -> Deferred[None]:
        return self.run_case(kind, case)

    test.__doc__ = case.__doc__
    return test


def _add(cluster: str, cases: Iterable[Case]) -> None:
    for kind in (TwistedTests, AioTests, SyncTests, Twisted5Tests, Aio5Tests, Sync5Tests):
        for case in cases:
            setattr(kind, f"test_{cluster}_{case.__name__}", _test_of(cluster, case))


_add("open", CASES)
_add("access", ACCESS_CASES)
_add("tls", TLS_CASES)
