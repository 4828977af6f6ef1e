"""
Headers about subscription groups and their offsets: 207, 208, 308, 314, 343, 345, 352.

Source: C{DeleteSubscriptionGroupRequestHeader}, C{GetConsumeStatsRequestHeader} and their neighbours, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header


class DeleteGroupRequest(Header, gc=False):
    """
    207: forget a group, and its offsets if asked.

    @ivar remove_offset: 4.x's name for the wish; L{clean_offset} is 5.x's.
    """

    group_name: str = field(name="groupName")
    remove_offset: bool = field(name="removeOffset", default=False)
    clean_offset: bool = field(name="cleanOffset", default=False)


class ConsumeStatsRequest(Header, gc=False):
    """
    208: how far a group is behind.

    @ivar topic: blank for all its topics.
    @ivar topic_list: 5.x: several topics.
    """

    consumer_group: str = field(name="consumerGroup")
    topic: str | None = None
    topic_list: str | None = field(name="topicList", default=None)


class CorrectionOffsetRequest(Header, gc=False):
    """
    308: compare a group's offsets with the smallest of all others.

    @ivar filter_groups: groups to leave out, joined by commas.
    """

    compare_group: str = field(name="compareGroup")
    topic: str
    filter_groups: str | None = field(name="filterGroups", default=None)


class CloneGroupOffsetRequest(Header, gc=False):
    """
    314: give one group the offsets of another.

    @ivar topic: blank for all topics of the source.
    @ivar offline: also those that the connected source no longer subscribes to.
    """

    src_group: str = field(name="srcGroup")
    dest_group: str = field(name="destGroup")
    topic: str | None = None
    offline: bool = False


class GroupConfigRequest(Header, gc=False):
    """352: the settings of one group."""

    group: str


class TopicsByConsumerRequest(Header, gc=False):
    """343: the topics in which a group has offsets."""

    group: str


class SubscriptionByConsumerRequest(Header, gc=False):
    """345: what a connected group wants of a topic."""

    group: str
    topic: str | None = None
