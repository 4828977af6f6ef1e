"""
Messages that consumers give back (36): %RETRY%, the delay before redelivery, %DLQ% (docs/spec/broker#send-back).

Retry n, counted from 0, waits delay level 3 + n unless the consumer names a level.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.auth.accounts import Permission
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.messageat import message_at
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.stages.delay import schedule_place
from smartgo.broker.stages.retrylimit import RetryTopics, retry_limit
from smartgo.broker.tables.topics import WRITE
from smartgo.errors import NoPermission, NoSuchMessage, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.origin import asker
from smartgo.remoting.processor import Processor
from smartgo.schema import properties as names
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest
from smartgo.schema.message import HOSTS_MASK, NewMessage
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.topics import QUEUE_LIMIT

_FIRST_RETRY_LEVEL: Final = 3


@implementer(IRequestProcessor)
class SendBackProcessor(Processor):
    """Stores what a consumer could not handle, for redelivery or as a dead letter."""

    codes = answered_by("sendback")

    def __init__(self, broker: IBroker) -> None:
        self._settings = broker.settings.current
        self._access = broker.access
        self._store = broker.store
        self._groups = broker.groups
        self._retries = RetryTopics(broker.topics, broker.groups)
        self._stats = broker.stats
        self._random = broker.env.random
        self._levels = broker.store_settings.delay_levels
        self._address = broker.identity.address
        self._store_host = broker.identity.store_host

    def run_ended(self) -> None:
        """Make what was appended readable."""
        self._store.end_run()

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """Store a copy for later, or a dead letter."""
        return Deferred.fromCoroutine(self._send_back(peer, request))

    async def _send_back(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(SendBackRequest)
        group = self._groups.find(header.group, peer)
        if not self._settings.broker.broker_permission & WRITE:
            raise NoPermission(f"the broker[{self._address}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return request.answer()
        topic = self._retries.retry(group, bool(header.unit_mode))
        queue_id = self._random.below(min(group.retry_queue_nums, QUEUE_LIMIT))
        try:
            _, stored = await message_at(self._store, header.offset)
        except NoSuchMessage:
            raise RequestRefused(f"look message by offset failed, {header.offset}") from None
        if self._access is not None:  # the request may name any topic as the message's
            ip, certificate = asker(peer).ip, peer.certificate_names
            self._access.check_resource(request, stored.topic, Permission.SUB, ip, certificate)
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
        code = tag_code(properties.get(names.TAGS))
        if level > 0:
            topic, queue_id, properties = schedule_place(topic, queue_id, properties, level)
            code = 0
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
            code,
            copied=True,
        )
        appended = self._store.append((message,))
        self._store.end_run()
        self._stats.stored(topic, 1, appended.end - appended.offset)
        self._stats.sent_back(group.group_name, stored.topic, again=level > 0)
        await self._retries.durable()
        return request.answer()
