"""The queues of topics, and the reading of them."""

from __future__ import annotations

from smartgo.client import reading
from smartgo.client.instance import Client
from smartgo.ops.problems import Problem
from smartgo.ops.view import ClusterView
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import queue_ids


class QueueReader(reading.QueueReader):
    """Asks the brokers of the cluster about queues and what is in them."""

    def __init__(self, client: Client, view: ClusterView) -> None:
        super().__init__(client, self._master)
        self._view = view

    async def queues(self, topic: str, broker: str = "", queue_id: int | None = None) -> list[MessageQueue]:
        """
        Return the queues of a topic, sorted.

        @param broker: those of one broker alone; C{queue_id}: those with this id alone.
        @raise Problem: 404, there is no such topic, or no such queue.
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
            raise Problem(404, f"topic {topic} has no {which} to read{where}", "queue-not-found")
        return found

    async def _master(self, broker: str) -> str:
        return (await self._view.broker(broker)).address
