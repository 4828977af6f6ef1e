"""What applications say about consuming: the listener, and how a consumer is to behave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from twisted.internet.defer import Deferred

from smartgo.client.internal.processqueue import Thresholds
from smartgo.client.internal.rebalance import STRATEGIES, IAllocateStrategy
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import SmartgoError
from smartgo.schema.bodies import ConsumeFromWhere, MessageModel

Listener: TypeAlias = "Callable[[list[ReceivedMessage]], Deferred[Any] | Awaitable[Any] | None]"
"""
Consumes messages: C{batch} of them at most, of one queue, in order; one unless told otherwise.

It returns when they are done with, or returns a Deferred or a coroutine that does. Whatever it raises means that all of
them are to come again. It runs on the reactor thread and must not block.
"""


class ConsumeLater(SmartgoError):
    """
    Raised by a listener: these messages are to come again later. Any other exception means the same, and is logged.

    @ivar delay_level: the broker's delay: 1 for its first, 2 for its second; 0 for longer and longer ones, from 10 s to
        2 h; -1 for never: to the dead letters at once. Of no effect on orderly consumers, which try again after 1 s.
    """

    def __init__(self, delay_level: int = 0) -> None:
        super().__init__(f"to be consumed again (delay level {delay_level})")
        self.delay_level = delay_level


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a push consumer behaves.

    @ivar model: whether the members of the group share the messages (C{CLUSTERING}) or each get all of them
        (C{BROADCASTING}; what fails is then dropped, and offsets are kept in a file here).
    @ivar orderly: consume each queue strictly in order, one batch at a time, trying a failed batch again in place.
    @ivar begin: where the group begins in a queue that it has never read: at the end, at its first message, or at
        C{begin_ms}.
    @ivar begin_ms: wall clock in ms, for C{CONSUME_FROM_TIMESTAMP}; C{None} for half an hour before the start.
    @ivar strategy: who in the group reads which queues; the same for all members.
    @ivar concurrency: listener calls at the same time, at most; orderly consumers make one a queue.
    @ivar batch: messages of a listener call, at most.
    @ivar pull_batch: messages of a pull, at most.
    @ivar max_reconsume: deliveries after the first before a message goes to the dead letters; -1 for the broker's 16,
        or without end where C{orderly}.
    @ivar consume_timeout: seconds; messages whose listener call takes longer are delivered again.
    @ivar stop_timeout: seconds that listener calls under way get to end when the consumer stops.
    @ivar thresholds: when a queue is pulled no further.
    @ivar offsets_directory: for C{BROADCASTING}; C{None} for C{.rocketmq_offsets} in the user's home.
    """

    model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    begin: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    begin_ms: int | None = None
    strategy: IAllocateStrategy = STRATEGIES["AVG"]
    concurrency: int = 20
    batch: int = 1
    pull_batch: int = 32
    max_reconsume: int = -1
    consume_timeout: float = 900.0
    stop_timeout: float = 5.0
    thresholds: Thresholds = Thresholds()
    offsets_directory: str | None = None

    @property
    def shares(self) -> bool:
        """Whether the members of the group share the messages."""
        return self.model == MessageModel.CLUSTERING

    @property
    def locks(self) -> bool:
        """Whether queues must be locked at the broker before they are read."""
        return self.orderly and self.shares


def outcome(listener: Listener, messages: list[ReceivedMessage]) -> Deferred[Any] | None:
    """
    Call a listener; return what is to be waited for, C{None} where it is done already.

    @raise Exception: what the listener raised at once.
    """
    result = listener(messages)
    if result is None or isinstance(result, Deferred):
        return result
    if hasattr(result, "__await__"):
        return Deferred.fromCoroutine(_awaited(result))
    return None


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
