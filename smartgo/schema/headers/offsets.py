"""
Headers about positions in a queue: 14, 15, 29, 30, 31, 32, and their answers.

Source: C{QueryConsumerOffsetRequestHeader} and its neighbours, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class QueryOffsetRequest(Header, gc=False, forbid_unknown_fields=True):
    """
    14: where a group stands in a queue.

    @ivar set_zero_if_not_found: 5.x: false asks for QUERY_NOT_FOUND where a 4.9 broker would answer 0.
    """

    consumer_group: str = field(name="consumerGroup")
    topic: str
    queue_id: Int32 = field(name="queueId")
    set_zero_if_not_found: bool | None = field(name="setZeroIfNotFound", default=None)


class UpdateOffsetRequest(Header, gc=False, forbid_unknown_fields=True):
    """15: remember where a group stands in a queue."""

    consumer_group: str = field(name="consumerGroup")
    topic: str
    queue_id: Int32 = field(name="queueId")
    commit_offset: Int64 = field(name="commitOffset")


class SearchOffsetRequest(Header, gc=False):
    """
    29: the offset stored nearest to a time.

    @ivar timestamp: wall clock, in ms.
    @ivar boundary_type: 5.x: C{LOWER} or C{UPPER} neighbour.
    """

    topic: str
    queue_id: Int32 = field(name="queueId")
    timestamp: Int64
    boundary_type: str | None = field(name="boundaryType", default=None)


class MaxOffsetRequest(Header, gc=False):
    """30: the end of a queue, the offset to be written next."""

    topic: str
    queue_id: Int32 = field(name="queueId")
    committed: bool | None = None


class MinOffsetRequest(Header, gc=False):
    """31: the first offset still there."""

    topic: str
    queue_id: Int32 = field(name="queueId")


class EarliestStoreTimeRequest(Header, gc=False):
    """32: when the first message still there was stored."""

    topic: str
    queue_id: Int32 = field(name="queueId")


class OffsetResponse(Header, gc=False):
    """The answer to 14, 29, 30 and 31."""

    offset: Int64


class StoreTimeResponse(Header, gc=False):
    """The answer to 32: wall clock in ms, -1 for none."""

    timestamp: Int64
