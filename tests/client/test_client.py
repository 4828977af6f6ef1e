"""The end of a client."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred

from smartgo.client.internal.groupmember import GroupConsumer, GroupProducer
from tests.client.doubles import ClusterTestCase


class Member:
    """A consumer or a producer whose stop takes a while."""

    def __init__(self, group: str, stopping: list[Member]) -> None:
        self.group = group
        self.stopped: Deferred[None] = Deferred()
        self._stopping = stopping

    def stop(self) -> Deferred[None]:
        """Begin to stop."""
        self._stopping.append(self)
        return self.stopped


class StopTests(ClusterTestCase):
    def test_order(self) -> None:
        """All consumers stop at the same time; when the last one has stopped the producers do, and then the client."""
        client = self.client()
        stopping: list[Member] = []
        first, second, third, fourth = members = [Member(group, stopping) for group in "abcd"]
        for consumer in (first, second):
            client.join(consumer=cast("GroupConsumer", consumer))
        for producer in (third, fourth):
            client.join(producer=cast("GroupProducer", producer))
        ended = client.stop()
        self.assertEqual(stopping, members[:2])
        second.stopped.callback(None)
        self.assertEqual(stopping, members[:2])
        first.stopped.errback(ZeroDivisionError("of a consumer"))
        self.assertEqual(stopping, members)
        fourth.stopped.callback(None)
        self.assertNoResult(ended)
        third.stopped.callback(None)
        self.result(ended)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
