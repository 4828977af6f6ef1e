"""What a survey of all groups lets the memory of members know."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.ops.membership.grouplags import UnreachableLag
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.ops.resources.test_messages import MessageCase


class RememberedLagTests(MessageCase):
    """A group with messages of one topic that wait for it."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.heartbeat("audit", "Orders")
        for queue_id in range(2):
            header = UpdateOffsetRequest(consumer_group="audit", topic="Orders", queue_id=queue_id, commit_offset=0)
            self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        self.cluster.pump(1.0)
        self.survey()

    def survey(self) -> None:
        """Measure all groups."""
        self.front.ops.view.forget()
        self.front.ops.alerts._survey.all.forget()
        self.cluster.pump(3.0)
        asked: Deferred[Any] = self.front.ops.alerts._survey.all.get()
        self.cluster.pump(1.0)
        self.successResultOf(asked)

    def waiting(self) -> list[UnreachableLag]:
        """Return what would be said to wait for the group, were the broker missing."""
        return self.front.ops.membership.table.lags.waiting("audit", ["broker-a"])

    def test_topic_deleted(self) -> None:
        """Once the topic is deleted nothing waits at the broker, whenever that goes missing."""
        self.assertEqual([one.messages for one in self.waiting()], [4])
        self.assertLess(self.order("DELETE", "/topics/Orders")[0], 300)
        self.survey()
        self.assertEqual(self.waiting(), [])

    def test_broker_gone(self) -> None:
        """A broker that is gone when groups are measured keeps its count."""
        self.assertEqual([one.messages for one in self.waiting()], [4])
        self.cluster.env.network.kill(10911)
        routes = self.cluster.registry.routes
        [place] = self.front.ops.membership.table.places()
        self.assertTrue(routes.unregister(place.address, "broker-a", 0))
        self.front.ops.view.forget()
        self.front.ops.alerts._survey.all.forget()
        self.front.ops.alerts._survey.all.get().addErrback(lambda _: None)
        self.cluster.pump(12.0)
        self.assertEqual([one.messages for one in self.waiting()], [4])
