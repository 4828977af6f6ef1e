"""Lists of a big cluster: 10,000 topics, 100 groups."""

from __future__ import annotations

import time
from typing import Any, cast

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.membership.memory import MemberMemory
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.topics import TopicsApi, TopicsQuery
from smartgo.ops.security.principals import LOCAL_READER
from smartgo.ops.web.routes import RouteCall
from smartgo.schema.bodies import ClusterInfo, TopicConfig
from smartgo.tablefile import TableFile
from tests.fakes import FakeClock, FakeEnvironment

TOPICS = 10_000


class Topics:
    """Brokers that have many topics, and count how often they are asked."""

    def __init__(self) -> None:
        self.asked = 0

    def configs(self) -> Deferred[dict[str, dict[str, TopicConfig]]]:
        """All of them, at two brokers."""
        self.asked += 1
        table = {f"Topic{number:05}": TopicConfig(f"Topic{number:05}") for number in range(TOPICS)}
        return succeed({"broker-a": table, "broker-b": dict(table)})

    def system_names(self) -> Deferred[set[str]]:
        """None."""
        return succeed(set())


class Admin:
    """As much of an administration as the list of topics asks."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.brokers = Brokers()


class Brokers:
    """No broker processes."""

    def cluster(self) -> Deferred[ClusterInfo]:
        """Return which there are."""
        return succeed(ClusterInfo())


class ScaleTests(SynchronousTestCase):
    """Pages of many."""

    def setUp(self) -> None:
        self.admin = Admin()
        admin = cast("Any", self.admin)
        env = FakeEnvironment()
        memory = MemberMemory(env, TableFile(env, "/members.json"), [])
        self.api = TopicsApi(ClusterView(FakeClock(), admin, lambda missing, seconds: admin, memory))

    def page(self, **query: Any) -> Any:
        """One page of the list."""
        call: Any = RouteCall(None, TopicsQuery(**query), None, LOCAL_READER, "127.0.0.1", "1")
        return self.successResultOf(Deferred.fromCoroutine(self.api.list(call)))

    def test_pages(self) -> None:
        """Every page of 10,000 topics, in any order, is made of one answer of brokers, and quickly."""
        self.page()
        for query in ({}, {"offset": 5000, "sort": "-readQueues"}, {"q": "topic09"}, {"broker": "broker-b"}):
            took = []
            for _ in range(3):  # a collection of all the garbage of a long run may fall into one
                began = time.process_time()
                page = self.page(limit=200, **query)
                content = msgspec.json.encode(page)
                took.append(time.process_time() - began)
            self.assertEqual(len(page.items), 200)
            self.assertLess(len(content), 100_000)
            self.assertLess(min(took), 0.5, query)
        self.assertEqual(self.admin.topics.asked, 1)

    def test_whole(self) -> None:
        """Page by page each topic comes once, and none is left out."""
        names: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(limit=200, cursor=cursor)
            names += [one.name for one in page.items]
            cursor = page.next
        self.assertEqual(names, [f"Topic{number:05}" for number in range(TOPICS)])
