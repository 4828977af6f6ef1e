"""The reads of pulls, and the spans of what they deliver: each delivered record is looked at, where spans are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred

from smartgo.broker.interfaces import IBroker
from smartgo.broker.spans.sink import SpanSink
from smartgo.broker.spans.tracedmessages import traced_messages
from smartgo.schema.indexkeys import record_starts
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus

_TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # of those who look without being a member, such as the console


class PullReads(NamedTuple):
    """
    The functions by which pulls read and count messages.

    @ivar read: see L{IMessageStore.read<smartgo.store.interfaces.IMessageStore.read>}.
    @ivar read_cold: see L{IMessageStore.read_cold<smartgo.store.interfaces.IMessageStore.read_cold>}.
    @ivar found: see L{BrokerStats.found<smartgo.broker.figures.stats.BrokerStats.found>}; it is called directly after
        the read whose messages are delivered.
    """

    read: Callable[[str, int, int, ReadLimit, IMessageFilter | None], ReadResult]
    read_cold: Callable[[str, int, int, ReadLimit, IMessageFilter | None], Deferred[ReadResult]]
    found: Callable[[str, str, int, int, int], None]


def pull_reads(broker: IBroker) -> PullReads:
    """Return the functions of a broker's pulls; where it makes no spans these are those of its store."""
    plain = PullReads(broker.store.read, broker.store.read_cold, broker.stats.found)
    if broker.spans is None:
        return plain
    traced = _TracedReads(plain, broker.spans)
    return PullReads(traced.read, traced.read_cold, traced.found)


class _TracedReads:
    """Reads that are remembered until it is known which group gets their messages."""

    def __init__(self, plain: PullReads, sink: SpanSink) -> None:
        self._plain = plain
        self._sink = sink
        self._last: ReadResult | None = None

    def read(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> ReadResult:
        """Read, and remember the result."""
        return self._remember(self._plain.read(topic, queue_id, offset, limit, filter))

    def read_cold(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> Deferred[ReadResult]:
        """Read from the disk, and remember the result."""
        return self._plain.read_cold(topic, queue_id, offset, limit, filter).addCallback(self._remember)

    def _remember(self, result: ReadResult) -> ReadResult:
        self._last = result if result.status is ReadStatus.FOUND else None
        return result

    def found(self, group: str, topic: str, count: int, size: int, queue_id: int) -> None:
        """Count a delivery, and have the spans of its messages made."""
        self._plain.found(group, topic, count, size, queue_id)
        result, self._last = self._last, None
        if result is None or group == _TOOLS_GROUP:
            return
        for part in result.parts:
            starts, end = record_starts(part, 0, count)
            for message in traced_messages(part, starts, end):
                self._sink.delivered(group, message)
