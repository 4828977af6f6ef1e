"""
Pulls (11, 361): checked, read, held when there is nothing yet (docs/spec/broker#pull; slaves: docs/spec/ha#reading).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.auth.connections import HeldIdentity
from smartgo.broker.filter import TAG, FilterCache
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.pullrun import PullRun, PullSource, PullWork
from smartgo.broker.spans.pullreads import pull_reads
from smartgo.broker.tables.topics import READ
from smartgo.errors import (
    FilterDataNotExist,
    NoPermission,
    RequestRefused,
    SubscriptionNotExist,
    SubscriptionNotLatest,
    SubscriptionParseFailed,
    TopicNotExist,
)
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.remoting.interfaces import Answer, IPeer, IRunSource
from smartgo.remoting.origin import asker
from smartgo.remoting.processor import Processor
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema import properties as names
from smartgo.schema.bodies import MessageQueue, SubscriptionData, SubscriptionGroupConfig, TopicConfig
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.message import NewMessage
from smartgo.schema.properties import encode, tag_code
from smartgo.schema.responses import found_pieces, pull_response
from smartgo.schema.topics import OFFSET_MOVED_EVENT
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's sys flag."""

_AGAIN: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)

_CODES: Final = {
    ReadStatus.FOUND: int(ResponseCode.SUCCESS),
    ReadStatus.NO_MATCHED_MESSAGE: _AGAIN,
    ReadStatus.MESSAGE_WAS_REMOVING: _AGAIN,
    ReadStatus.OFFSET_FOUND_NULL: _NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: _MOVED,
    ReadStatus.OFFSET_OVERFLOW_ONE: _NOT_FOUND,
    ReadStatus.OFFSET_TOO_SMALL: _MOVED,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: _NOT_FOUND,  # at offset 0; else moved
    ReadStatus.NO_MESSAGE_IN_QUEUE: _NOT_FOUND,
}
_NAMES: Final = {status: status.name for status in ReadStatus}
_EMPTY: Final = frozenset({ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE})

_COUNT_LIMIT: Final = 32
_EVENTS_PER_SECOND: Final = 1  # of a group and queue
_SIZE_LIMIT: Final = 262144


class OffsetMovedEvent(msgspec.Struct, rename="camel"):
    """The body of a message in OFFSET_MOVED_EVENT: a group asked for an offset that its queue does not have."""

    consumer_group: str
    message_queue: MessageQueue
    offset_new: int
    offset_request: int


