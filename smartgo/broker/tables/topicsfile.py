"""
The file of the topic table, and which of the topics in such a table can be used.

The file is RocketMQ's C{topics.json}. Three members are smartgo's own; RocketMQ ignores them. C{removedQueueTable} has
a topic's name and how many queues it had when an operator deleted or shrank it, C{removedAtTable} where the log ended
then (L{smartgo.broker.tables.removedqueues}). C{explicitTopicList} names the topics that administrators created: they
do not take the room of those that sends create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from twisted.logger import Logger

from smartgo.schema.bodies import TopicConfig, TopicConfigSerializeWrapper
from smartgo.schema.topics import QUEUE_LIMIT, is_topic
from smartgo.tablefile import holding

_log: Final = Logger()


class TopicsFile(TopicConfigSerializeWrapper):
    """The content of C{topics.json}."""

    removed_queue_table: dict[str, int] = msgspec.field(default_factory=dict)
    removed_at_table: dict[str, int] = msgspec.field(default_factory=dict)
    explicit_topic_list: list[str] = msgspec.field(default_factory=list)


READ_TOPICS: Final = holding(TopicsFile.decode, "topicConfigTable")
"""Reads it, for L{smartgo.tablefile.TableFile.load}."""


def usable_topics(table: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    """
    Return the topics of a table that was read or received, each by its own name.

    Names that no topic may have are left out, and numbers of queues cut to what a topic may have; both are logged.
    """
    usable = {}
    for name, config in table.items():
        if not is_topic(name):
            _log.warn("leaving out {topic}, which is not a valid topic name", topic=name)
            continue
        if max(config.read_queue_nums, config.write_queue_nums) > QUEUE_LIMIT:
            _log.warn(
                "topic {topic} cannot have {read} queues to read and {write} to write; it has at most {limit}",
                topic=name,
                read=config.read_queue_nums,
                write=config.write_queue_nums,
                limit=QUEUE_LIMIT,
            )
            config = msgspec.structs.replace(
                config,
                read_queue_nums=min(config.read_queue_nums, QUEUE_LIMIT),
                write_queue_nums=min(config.write_queue_nums, QUEUE_LIMIT),
            )
        usable[name] = config if config.topic_name == name else msgspec.structs.replace(config, topic_name=name)
    return usable
