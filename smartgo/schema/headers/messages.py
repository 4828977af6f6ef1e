"""
Headers that look messages up: 12, 33, 321, 323.

Source: C{QueryMessageRequestHeader} and its neighbours, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class QueryMessageRequest(Header, gc=False):
    """
    12: messages by key.

    @ivar begin_timestamp: store time in ms, as is C{end_timestamp}.
    @ivar unique_key_query: C{key} is a UNIQ_KEY; added by clients after signing.
    """

    topic: str
    key: str
    max_num: Int32 = field(name="maxNum")
    begin_timestamp: Int64 = field(name="beginTimestamp")
    end_timestamp: Int64 = field(name="endTimestamp")
    unique_key_query: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class QueryMessageResponse(Header, gc=False):
    """The answer to 12: how far the index has come (ms, CommitLog offset)."""

    index_last_update_timestamp: Int64 = field(name="indexLastUpdateTimestamp")
    index_last_update_phyoffset: Int64 = field(name="indexLastUpdatePhyoffset")


class ViewMessageRequest(Header, gc=False):
    """33: one message by its CommitLog offset."""

    offset: Int64
    topic: str | None = None


class QueryConsumeQueueRequest(Header, gc=False):
    """321: units of a queue, C{count} of them from C{index} on."""

    topic: str | None = None
    queue_id: Int32 = field(name="queueId", default=0)
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = field(name="consumerGroup", default=None)


class ResumeCheckRequest(Header, gc=False):
    """323: have a half message checked again from the beginning."""

    msg_id: str | None = field(name="msgId", default=None)
    topic: str | None = None