@implementer(IRunSource)
class PullProcessor(Processor):
    """Answers consumers that ask for messages; C{grants}: see L{IRunSource<smartgo.remoting.interfaces.IRunSource>}."""

    codes = answered_by("pull")

    def __init__(self, broker: IBroker, filters: FilterCache, grants: RunGrants | None = None) -> None:
        """
        @param filters: makes the filters of subscriptions.
        @param grants: what runs ask about each frame; C{None}: nothing.
        """
        self.grants = grants
        self._settings = settings = broker.settings.current
        self._clock = broker.env.clock
        self._store = broker.store
        self._access = broker.access
        self._topics, self._groups = broker.topics, broker.groups
        self._offsets = broker.offsets
        self._consumers = broker.consumers
        self._long_polls = broker.long_polls
        self._stats = broker.stats
        self._address = broker.identity.address
        self._broker_name = broker.identity.name
        self._store_host = broker.identity.store_host
        self._slave_read = settings.broker.slave_read_enable
        self._slave = broker.is_slave
        self._correct = not broker.is_slave or settings.store.offset_check_in_slave
        self._is_without_master = broker.is_without_master
        self._filters = filters
        self._event_rate = TokenBuckets(_EVENTS_PER_SECOND, _EVENTS_PER_SECOND)
        self._reads = reads = pull_reads(broker)
        work = PullWork(
            self._learn,
            self._filters.find,
            reads.read,
            reads.found,
            None if self._slave else self._commit,
            ReadLimit(_COUNT_LIMIT, _SIZE_LIMIT),
            ReadStatus.FOUND,
            found_pieces(ReadStatus.FOUND.name),
        )
        self._plain = PullRun(work, grants)
        self._learned_of: tuple[object, ...] = ()  # the state of everything that was learned

    # -- runs ------------------------------------------------------------------------------------------------

    def ready_run(self) -> PullRun | None:
        """See L{IRunSource.ready_run}."""
        settings = self._settings.broker
        state = settings, self._topics.version, self._groups.version, self._consumers.changes
        if state != self._learned_of:
            self._learned_of = state
            self._plain.forget()
        return self._plain if settings.broker_permission & READ else None

    def _learn(self, group_name: str, topic: str) -> PullSource | None:
        """Return what the pulls of a group from a topic have in common; C{None}: L{process} has to see to each."""
        if group_name not in self._groups:
            return None
        try:
            group = self._group(group_name)
            config = self._topic(topic)
        except RequestRefused:
            return None
        near = far = 0
        if self._slave_read:
            near, far = group.broker_id, group.which_broker_when_consume_slowly
        wanted = version = None
        with suppress(RequestRefused):
            subscription = self._subscription(group, topic)
            wanted = self._filters.find(subscription.expression_type, subscription.sub_string)
            if wanted is None or not wanted.needs_content():  # by content, Python would ask it again in vain
                version = subscription.sub_version
        return PullSource(group_name, topic, config.read_queue_nums, near, far, version, wanted)

    # -- one by one ------------------------------------------------------------------------------------------

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer a pull, or hold it. @raise RequestRefused: one of the checks of docs/spec/broker#pull failed."""
        header: PullRequest = request.read(PullRequest)
        if not self._settings.broker.broker_permission & READ:
            raise self._unreadable()
        group = self._group(header.consumer_group, peer)
        config = self._topic(header.topic)
        if not 0 <= header.queue_id < config.read_queue_nums:
            raise RequestRefused(
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[{peer.address}]"
            )
        wanted = self._filter(header, group)
        answer = self._read(peer, request, header, group, wanted, bool(header.sys_flag & SUSPEND))
        if header.sys_flag & COMMIT and header.commit_offset >= 0 and not self._slave:
            self._commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return answer

    def _group(self, name: str, peer: IPeer | None = None) -> SubscriptionGroupConfig:
        group = self._groups.find(name, peer)
        if not group.consume_enable:
            raise NoPermission(f"subscription group no permission, {name}")
        return group

    def _topic(self, name: str) -> TopicConfig:
        config = self._topics.get(name)
        if config is None:
            raise TopicNotExist(f"topic[{name}] not exist, apply first please!")
        if not config.perm & READ:
            raise NoPermission(f"the topic[{name}] pulling message is forbidden")
        return config

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        try:
            advanced = self._offsets.commit(group, topic, queue_id, offset)
            if advanced:
                self._stats.acknowledged(group, topic, advanced)
        except RequestRefused:
            pass  # no room for one more offset: what was pulled is answered all the same

    def _unreadable(self) -> NoPermission:
        return NoPermission(f"the broker[{self._address}] pulling message is forbidden")

    def _filter(self, header: PullRequest, group: SubscriptionGroupConfig) -> IMessageFilter | None:
        if header.sys_flag & SUBSCRIPTION:
            try:
                return self._filters.find(header.expression_type, header.subscription)
            except SubscriptionParseFailed as refusal:
                if not header.expression_type or header.expression_type == TAG:
                    raise
                raise SubscriptionParseFailed(f"parse the consumer's subscription failed: {refusal}") from None
        subscription = self._subscription(group, header.topic)
        if subscription.sub_version < header.sub_version:
            raise SubscriptionNotLatest("the consumer's subscription not latest")
        try:
            return self._filters.find(subscription.expression_type, subscription.sub_string)
        except SubscriptionParseFailed:
            if not subscription.expression_type or subscription.expression_type == TAG:
                raise
            raise FilterDataNotExist(
                "The broker's consumer filter data is not exist!Your expression may be wrong!"
            ) from None

    def _subscription(self, group: SubscriptionGroupConfig, topic: str) -> SubscriptionData:
        members = self._consumers.get(group.group_name)
        if members is None:
            raise SubscriptionNotExist("the consumer's group info not exist")
        if not group.consume_broadcast_enable and members.message_model == "BROADCASTING":
            raise NoPermission(f"the consumer group[{group.group_name}] can not consume by broadcast way")
        subscription = members.subscription(topic)
        if subscription is None:
            raise SubscriptionNotExist("the consumer's subscription not exist")
        return subscription

    def _read(
        self,
        peer: IPeer,
        request: Command,
        header: PullRequest,
        group: SubscriptionGroupConfig,
        filter: IMessageFilter | None,
        may_hold: bool,
    ) -> Answer | Deferred[Answer]:
        size = _SIZE_LIMIT if header.max_msg_bytes is None else min(_SIZE_LIMIT, max(1, header.max_msg_bytes))
        limit = ReadLimit(min(max(1, header.max_msg_nums), _COUNT_LIMIT), size)
        result = self._reads.read(header.topic, header.queue_id, header.queue_offset, limit, filter)
        if result.status is ReadStatus.COLD:
            header = _needed(header)
            request.trim(header)
            cold = self._reads.read_cold(header.topic, header.queue_id, header.queue_offset, limit, filter)
            return cold.addCallback(self._answer, peer, request, header, group, filter, may_hold)
        return self._answer(result, peer, request, header, group, filter, may_hold)

    def _answer(
        self,
        result: ReadResult,
        peer: IPeer,
        request: Command,
        header: PullRequest,
        group: SubscriptionGroupConfig,
        filter: IMessageFilter | None,
        may_hold: bool,
    ) -> Answer | Deferred[Answer]:
        status = result.status
        code = _CODES[status]
        next_offset = result.next_offset
        suggested = 0
        if self._slave_read:
            suggested = group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id
        if status is ReadStatus.FOUND:
            self._reads.found(header.consumer_group, header.topic, result.count, result.size, header.queue_id)
        else:
            if status in _EMPTY and header.queue_offset:
                code = _MOVED
            if code == _NOT_FOUND:
                if may_hold:
                    return self._hold(peer, request, header, group, filter)
                self._stats.missed()
            elif code == _MOVED and self._correct:
                next_offset = max(result.minimum, min(header.queue_offset, result.maximum))
                self._moved(header, next_offset)
            elif code == _MOVED:
                if may_hold and self._is_without_master():  # it would ask again at once, and nothing would be different
                    return self._hold(peer, request, header, group, filter)
                code = _AGAIN
                suggested = group.broker_id
        head = pull_response(
            request.encoding,
            request.opaque,
            code,
            _NAMES[status],
            suggested,
            next_offset,
            result.minimum,
            result.maximum,
            result.size,
        )
        return [head, *result.parts]

    def _hold(
        self,
        peer: IPeer,
        request: Command,
        header: PullRequest,
        group: SubscriptionGroupConfig,
        filter: IMessageFilter | None,
    ) -> Deferred[Answer]:
        settings = self._settings.broker
        seconds = header.suspend_timeout_millis / 1000
        if not settings.long_polling_enable:
            seconds = settings.short_polling_time_mills
        access, certificate = self._access, peer.certificate_names
        shown = None if access is None else access.hold(header.access_key, asker(peer).ip, certificate)
        header = _needed(header)
        request.trim(header)
        return self._long_polls.hold(
            peer,
            header.topic,
            header.queue_id,
            header.queue_offset,
            filter,
            max(0.0, seconds),
            lambda: self._resume(peer, request, header, group, filter, shown),
            None if filter is None or not filter.needs_content() else partial(self._scan, header, filter),
        )

    def _scan(self, header: PullRequest, filter: IMessageFilter, offset: int, end: int) -> int | None:
        """
        Search what arrived in the queue of a held pull for a message that its filter lets in.

        @return: the offset behind what was looked at; C{None} where there is such a message, or one read cannot tell.
        """
        result = self._store.read(header.topic, header.queue_id, offset, ReadLimit(1, 1), filter)
        if result.status is ReadStatus.NO_MATCHED_MESSAGE and result.next_offset >= end:
            return result.next_offset
        return None

    def _resume(
        self,
        peer: IPeer,
        request: Command,
        header: PullRequest,
        group: SubscriptionGroupConfig,
        filter: IMessageFilter | None,
        shown: HeldIdentity | None,
    ) -> Answer | Deferred[Answer]:
        """Read once more for a pull that was held; broker and access control may forbid it since then."""
        if not self._settings.broker.broker_permission & READ:
            raise self._unreadable()
        if self._access is not None and shown is not None:
            self._access.check_held(shown, request.code, header.topic, header.consumer_group)
        return self._read(peer, request, header, group, filter, False)

    def _moved(self, header: PullRequest, next_offset: int) -> None:
        """Store an event of an offset that was not in its queue, as a RocketMQ master does, at most one a second."""
        key = f"{header.topic}@{header.consumer_group}@{header.queue_id}"
        if self._slave or not self._event_rate.take(key, self._clock.seconds()):
            return
        event = OffsetMovedEvent(
            header.consumer_group,
            MessageQueue(topic=header.topic, broker_name=self._broker_name, queue_id=header.queue_id),
            next_offset,
            header.queue_offset,
        )
        # level 0, as RocketMQ stores it
        own = {names.TAGS: header.consumer_group, names.KEYS: header.consumer_group, names.DELAY: "0"}
        try:
            self._store.append(
                (
                    NewMessage(
                        OFFSET_MOVED_EVENT,
                        0,
                        msgspec.json.encode(event),
                        encode(own),
                        born_ms=self._clock.wall_ms(),
                        born_host=self._store_host,
                        store_host=self._store_host,
                        tag_code=tag_code(header.consumer_group),
                    ),
                )
            )
            self._store.end_run()
        except RequestRefused:
            pass  # a store that takes nothing now misses a trace, not a message


def _needed(header: PullRequest) -> PullRequest:
    """Return what the second read and the answer need of a pull's header; the texts of the rest may be long."""
    return PullRequest(
        consumer_group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=header.queue_offset,
        max_msg_nums=header.max_msg_nums,
        sys_flag=header.sys_flag,
        commit_offset=header.commit_offset,
        suspend_timeout_millis=header.suspend_timeout_millis,
        sub_version=header.sub_version,
        max_msg_bytes=header.max_msg_bytes,
    )
