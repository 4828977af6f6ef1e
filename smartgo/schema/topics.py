"""
Topic and group names: the reserved ones, the prefixes, and which names are allowed.

Limits are reliability L5; sets and remarks are those of C{common/topic/TopicValidator.java} and
C{client/Validators.java} of RocketMQ 4.9.7. C{DEFAULT_TOPIC} is smartgo's own second template topic.
"""

from __future__ import annotations

import re
from typing import Final

from smartgo.errors import BadName

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"
"""Every topic of this prefix is a system topic (5.x makes some)."""
REPLY_SUFFIX: Final = "_REPLY_TOPIC"

TEMPLATE_TOPIC: Final = "TBW102"
DEFAULT_TOPIC: Final = "DEFAULT_TOPIC"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Timed messages wait there until they are due, as in RocketMQ 5."""
DEAD_LETTER_JOURNAL: Final = "SMARTGO_DEAD_LETTER_JOURNAL"
"""What was done about dead letters (smartgo's own); to brokers it is a topic like any other."""
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"

TOO_MANY_NEW: Final = "too many new topics from your address, try again"
"""The end of the remark (code 1) with which smartgo's broker refuses to create a topic for now."""

FORBIDDEN_TO_SEND: Final = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT}
)
"""A client's send to one of these is refused with 16, as in RocketMQ."""

CLOSED_TO_SENDS: Final = FORBIDDEN_TO_SEND | {TIMER_TOPIC}
"""All topics that a client's send is refused to; what it puts into the timer topic would be delivered anywhere."""

HOLD_OTHERS_MESSAGES: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC})
"""Topics in which messages of all other topics wait: to read them is to read these."""

SYSTEM_TOPICS: Final = FORBIDDEN_TO_SEND | {TEMPLATE_TOPIC, DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
"""Not to be created, changed or deleted by clients; a broker adds its own name, its cluster's and the reply topic."""

TOPIC_LIMIT: Final = 127
GROUP_LIMIT: Final = 255
"""Characters; allowed characters are ASCII, so bytes as well."""

QUEUE_LIMIT: Final = 65_536
"""No topic has more queues, whatever C{maxQueuesPerTopic} says (L18): a higher queue id is damaged, or made up."""

_ALLOWED = "^[%|a-zA-Z0-9_-]+$"
_NAME = re.compile("[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """Return the topic that holds what consumers of C{group} gave back."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic that holds what consumers of C{group} failed for good."""
    return DLQ_PREFIX + group


def queue_ids(count: int) -> range:
    """Return the ids of a topic's queues; C{count} may come from anywhere, and no topic has more than the limit."""
    return range(min(count, QUEUE_LIMIT))


def is_system(topic: str) -> bool:
    """Tell whether a topic is one of the fixed system topics."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def is_topic(name: str) -> bool:
    """Tell whether a topic of this name may exist (L5)."""
    return len(name) <= TOPIC_LIMIT and _NAME.fullmatch(name) is not None


def is_group(name: str) -> bool:
    """Tell whether a group of this name may exist (L5)."""
    return len(name) <= GROUP_LIMIT and _NAME.fullmatch(name) is not None


NO_TOPIC_RETENTION: Final = (
    "there is no retention by topic: all topics share the log, whose files are kept for fileReservedTime hours"
)
"""The answer to whoever wants the messages of one topic kept for another time than those of others."""


def check_topic(name: str) -> None:
    """
    Let a valid topic name pass.

    @raise BadName: it is not; the message is RocketMQ's remark.
    """
    if is_topic(name):
        return
    if not name or name.isspace():
        raise BadName("The specified topic is blank.")
    if _NAME.fullmatch(name) is None:
        raise BadName(f"The specified topic contains illegal characters, allowing only {_ALLOWED}")
    raise BadName("The specified topic is longer than topic max length.")


def check_group(name: str) -> None:
    """
    Let a valid group name pass.

    @raise BadName: it is not; the message is the one of RocketMQ's client, as its broker does not check groups.
    """
    if is_group(name):
        return
    if not name or name.isspace():
        raise BadName("the specified group is blank")
    if len(name) > GROUP_LIMIT:
        raise BadName(f"the specified group is longer than group max length {GROUP_LIMIT}.")
    raise BadName(f"the specified group[{name}] contains illegal characters, allowing only {_ALLOWED}")
