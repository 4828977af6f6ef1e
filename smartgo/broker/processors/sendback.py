"""
Messages that consumers give back (36): %RETRY%, the delay before they come again, %DLQ% (docs/spec/broker#send-back).

Retry n, counted from 0, waits delay level 3 + n unless the consumer names a level.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.processors.messageat import message_at
from smartgo.broker.stages.delay import divert
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IRandom
from smartgo.errors import NoPermission, NoSuchMessage, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema import properties as names
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.delay import DelayLevels
from smartgo.schema.headers.send import SendBackRequest
from smartgo.schema.message import HOSTS_MASK, NewMessage
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.topics import QUEUE_LIMIT, dlq_topic, retry_topic
from smartgo.store.interfaces import IMessageStore

_FIRST_RETRY_LEVEL: Final = 3
_HONOURS_MAXIMUM: Final = 121  # V3_4_9: older clients send no usable maxReconsumeTimes
_READ_WRITE: Final = 6
_WRITE: Final = 2
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
            retry_topic(group.group_name), group.retry_queue_nums, _READ_WRITE, _UNIT_SUB if unit_mode else 0
        )
        if not config.perm & _WRITE:
            raise NoPermission(f"the topic[{config.topic_name}] sending message is forbidden")
        return config.topic_name

    def dead(self, group: str) -> str:
        """Return the dead letter topic of a group."""
        return self._topics.create_for_group(dlq_topic(group), 1, _READ_WRITE, 0).topic_name

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


@implementer(IRequestProcessor)
class SendBackProcessor(Processor):
    """
    Takes back what a consumer could not handle.

    @ivar writable: the broker's permission has the write bit; changed while it runs.
    """

    codes = frozenset({int(RequestCode.CONSUMER_SEND_MSG_BACK)})

    def __init__(
        self,
        store: IMessageStore,
        groups: GroupTable,
        retries: RetryTopics,
        stats: BrokerStats,
        random: IRandom,
        levels: DelayLevels,
        *,
        broker: str,
        store_host: bytes,
        writable: bool = True,
    ) -> None:
        """
        @param broker: our address, for remarks.
        @param writable: the broker's permission has the write bit.
        """
        self._store = store
        self._groups = groups
        self._retries = retries
        self._stats = stats
        self._random = random
        self._levels = levels
        self._broker = broker
        self._store_host = store_host
        self.writable = writable

    def run_ended(self) -> None:
        """Make what was appended readable."""
        self._store.end_run()

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """Store a copy for later, or a dead letter."""
        return Deferred.fromCoroutine(self._send_back(peer, request))

    async def _send_back(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(SendBackRequest)
        group = self._groups.find(header.group, peer)
        if not self.writable:
            raise NoPermission(f"the broker[{self._broker}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return request.answer()
        topic = self._retries.retry(group, bool(header.unit_mode))
        queue_id = self._random.below(min(group.retry_queue_nums, QUEUE_LIMIT))
        try:
            _, stored = await message_at(self._store, header.offset)
        except NoSuchMessage:
            raise RequestRefused(f"look message by offset failed, {header.offset}") from None
        properties = decode(stored.properties)
        properties.setdefault(names.RETRY_TOPIC, stored.topic)
        properties[names.WAIT] = "false"
        level = header.delay_level
        reconsumed = stored.reconsume_times
        if level < 0 or reconsumed >= retry_limit(group, header.max_reconsume_times, request.version):
            topic, queue_id, level = self._retries.dead(group.group_name), 0, 0
        else:
            level = min(level or _FIRST_RETRY_LEVEL + reconsumed, self._levels.highest)
        properties[names.DELAY] = str(level)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, stored.message_id)
        message = NewMessage(
            topic,
            queue_id,
            bytes(stored.body),
            encode(properties),
            stored.flag,
            stored.sys_flag & ~HOSTS_MASK,
            stored.born_ms,
            stored.born_host,
            self._store_host,
            reconsumed + 1,
            0,
            tag_code(properties.get(names.TAGS)),
        )
        if level > 0:
            message = divert(message, properties, level)
        appended = self._store.append((message,))
        self._store.end_run()
        self._stats.stored(message.topic, 1, appended.end - appended.offset)
        self._stats.sent_back(group.group_name, stored.topic)
        await self._retries.durable()
        return request.answer()
