"""The topics that every master has (docs/spec/broker#topics), and the templates by which sends create topics."""

from __future__ import annotations

import msgspec

from smartgo.broker.tables.topics import INHERIT, READ, WRITE, TopicTable, topic_config
from smartgo.config.settings import BrokerConfig
from smartgo.schema.topics import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    OFFSET_MOVED_EVENT,
    REPLY_SUFFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TEMPLATE_TOPIC,
)


def create_built_in(topics: TopicTable, config: BrokerConfig, delay_levels: int = 18) -> None:
    """
    Create the system topics that are missing, after the table was loaded; saved settings of theirs are kept, except
    that the template topics are templates exactly while C{autoCreateTopicEnable} is on.

    @param delay_levels: how many queues the schedule topic needs.
    """
    cluster, broker = config.broker_cluster_name, config.broker_name
    topics.create_system(SELF_TEST_TOPIC, 1)
    if config.auto_create_topic_enable:
        topics.create_system(TEMPLATE_TOPIC, topics.default_queues, READ | WRITE | INHERIT)
        topics.create_system(DEFAULT_TOPIC, 16, READ | WRITE | INHERIT)
    topics.create_system(BENCHMARK_TOPIC, 1024)
    topics.create_system(cluster, 16, READ | WRITE | INHERIT if config.cluster_topic_enable else INHERIT)
    topics.create_system(broker, 1, READ | WRITE | INHERIT if config.broker_topic_enable else INHERIT)
    topics.create_system(OFFSET_MOVED_EVENT, 1)
    schedule = topics.create_system(SCHEDULE_TOPIC, delay_levels)
    if schedule.read_queue_nums < delay_levels:
        topics.restore(topic_config(SCHEDULE_TOPIC, delay_levels, schedule.perm, schedule.topic_sys_flag))
    if config.trace_topic_enable:
        topics.create_system(config.msg_trace_topic_name, 1)
    topics.create_system(cluster + REPLY_SUFFIX, 1)
    set_auto_create(topics, config.auto_create_topic_enable)


def set_auto_create(topics: TopicTable, enabled: bool) -> None:
    """Switch the creation of topics by sends: make the existing template topics templates, or ordinary topics."""
    for name in (TEMPLATE_TOPIC, DEFAULT_TOPIC):
        config = topics.get(name)
        if config is not None and bool(config.perm & INHERIT) != enabled:
            topics.restore(msgspec.structs.replace(config, perm=config.perm ^ INHERIT))
