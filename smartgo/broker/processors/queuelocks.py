"""
Queue locks of orderly consumers, and the requests that take and release them (41, 42).

Rules: docs/spec/broker#clients. A lock belongs to a client id of a group and lives 60 s from its last grant; a lost
connection does not release it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.tables.shares import Shares, source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, RequestRefused
from smartgo.net.memorybudget import Kind, MemoryBudget
from smartgo.remoting.interfaces import IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import LockBatchBody, LockBatchResult, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.topics import check_group

ID_LIMIT = 512
"""Characters of a client id."""
BODY_LIMIT = 1 << 20
"""Bytes of a request to lock or unlock: those of some ten thousand queues."""
LOCK_TIME = 60.0
"""Seconds from the last grant of a lock to its end."""

_SIZE: Final = 256  # bytes of one lock, about


class _Lock(NamedTuple):
    """The lock of a queue: its owner, its end (monotonic seconds), and whose share of the table it takes."""

    client_id: str
    until: float
    source: str


class LockTable:
    """The locks of queues that are consumed in order, by group."""

    def __init__(self, clock: IClock, budget: MemoryBudget, lock_time: float = LOCK_TIME, limit: int = 200_000) -> None:
        """@param limit: how many locks there may be; addresses share them."""
        self._clock = clock
        self._budget = budget
        self._lock_time = lock_time
        self._shares = Shares(lambda: limit)
        self._groups: dict[str, dict[tuple[str, int], _Lock]] = {}
        self._sweep_at = clock.seconds() + lock_time

    def __len__(self) -> int:
        return self._shares.total

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], source: str) -> list[MessageQueue]:
        """
        Give a client every queue that is free, its own already, or no longer held; return those.

        @param source: the address that asks, as of L{source_of}; past its share it gets no more.
        """
        now = self._clock.seconds()
        if now >= self._sweep_at:
            self._sweep(now)
        granted: list[MessageQueue] = []
        locks = self._groups.get(group, {})
        for queue in queues:
            key = (queue.topic, queue.queue_id)
            held = locks.get(key)
            if held is None:
                if not self._budget.has_room(_SIZE) or not self._shares.take(source):
                    continue
                self._budget.take(Kind.LOCKS, _SIZE)
                payer = source
            elif held.client_id == client_id or held.until <= now:
                payer = held.source
                if payer != source and self._shares.take(source):
                    self._shares.give_back(payer)
                    payer = source
            else:
                continue
            locks[key] = _Lock(client_id, now + self._lock_time, payer)
            granted.append(queue)
        if granted:
            self._groups[group] = locks
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release those of the queues that this client holds."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            key = (queue.topic, queue.queue_id)
            held = locks.get(key)
            if held is not None and held.client_id == client_id:
                self._end(held)
                del locks[key]
        if not locks:
            del self._groups[group]

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """The client id that holds a queue now; C{None}: nobody."""
        held = self._groups.get(group, {}).get((queue.topic, queue.queue_id))
        return held.client_id if held is not None and held.until > self._clock.seconds() else None

    def _end(self, held: _Lock) -> None:
        """Return the share of the table that a lock took."""
        self._shares.give_back(held.source)
        self._budget.give(Kind.LOCKS, _SIZE)

    def _sweep(self, now: float) -> None:
        """Drop what ended; done by the requests themselves, so that no timer is needed."""
        self._sweep_at = now + self._lock_time
        for group in list(self._groups):
            left = {}
            for key, held in self._groups[group].items():
                if held.until > now:
                    left[key] = held
                else:
                    self._end(held)
            if left:
                self._groups[group] = left
            else:
                del self._groups[group]


@implementer(IRequestProcessor)
class RebalanceProcessor(Processor):
    """Lock and unlock queues."""

    codes = answered_by("queuelocks")

    def __init__(self, broker: IBroker, locks: LockTable) -> None:
        """@param locks: of this broker."""
        self._locks = locks
        self._topics = broker.topics  # only queues that exist can be locked, which bounds the table
        self._broker_name = broker.identity.name  # queues of other brokers are not for us to lock

    def process(self, peer: IPeer, request: Command) -> Command:
        """
        Answer 41 with the queues granted, 42 with nothing.

        @raise smartgo.errors.BadBody: the body cannot be read.
        @raise smartgo.errors.BadName: no group may have this name.
        """
        if len(request.body) > BODY_LIMIT:
            raise BadBody(f"queues to lock in {len(request.body)} B exceed the limit of {BODY_LIMIT} B")
        body = LockBatchBody.decode(request.body)
        check_group(body.consumer_group)
        if len(body.client_id) > ID_LIMIT:
            raise RequestRefused(f"clientId has {len(body.client_id)} characters; the limit is {ID_LIMIT}")
        ours = [queue for queue in body.mq_set if queue.broker_name == self._broker_name]
        if request.code == RequestCode.UNLOCK_BATCH_MQ:
            self._locks.unlock(body.consumer_group, body.client_id, ours)
            return request.answer()
        wanted = [queue for queue in ours if self._exists(queue)]
        granted = self._locks.lock(body.consumer_group, body.client_id, wanted, source_of(peer.address))
        return request.answer(body=LockBatchResult(lock_ok_mq_set=granted).encode())

    def _exists(self, queue: MessageQueue) -> bool:
        config = self._topics.get(queue.topic)
        return config is not None and 0 <= queue.queue_id < max(config.read_queue_nums, config.write_queue_nums)
