"""The application's side of consuming: the listener, and the settings of a push consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from twisted.internet.defer import Deferred

from smartgo.client.internal.processqueue import Thresholds
from smartgo.client.internal.rebalance import STRATEGIES, AllocateStrategy
from smartgo.client.internal.settingchecks import (
    check_flag,
    check_int,
    check_kind,
    check_member,
    check_optional_int,
    check_seconds,
    check_strategy,
)
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import SmartgoError
from smartgo.schema.bodies import ConsumeFromWhere, MessageModel

Listener: TypeAlias = "Callable[[list[ReceivedMessage]], Deferred[Any] | Awaitable[Any] | None]"
"""
A function that consumes messages of one queue, in order: one per call, or up to C{ConsumerSettings.batch}.

When it returns, or the Deferred or coroutine that it returns ends, the messages are consumed. If it raises, all of them
are redelivered. It runs on the reactor thread and must not block.
"""


class ConsumeLater(SmartgoError):
    """
    A listener raises this to have its messages redelivered later. Any other exception does the same, and is logged.

    @ivar delay_level: the delay level of the broker: 1 for its first, 2 for its second; 0 for delays that grow with
        each redelivery, from 10 s to 2 h; -1 to move the messages to the dead letters at once. Orderly consumers ignore
        it and retry after 1 s.
    """

    def __init__(self, delay_level: int = 0) -> None:
        """@param delay_level: a delay level of the broker; 0 for delays that grow, -1 for the dead letters at once."""
        super().__init__(f"to be consumed again (delay level {delay_level})")
        self.delay_level = delay_level


class NotConsumed(SmartgoError):
    """The outcome of a listener call that ends with its consumer: its messages stay in their queues."""

    def __init__(self) -> None:
        super().__init__("not consumed: the consumer stops")


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    The settings of a push consumer. A value that its field cannot have raises C{SettingError}.

    @ivar model: whether the members of the group share the messages (C{CLUSTERING}) or each get all of them
        (C{BROADCASTING}; then failed messages are dropped, and offsets are saved in a file on this machine).
    @ivar orderly: consume each queue strictly in order, one batch at a time, and retry a failed batch in place.
    @ivar begin: where the group begins in a queue that it has never read: at the end, at its first message, or at
        C{begin_ms}.
    @ivar begin_ms: wall clock in ms, for C{CONSUME_FROM_TIMESTAMP}; C{None} for half an hour before the start.
    @ivar strategy: assigns the queues to the members of the group; it must be the same for all members.
    @ivar concurrency: the maximum number of listener calls at a time; orderly consumers have one per queue.
    @ivar batch: the maximum number of messages in a listener call.
    @ivar pull_batch: the maximum number of messages in a pull.
    @ivar max_reconsume: redeliveries before a message goes to the dead letters; -1 for the broker's 16, or for no limit
        if C{orderly}.
    @ivar consume_timeout: seconds after which the messages of a listener call that has not ended are redelivered.
    @ivar stop_timeout: seconds that a stop waits for the listener calls in flight.
    @ivar thresholds: the limits of fetched messages at which pulling pauses.
    @ivar offsets_directory: for C{BROADCASTING}; C{None} for C{.rocketmq_offsets} in the user's home.
    """

    model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    begin: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    begin_ms: int | None = None
    strategy: AllocateStrategy = STRATEGIES["AVG"]
    concurrency: int = 20
    batch: int = 1
    pull_batch: int = 32
    max_reconsume: int = -1
    consume_timeout: float = 900.0
    stop_timeout: float = 5.0
    thresholds: Thresholds = Thresholds()
    offsets_directory: str | None = None

    def __post_init__(self) -> None:
        """@raise smartgo.errors.SettingError: a value is none that its field can have."""
        check_member(self, "model", MessageModel)
        check_member(self, "begin", ConsumeFromWhere)
        check_optional_int(self, "begin_ms", least=0)
        check_strategy(self, "strategy")
        check_flag(self, "orderly")
        for field in ("concurrency", "batch", "pull_batch"):
            check_int(self, field)
        check_int(self, "max_reconsume", least=-1)
        check_seconds(self, "consume_timeout")
        check_seconds(self, "stop_timeout", or_none_at_all=True)
        check_kind(self, "thresholds", Thresholds, "a Thresholds")
        check_kind(self, "offsets_directory", str | None, "the path of a directory as a str, or None")

    @property
    def shares(self) -> bool:
        """Tell whether the members of the group share the messages."""
        return self.model == MessageModel.CLUSTERING

    @property
    def locks(self) -> bool:
        """Tell whether queues must be locked at the broker before they are read."""
        return self.orderly and self.shares


def outcome(listener: Listener, messages: list[ReceivedMessage]) -> Deferred[Any] | None:
    """
    Call a listener; return a Deferred of its end, or C{None} if it has ended already.

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
