"""Read the queues of topics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from smartgo.client.internal import reading
from smartgo.client.internal.reading import Pulled, Span
from smartgo.errors import CallFailed, NotConnected
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView, PartialView
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import MessageQueue, SubscriptionData
from smartgo.schema.topics import queue_ids


class ClusterQueueReader(reading.QueueQueries):
    """Asks the brokers of the cluster about queues and what is in them."""

    def __init__(self, view: ClusterView | PartialView) -> None:
        asking = view.admin.asking
        super().__init__(asking.client, self._master, asking)
        self._view = view

    async def queues(self, topic: str, broker: str = "", queue_id: int | None = None) -> list[MessageQueue]:
        """
        Return the queues of a topic, sorted.

        @param broker: those of one broker alone; C{queue_id}: those with this id alone.
        @raise Problem: 404, there is no such topic, or no such queue; 502, where a broker that may have it is missing.
        """
        entry = await self._view.topic(topic)
        found = [
            MessageQueue(topic, name, number)
            for name, config in sorted(entry.configs.items())
            if broker in ("", name)
            for number in queue_ids(config.read_queue_nums)
            if queue_id in (None, number)
        ]
        if not found:
            where = f" at broker {broker}" if broker else ""
            which = "queue" if queue_id is None else f"queue {queue_id}"
            missing = Missing()
            await self._view.topics.get(missing)
            if missing:
                raise missing.absent(f"{which} of topic {topic}{where}", "queue-not-found")
            raise Problem(404, f"topic {topic} has no {which} to read{where}", "queue-not-found")
        return found

    async def spans_there(
        self, queues: Sequence[MessageQueue], from_ms: int, go_on: Callable[[str, CallFailed], object]
    ) -> list[Span]:
        """
        Return what C{spans} does of those queues whose broker answers.

        @param go_on: is told which broker is left out, and why.
        @raise CallFailed: none answers.
        """
        found: list[Span] = []
        failure: CallFailed | None = None
        for queue in queues:
            try:
                found += await self.spans([queue], from_ms)
            except CallFailed as error:
                failure = error
                go_on(queue.broker_name, error)
        if failure is not None and not found:
            raise failure
        return found

    async def scan_there(
        self, span: Span, go_on: Callable[[str, CallFailed], object], wants: SubscriptionData | None = None
    ) -> AsyncGenerator[Pulled, None]:
        """Read as L{scan} does, as far as the broker answers; C{go_on} is told where it does not."""
        try:
            async with aclosing(self.scan(span, wants)) as pulls:
                async for pulled in pulls:
                    yield pulled
        except CallFailed as error:
            go_on(span.queue.broker_name, error)

    async def _master(self, broker: str) -> str:
        for one in await self._view.brokers.get():
            if one.name == broker:
                return one.address
        raise NotConnected(f"broker {broker} is no longer registered")
