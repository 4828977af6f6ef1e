"""Offsets, statistics and what tools ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec
from msgspec import field

from smartgo.schema.bodies.clients import SubscriptionData
from smartgo.schema.bodies.shape import Body, Double, MessageQueue, always, encode_keyed
from smartgo.schema.headerfields import Int32, Int64


class ResetOffsetBody(Body):
    """The new offsets of a group (220, and the answer to 222)."""

    offset_table: dict[MessageQueue, Int64] = always({})

    queue_keyed: ClassVar = frozenset({"offsetTable"})

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take the list form, which C++ clients get."""
        table = value.get("offsetTable")
        if isinstance(table, list):
            entries = msgspec.convert(table, list[_QueueOffset], strict=False)
            return {
                "offsetTable": {
                    MessageQueue(each.topic, each.broker_name, each.queue_id): each.offset for each in entries
                }
            }
        return super().prepared(value)

    def encode(self, as_list: bool = False) -> bytes:
        """
        Write the body.

        @param as_list: for C++ clients.
        """
        if not as_list:
            return super().encode()
        entries = [
            _QueueOffset(queue.topic, queue.broker_name, queue.queue_id, offset)
            for queue, offset in self.offset_table.items()
        ]
        return msgspec.json.encode({"offsetTable": entries})


class _QueueOffset(Body):
    topic: str
    broker_name: str
    queue_id: Int32
    offset: Int64


class TopicOffset(Body):
    """The bounds of one queue; C{last_update_timestamp} is when its last message was stored, in ms."""

    min_offset: Int64 = always(0)
    max_offset: Int64 = always(0)
    last_update_timestamp: Int64 = always(0)


class TopicStatsTable(Body):
    """
    The bounds of a topic's queues (202).

    @ivar topic_put_tps: 5.x.
    """

    offset_table: dict[MessageQueue, TopicOffset] = always({})
    topic_put_tps: Double | None = None

    queue_keyed: ClassVar = frozenset({"offsetTable"})


class OffsetWrapper(Body):
    """
    The offsets of a group in one queue.

    @ivar broker_offset: the queue's end.
    @ivar pull_offset: 5.x.
    @ivar last_timestamp: when the last message below the consumer offset was stored, in ms.
    @ivar removed: smartgo's own: messages that retention removed before the group consumed them, since the broker
        started.
    @ivar min_offset: smartgo's own: where the queue begins; what a group has not consumed below that is gone.
    @ivar waiting_since: smartgo's own: when the oldest message that waits for the group was stored, in ms; 0 if none
        waits; C{None} from brokers that do not tell.
    """

    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    pull_offset: Int64 | None = None
    last_timestamp: Int64 = always(0)
    removed: Int64 = 0
    min_offset: Int64 = 0
    waiting_since: Int64 | None = None


class ConsumeStats(Body):
    """
    The progress of a group (208).

    @ivar consume_tps: messages per second that were delivered to the group in the last minute.
    @ivar acknowledged_tps: smartgo's own: messages per second that the group acknowledged, by committing larger
        offsets, in the last minute; C{None} from brokers that do not tell.
    """

    offset_table: dict[MessageQueue, OffsetWrapper] = always({})
    consume_tps: Double = always(0.0)
    acknowledged_tps: Double | None = None

    queue_keyed: ClassVar = frozenset({"offsetTable"})


class ConsumeStatsList(Body):
    """
    The progress of all groups of a broker (317).

    @ivar consume_stats_list: an entry a group: its name and its topics.
    @ivar total_diff: messages not yet consumed.
    @ivar total_inflight_diff: 5.x.
    """

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = always([])
    broker_addr: str | None = None
    total_diff: Int64 = always(0)
    total_inflight_diff: Int64 | None = None

    @staticmethod
    def part(group: str, stats: list[ConsumeStats]) -> bytes:
        """Write the entry of one group, for L{joined}: of many, each in a turn of its own."""
        return encode_keyed({group: stats})

    @classmethod
    def joined(cls, parts: Iterable[bytes], broker_addr: str, total_diff: int) -> bytes:
        """Write the body of entries that are written already."""
        end = cls(broker_addr=broker_addr, total_diff=total_diff).encode()
        return end.replace(b"[]", b"[%s]" % b",".join(parts), 1)

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Read the keys of the inner tables."""
        value = super().prepared(value)
        groups = value.get("consumeStatsList")
        if isinstance(groups, list):
            value["consumeStatsList"] = [_prepared_group(each) for each in groups]
        return value


def _prepared_group(group: Any) -> Any:
    if not isinstance(group, dict):
        return group
    return {
        name: [ConsumeStats.prepared(each) if isinstance(each, dict) else each for each in stats]
        if isinstance(stats, list)
        else stats
        for name, stats in group.items()
    }


class GroupList(Body):
    """Group names (300)."""

    group_list: list[str] = always([])


class QueueTimeSpan(Body):
    """The age of the messages of one queue; wall clock in ms."""

    message_queue: MessageQueue
    min_time_stamp: Int64 = always(0)
    max_time_stamp: Int64 = always(0)
    consume_time_stamp: Int64 = always(0)
    delay_time: Int64 = always(0)


class ConsumeTimeSpans(Body):
    """The age of the messages that a group reads (303)."""

    consume_time_span_set: list[QueueTimeSpan] = always([])


class StatsItem(Body):
    """One counter over one span: its sum, events a second, and the average of one event."""

    sum: Int64 = always(0)
    tps: Double = always(0.0)
    avgpt: Double = always(0.0)


class BrokerStatsData(Body):
    """One counter over a minute, an hour and a day (315)."""

    stats_minute: StatsItem = field(default_factory=StatsItem)
    stats_hour: StatsItem = field(default_factory=StatsItem)
    stats_day: StatsItem = field(default_factory=StatsItem)


class ConsumeQueueData(Body):
    """
    One unit of a queue.

    @ivar eval: whether the filter lets the message through; C{msg} says why not.
    """

    physic_offset: Int64 = always(0)
    physic_size: Int32 = always(0)
    tags_code: Int64 = always(0)
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = always(False)
    msg: str | None = None


class ConsumeQueueBody(Body):
    """Units of a queue, its bounds, and what a group wants of it (321)."""

    queue_data: list[ConsumeQueueData] = always([])
    max_queue_index: Int64 = always(0)
    min_queue_index: Int64 = always(0)
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class CorrectionOffsets(Body):
    """By queue id, the offset that a group should not fall behind (308)."""

    correction_offsets: dict[Int32, Int64] = always({})
