"""
Recalls of timed messages (370): a message of its own, which meets the recalled one when that is due.

Checks, codes and remarks are those of C{RecallMessageProcessor.java} of RocketMQ 5.3.3 (docs/spec/broker#recall).
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.stages.timed import DISABLED, waiting_properties
from smartgo.broker.tables.topics import WRITE
from smartgo.errors import IllegalOperation, NoPermission, RequestRefused, ServiceNotAvailable, TopicNotExist
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema import properties as names
from smartgo.schema.command import Command
from smartgo.schema.headers.messagerecall import RecallRequest, RecallResponse
from smartgo.schema.message import NewMessage
from smartgo.schema.properties import encode, tag_code
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.interfaces import PutStatus

_TAG: Final = "_RECALL_TAG_"
_LONGEST: Final = 18


@implementer(IRequestProcessor)
class RecallProcessor(Processor):
    """Stores recalls."""

    codes = answered_by("messagerecall")

    def __init__(self, broker: IBroker) -> None:
        self._settings = broker.settings.current
        self._clock = broker.env.clock
        self._store = broker.store
        self._topics = broker.topics
        self._stats = broker.stats
        self._enabled = broker.store_settings.timers
        self._broker_name = broker.identity.name
        self._store_host = broker.identity.store_host

    def run_ended(self) -> None:
        """Make what was appended readable."""
        self._store.end_run()

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Store one recall.

        @raise IllegalOperation: the handle cannot be read, or is of another topic or broker, or of a time that is past.
        @raise RequestRefused: the topic does not exist, or recalls are switched off, or the store takes nothing.
        """
        header = request.read(RecallRequest)
        if not self._settings.store.recall_message_enable:
            raise NoPermission("recall failed, operation is forbidden")
        if not self._settings.broker.broker_permission & WRITE:
            raise ServiceNotAvailable("recall failed, broker service not available")
        if self._topics.get(header.topic) is None:
            raise TopicNotExist(f"recall failed, the topic[{header.topic}] not exist")
        handle = RecallHandle.parse(header.recall_handle)
        if handle.topic != header.topic:
            raise IllegalOperation("recall failed, topic not match")
        if handle.broker_name != self._broker_name:
            raise IllegalOperation("recall failed, broker service not available")
        now_ms = self._clock.wall_ms()
        digits = handle.due_ms
        due_ms = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST else -1
        if not now_ms < due_ms < now_ms + self._settings.store.timer_max_delay_sec * 1000:
            raise IllegalOperation("recall failed, timestamp invalid")
        if not self._enabled:
            raise RequestRefused(DISABLED)
        message = self._message(peer, header, handle, due_ms)
        appended = self._store.append((message,))
        self._stats.stored(TIMER_TOPIC, 1, appended.end - appended.offset)
        answer = request.answer(
            header=RecallResponse(handle.unique_id),
            fields={names.MSG_REGION: self._settings.broker.region_id},
        )
        waiting = self._store.durable(appended)
        if waiting is None:
            return answer
        return waiting.addCallback(_answer, answer)

    def _message(self, peer: IPeer, header: RecallRequest, handle: RecallHandle, due_ms: int) -> NewMessage:
        now_ms = self._clock.wall_ms()
        properties = {
            names.TAGS: _TAG,
            names.TIMER_DEL_UNIQKEY: handle.unique_id,
            names.UNIQ_KEY: handle.unique_id,
            names.TIMER_DELIVER_MS: handle.due_ms,
            names.BORN_TIMESTAMP: str(now_ms),
        }
        if header.producer_group:
            properties[names.PGROUP] = header.producer_group
        return NewMessage(
            TIMER_TOPIC,
            0,
            b"0",
            encode(waiting_properties(handle.topic, 0, properties, due_ms)),
            0,
            0,
            now_ms,
            peer.host,
            self._store_host,
            0,
            0,
            tag_code(_TAG),
        )


def _answer(_: PutStatus, answer: Answer) -> Answer:
    """Return the answer whatever the status: the recall is stored, and counts, as in RocketMQ."""
    return answer
