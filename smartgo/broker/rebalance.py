"""
Queue locks of orderly consumers, and the requests that take and release them (41, 42).

Rules: C{broker.md} section 10. A lock belongs to a client id of a group and lives 60 s from its last grant; a lost
connection does not release it.
"""

from __future__ import annotations

from collections.abc import Iterable

from zope.interface import implementer

from smartgo.broker.topics import TopicTable
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.remoting.interfaces import IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import LockBatchBody, LockBatchResult, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.topics import check_group

ID_LIMIT = 512
"""Characters of a client id."""
LOCK_TIME = 60.0
"""Seconds from the last grant of a lock to its end."""


class LockTable:
    """Who may consume which queue in order, by group."""

    def __init__(self, clock: IClock, lock_time: float = LOCK_TIME, limit: int = 20_000) -> None:
        """@param limit: how many groups may hold locks at a time."""
        self._clock = clock
        self._lock_time = lock_time
        self._limit = limit
        self._groups: dict[str, dict[tuple[str, str, int], tuple[str, float]]] = {}
        self._sweep_at = clock.seconds() + lock_time

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Give a client every queue that is free, its own already, or no longer held; return those."""
        now = self._clock.seconds()
        if now >= self._sweep_at:
            self._sweep(now)
        granted: list[MessageQueue] = []
        if group not in self._groups and len(self._groups) >= self._limit:
            return granted
        locks = self._groups.get(group, {})
        for queue in queues:
            key = (queue.topic, queue.broker_name, queue.queue_id)
            held = locks.get(key)
            if held is None or held[0] == client_id or held[1] <= now:
                locks[key] = (client_id, now + self._lock_time)
                granted.append(queue)
        if granted:
            self._groups[group] = locks
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release those of the queues that this client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            key = (queue.topic, queue.broker_name, queue.queue_id)
            held = locks.get(key)
            if held is not None and held[0] == client_id:
                del locks[key]
        if not locks:
            self._groups.pop(group, None)

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """The client id that holds a queue now; C{None}: nobody."""
        held = self._groups.get(group, {}).get((queue.topic, queue.broker_name, queue.queue_id))
        return held[0] if held is not None and held[1] > self._clock.seconds() else None

    def _sweep(self, now: float) -> None:
        """Drop what ended; done by the requests themselves, so that no timer is needed."""
        self._sweep_at = now + self._lock_time
        for group in list(self._groups):
            locks = {key: held for key, held in self._groups[group].items() if held[1] > now}
            if locks:
                self._groups[group] = locks
            else:
                del self._groups[group]


@implementer(IRequestProcessor)
class RebalanceProcessor(Processor):
    """Lock and unlock queues."""

    codes = frozenset({RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ})

    def __init__(self, locks: LockTable, topics: TopicTable) -> None:
        """@param topics: only queues that exist can be locked, which bounds the table."""
        self._locks = locks
        self._topics = topics

    def process(self, peer: IPeer, request: Command) -> Command:
        """
        Answer 41 with the queues granted, 42 with nothing.

        @raise smartgo.errors.BadBody: the body cannot be read.
        @raise smartgo.errors.BadName: no group may have this name.
        """
        body = LockBatchBody.decode(request.body)
        check_group(body.consumer_group)
        if len(body.client_id) > ID_LIMIT:
            raise RequestRefused(f"clientId has {len(body.client_id)} characters, {ID_LIMIT} at most")
        if request.code == RequestCode.UNLOCK_BATCH_MQ:
            self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
            return request.answer()
        wanted = [queue for queue in body.mq_set if self._exists(queue)]
        granted = self._locks.lock(body.consumer_group, body.client_id, wanted)
        return request.answer(body=LockBatchResult(lock_ok_mq_set=granted).encode())

    def _exists(self, queue: MessageQueue) -> bool:
        config = self._topics.get(queue.topic)
        return config is not None and 0 <= queue.queue_id < max(config.read_queue_nums, config.write_queue_nums)
