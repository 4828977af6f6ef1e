"""
Topics and queues that the store has and the table of topics lost (reliability D15).

The table is saved late, or not at all on a full disk, and the broker may be killed before. Whatever messages were
acknowledged must be readable all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from twisted.logger import Logger

from smartgo.broker.tables.topiclimits import of_group
from smartgo.broker.tables.topics import READ, WRITE, TopicTable, topic_config
from smartgo.schema.topics import LMQ_PREFIX, is_system, is_topic

_log = Logger()


def adopt(topics: TopicTable, queues: Iterable[tuple[str, int]], last: Callable[[str, int], int]) -> None:
    """
    Re-create what the store has and the table lost, each with a warning.

    An unknown topic gets the default settings; a known one becomes readable as far as the store has queues. Queues that
    were taken away on purpose, and not used since, stay away. No topic gets more queues than the limit: a higher queue
    id is not readable (L18). The broker's own topics come back silently: RocketMQ never had some of them in its table.
    Light queues and what 5.x keeps for itself (C{rmq_sys_}) are no topics.

    @param queues: (topic, queue id) of every queue that the store has.
    @param last: returns the physical offset of the last message of such a queue.
    """
    topics.keep_within_log()
    highest: dict[str, int] = {}
    for topic, queue_id in queues:
        config = topics.get(topic)
        if topic.startswith(LMQ_PREFIX) or (config is not None and topics.is_system(topic)):
            continue
        if config is not None and queue_id < config.read_queue_nums:
            continue
        if queue_id >= topics.queue_limit:
            _log.warn(
                "the store has queue {queue} of topic {topic}, which is not readable: a topic has at most {limit}"
                " queues (maxQueuesPerTopic)",
                topic=topic,
                queue=queue_id,
                limit=topics.queue_limit,
            )
            continue
        if not topics.removed.holds(topic, queue_id, last):
            highest[topic] = max(queue_id, highest.get(topic, 0))
    for topic, queue_id in sorted(highest.items()):
        _adopt_topic(topics, topic, queue_id + 1)


def adopt_destination(topics: TopicTable, topic: str, queue_id: int, offset: int) -> None:
    """
    Make the queue readable to which a delayed message was delivered.

    Its topic may be unknown: the message was acknowledged, and the broker killed, before the table was saved. Or it was
    deleted meanwhile: the next start would re-create it, as it was used since.

    @param offset: physical offset of the delivered message.
    """
    config = topics.get(topic)
    if config is None or queue_id >= config.read_queue_nums:
        adopt(topics, [(topic, queue_id)], lambda topic, queue_id: offset)


def _adopt_topic(topics: TopicTable, topic: str, queues: int) -> None:
    """Re-create a topic that has so many queues in the store, or make as many readable."""
    config = topics.get(topic)
    if topic in topics.system_names():
        topics.create_system(topic, queues)
    elif is_system(topic):
        _log.debug("the store has queues of {topic}, which this broker does not serve", topic=topic)
    elif not is_topic(topic):
        _log.warn("the store has queues of {topic}, which is not a valid topic name", topic=topic)
    elif config is None:
        count = queues if of_group(topic) else max(queues, topics.default_queues)
        _log.warn(
            "topic {topic} was in the store but not in the table; it has {count} queues again",
            topic=topic,
            count=count,
        )
        topics.restore(topic_config(topic, count, READ | WRITE, 0))
    else:
        _log.warn("topic {topic} had {count} queues in the store; they can be read again", topic=topic, count=queues)
        topics.restore(msgspec.structs.replace(config, read_queue_nums=queues))
