"""The resource of the routes of topics: where registries send clients."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import TopicPath
from smartgo.ops.resources.topics import Perm, perm_of
from smartgo.ops.web.routes import READ, RouteCall, route

_GONE: Final = {404: "There is no such topic, or no such broker."}


class RouteBroker(msgspec.Struct, rename="camel"):
    """A broker of a route: addresses by broker id, 0 the master."""

    name: str
    cluster: str
    addresses: dict[str, str]


class RouteQueues(msgspec.Struct, rename="camel"):
    """The queues of a topic at one broker, as in the route that clients receive."""

    broker: str
    read_queues: int
    write_queues: int
    perm: Perm


class RouteView(msgspec.Struct, rename="camel"):
    """The route of a topic, as the registry gives it."""

    brokers: list[RouteBroker]
    queues: list[RouteQueues]
    order: str | None


class TopicRoutesApi:
    """Routes of topics."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route("GET", "/topics/{name}/route", scope=READ, path_type=TopicPath, answer=RouteView, refuses=_GONE)
    async def where(self, call: RouteCall[TopicPath, None, None]) -> RouteView:
        """Show the route of a topic: the brokers and queues that clients are given."""
        found = await self._view.admin.topics.route(call.path.name)
        return RouteView(
            [
                RouteBroker(one.broker_name, one.cluster, {str(key): text for key, text in one.broker_addrs.items()})
                for one in found.broker_datas
            ],
            [
                RouteQueues(one.broker_name, one.read_queue_nums, one.write_queue_nums, perm_of(one.perm))
                for one in found.queue_datas
            ],
            found.order_topic_conf,
        )
