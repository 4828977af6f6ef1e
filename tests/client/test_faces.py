"""The faces of the client, each with all cases, against our registry and broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from smartgo import Admin
from tests.client.facecases import CASES, Cluster
from tests.client.faces import AioFace, Face, SyncFace, TwistedFace
from tests.client.test_cluster import ClusterCase


class FaceCase(ClusterCase):
    """A node of ours, and one face."""

    options: ClassVar[dict[str, object]] = {}

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


class TwistedTests(FaceCase):
    """The cases with Deferreds."""

    def face(self) -> Face:
        return TwistedFace(self.reactor)


class AioTests(FaceCase):
    """The cases with coroutines."""

    def face(self) -> Face:
        return AioFace()


class SyncTests(FaceCase):
    """The cases with calls that block."""

    def face(self) -> Face:
        return SyncFace()


def _test_of(case: Callable[[Cluster], None]) -> Callable[[FaceCase], Deferred[None]]:
    def test(self: FaceCase) -> Deferred[None]:
        return self.run_case(case)

    test.__doc__ = case.__doc__
    return test


for _kind in (TwistedTests, AioTests, SyncTests):
    for _case in CASES:
        setattr(_kind, f"test_{_case.__name__}", _test_of(_case))
del _kind, _case
