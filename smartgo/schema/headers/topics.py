"""
Headers about topics: 17, 202, 215, 300, 351.

Source: C{CreateTopicRequestHeader} and its neighbours, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32


class CreateTopicRequest(Header, gc=False):
    """
    17: create a topic, or replace all its settings.

    @ivar perm: 4 read, 2 write, 1 inherit.
    @ivar attributes: 5.x: C{+name=value} and C{-name}, joined by commas.
    """

    topic: str
    default_topic: str = field(name="defaultTopic")
    read_queue_nums: Int32 = field(name="readQueueNums")
    write_queue_nums: Int32 = field(name="writeQueueNums")
    perm: Int32
    topic_filter_type: str = field(name="topicFilterType")
    order: bool
    topic_sys_flag: Int32 | None = field(name="topicSysFlag", default=None)
    attributes: str | None = None
    force: bool | None = None


class TopicStatsRequest(Header, gc=False):
    """202: the bounds of a topic's queues."""

    topic: str


class DeleteTopicRequest(Header, gc=False):
    """215: remove a topic from a broker."""

    topic: str


class TopicConsumersRequest(Header, gc=False):
    """300: the groups that read a topic."""

    topic: str


class TopicConfigRequest(Header, gc=False):
    """351: the settings of one topic."""

    topic: str
