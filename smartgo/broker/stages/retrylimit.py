"""
The limit of retries (docs/spec/broker#send): a message that came to %RETRY%group too often goes to %DLQ%group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.send import Send
from smartgo.broker.stages.delay import level_of
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.topics import READ, WRITE, TopicTable
from smartgo.errors import NoPermission
from smartgo.remoting.interfaces import IPeer
from smartgo.schema import properties as names
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.schema.topics import RETRY_PREFIX, dlq_topic, retry_topic

_HONOURS_MAXIMUM: Final = 121  # V3_4_9: older clients send no usable maxReconsumeTimes
_UNIT_SUB: Final = 2  # topic sys flag


def retry_limit(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return how often a message comes again before it is dead: as the client says if it may, else as its group."""
    if asked is not None and version >= _HONOURS_MAXIMUM:
        return asked
    return group.retry_max_times


class RetryTopics:
    """The %RETRY% and %DLQ% topics of consumer groups, made when first needed."""

    def __init__(self, topics: TopicTable, groups: GroupTable) -> None:
        self._topics = topics
        self._groups = groups

    def retry(self, group: SubscriptionGroupConfig, unit_mode: bool) -> str:
        """
        Return the retry topic of a group.

        @raise NoPermission: it may not be written.
        """
        config = self._topics.create_for_group(
            retry_topic(group.group_name), group.retry_queue_nums, READ | WRITE, _UNIT_SUB if unit_mode else 0
        )
        if not config.perm & WRITE:
            raise NoPermission(f"the topic[{config.topic_name}] sending message is forbidden")
        return config.topic_name

    def dead(self, group: str) -> str:
        """Return the dead letter topic of a group."""
        return self._topics.create_for_group(dlq_topic(group), 1, READ | WRITE, 0).topic_name

    async def durable(self) -> None:
        """Wait until the groups and topics that were made are as durable as promised (D15)."""
        for waiting in (self._groups.durable(), self._topics.durable()):
            if waiting is not None:
                await waiting

    def dead_letter_topic(
        self, group: str, reconsumed: int, asked: int | None, version: int, peer: IPeer
    ) -> str | None:
        """
        Return where a message sent to %RETRY%group has to go instead, C{None} where it may go there.

        @param peer: who sends.
        @raise GroupNotExist: no such group.
        """
        if reconsumed < retry_limit(self._groups.find(group, peer), asked, version):
            return None
        return self.dead(group)


@implementer(ISendStage)
class RetryLimit:
    """Turns the last retry of a message into a dead letter."""

    properties: frozenset[str] = frozenset()  # the topic makes a message a retry

    def __init__(self, broker: IBroker) -> None:
        self._retries = RetryTopics(broker.topics, broker.groups)
        self._levels = broker.store_settings.delay_levels

    def apply(self, send: Send) -> Send:
        """
        Change the topic of a message that was retried as often as its group allows; see L{ISendStage}.

        @raise GroupNotExist: it is sent to the retry topic of a group that does not exist.
        @raise BadHeader: DELAY is no number.
        """
        if not send.topic.startswith(RETRY_PREFIX):
            return send
        level_of(send.properties, self._levels)  # a DELAY that is no number is refused, also where it will not count
        header = send.header
        dead = self._retries.dead_letter_topic(
            send.topic.removeprefix(RETRY_PREFIX),
            header.reconsume_times,
            header.max_reconsume_times,
            send.request.version,
            send.peer,
        )
        if dead is None:
            return send
        dead_letter = send.with_properties({**send.properties, names.DELAY: "0"})
        return replace(dead_letter, topic=dead, queue_id=0, answered_queue_id=0)
