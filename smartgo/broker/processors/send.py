"""Sends (10, 310, 320): checked, rewritten, appended, answered (docs/spec/broker#send)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.keptanswers import REMARKS, given_up, tell_when
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.processors.sendadmission import SendAdmission
from smartgo.broker.send import Send
from smartgo.broker.sendrun import SendAnswers, SendRules, SendRun, StoredSend
from smartgo.broker.stages.delay import level_of
from smartgo.broker.tables.topics import WRITE
from smartgo.config.settings import BrokerConfig
from smartgo.errors import MessageIllegal, RequestRefused, ServiceNotAvailable
from smartgo.remoting.interfaces import Answer, IDispatchedPeer, IPeer, IRunTaker
from smartgo.remoting.processor import Processor
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema import properties as names
from smartgo.schema.batch import decode_items
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendRequest, SendRequestV2, SendResponse
from smartgo.schema.message import HOSTS_MASK, TRANSACTION_MASK, NewMessage
from smartgo.schema.properties import TagCodes, encode, join
from smartgo.schema.propertyrewriter import SPECIAL, Rewriter, Rewritten
from smartgo.schema.record import RECORD_MAXIMUM_BODY
from smartgo.schema.responses import send_pieces, send_response
from smartgo.schema.timers import TIMED
from smartgo.schema.topics import CLOSED_TO_SENDS, RETRY_PREFIX
from smartgo.store.interfaces import Appended, PutStatus

if TYPE_CHECKING:
    from smartgo.store.tails import QueueTail

_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_LONG: Final = int(RequestCode.SEND_MESSAGE)
_BATCH_LIMIT: Final = 4096  # records (reliability L6)


def _not_saved(failure: Failure) -> PutStatus:
    """Return the status of a stored message whose topic is not on the disk; refused, it would be sent again."""
    failure.trap(ServiceNotAvailable)
    return PutStatus.FLUSH_DISK_TIMEOUT


@implementer(IRunTaker)
class SendProcessor(Processor):
    """
    Stores what producers send.

    @ivar grants: see L{IRunSource<smartgo.remoting.interfaces.IRunSource>}.
    """

    codes = answered_by("send")

    def __init__(self, broker: IBroker, stages: Sequence[ISendStage], grants: RunGrants | None = None) -> None:
        """
        @param stages: what a message that is not plain passes before it is stored, in this order.
        @param grants: what runs ask about each frame; C{None}: nothing.
        """
        self.grants = grants
        identity, store_settings = broker.identity, broker.store_settings
        self._settings = broker.settings.current
        self._access = broker.access
        self._store = broker.store
        self._topics = broker.topics
        self._long_polls = broker.long_polls
        self._stats = broker.stats
        self._admission = SendAdmission(broker)
        self._levels = store_settings.delay_levels
        self._stages = tuple(stages)
        self._store_host = identity.store_host
        self._id_prefix = identity.store_host.hex().upper()
        self._region = self._settings.broker.region_id
        self._cluster = identity.cluster
        self._sync = store_settings.sync_flush or self._settings.broker.broker_role == "SYNC_MASTER"
        special = frozenset().union(*(stage.properties for stage in stages))
        self._rewriter = Rewriter({names.CLUSTER: identity.cluster}, special=special)
        self._rules = SendRules(
            identity.store_host,
            f"{names.CLUSTER}{names.NAME_END}{identity.cluster}".encode(),
            tuple(name.encode() for name in sorted(SPECIAL | TIMED | special)),
            min(store_settings.max_message_size, RECORD_MAXIMUM_BODY),
            min(store_settings.max_batch_count, _BATCH_LIMIT),
            self._sync,
        )
        self._plain: SendRun | None = None  # of the settings in _plain_settings
        self._plain_settings: BrokerConfig | None = None
        broker.topics.when_changed(self._topic_changed)
        self._pieces = tuple(send_pieces(self._region, trace_on) for trace_on in (False, True))
        self._tags = TagCodes()
        self._run_topic = ""  # of the messages stored in this run and not yet counted
        self._run_count = 0
        self._run_size = 0

    def run_ended(self) -> None:
        """Make what was appended readable, and count it."""
        self._store.end_run()
        self._count_run("")
        self._count_plain()

    def _count_run(self, topic: str) -> None:
        """Add the figures of the run so far to the statistics; what follows is for C{topic}."""
        if self._run_count:
            self._stats.stored(self._run_topic, self._run_count, self._run_size)
            self._run_count = self._run_size = 0
        self._run_topic = topic

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Store one message or one batch.

        @raise RequestRefused: one of the checks of docs/spec/broker#send failed; nothing was stored.
        """
        code = request.code
        header: SendRequest = request.read(SendRequest if code == _LONG else SendRequestV2)
        topic = header.topic
        config = self._topics.get(topic)
        settings = self._settings.broker
        if code == _BATCH:
            return self._batch(peer, request, header, config)
        rewritten = self._rewriter.rewrite(header.properties)
        queue_id = header.queue_id
        sys_flag = header.sys_flag
        if (
            config is None
            or queue_id < 0
            or queue_id >= config.read_queue_nums
            or rewritten.special
            or sys_flag & TRANSACTION_MASK
            or topic[:1] == "%"
            or topic in CLOSED_TO_SENDS
            or not settings.broker_permission & WRITE
        ):
            return self._uncommon(peer, request, header, config, rewritten)
        message = NewMessage(
            topic,
            queue_id,
            request.body,
            rewritten.raw,
            header.flag,
            sys_flag & ~HOSTS_MASK,
            header.born_timestamp,
            peer.host,
            self._store_host,
            header.reconsume_times,
            0,
            rewritten.tag_code,
        )
        try:
            appended = self._store.append((message,))
        except RequestRefused:
            self._stats.put_failures += 1
            raise
        if topic != self._run_topic:
            self._count_run(topic)
        self._run_count += 1
        self._run_size += appended.end - appended.offset
        if self._sync:
            return self._finish(request, appended, queue_id, rewritten.wait, self._topics.durable(topic))
        return send_response(
            request.encoding,
            request.opaque,
            f"{self._id_prefix}{appended.offset:016X}",
            queue_id,
            appended.queue_offset,
            self._pieces[settings.trace_on],
        )

    # -- runs ------------------------------------------------------------------------------------------------

    def take(
        self,
        peer: IDispatchedPeer,
        frames: list[bytes],
        begin: int,
        room: int,
        late: list[tuple[Command, Answer | Deferred[Answer]]],
    ) -> int:
        """See L{IRunTaker.take}."""
        access, grants = self._access, self.grants
        if access is None or grants is None or not peer.certificate_names:
            return self._take(peer, frames, begin, room, late)
        account = access.rules.of_certificate(peer.certificate_names)
        if account is None:
            return self._take(peer, frames, begin, room, late)
        grants.unsigned_as(account.name)
        try:
            return self._take(peer, frames, begin, room, late)
        finally:
            grants.unsigned_as("")

    def _take(
        self,
        peer: IDispatchedPeer,
        frames: list[bytes],
        begin: int,
        room: int,
        late: list[tuple[Command, Answer | Deferred[Answer]]],
    ) -> int:
        """Take the plain sends whose senders the grants let pass."""
        plain = self._plain_run()
        if plain is None:
            return 0
        if not self._sync:
            return plain.take(frames, begin, peer.host, peer.link.out, room, len(frames))
        stored: list[StoredSend] = []
        taken = plain.take(frames, begin, peer.host, stored, room, 1)  # then the dispatcher looks what is in flight
        for encoding, opaque, flag, wait, topic, queue_id, appended in stored:
            request = Command(_LONG, opaque, flag, encoding=encoding)
            topics = self._topics.durable(topic)
            late.append((request, self._finish(request, Appended(*appended), queue_id, wait, topics)))
        return taken

    def ready_run(self) -> SendRun | None:
        """See L{IRunTaker.ready_run}."""
        if self._sync and not self._topics.is_durable:
            return None  # a send to a topic that was just made waits for more than the log (D15)
        return self._plain_run()

    def awaited(self) -> bool:
        """See L{IRunTaker.awaited}. Where answers wait, a run that ends begins a flush, and is sent to slaves."""
        return self._long_polls.count > 0 or (self._sync and not self._store.ack_policy.may_wait())

    def when_durable(self, end: int, tell: Callable[[Callable[[bytes], bytes] | None], None]) -> None:
        """See L{RunSource.when_durable<smartgo.net.hub.RunSource.when_durable>}."""
        tell_when(self._store.ack_policy.durable(end), tell)

    def given_up(self, answers: bytes) -> bytes:
        """See L{RunSource.given_up<smartgo.net.hub.RunSource.given_up>}."""
        return given_up(answers)

    def _plain_run(self) -> SendRun | None:
        """Return what stores plain sends; C{None} while none may be stored."""
        if self._settings.broker is not self._plain_settings:
            self._follow_settings()
        return self._plain if self._store.accepts else None

    def _follow_settings(self) -> None:
        """Make the run anew: settings were replaced."""
        self._count_plain()
        settings = self._plain_settings = self._settings.broker
        if not settings.broker_permission & WRITE:
            self._plain = None
            return
        answers = SendAnswers(self._id_prefix.encode(), *self._pieces[settings.trace_on])
        self._plain = SendRun(self._store.log_tail, self._queue, self._rules, answers, self.grants)

    def _queue(self, topic: str, queue_id: int) -> QueueTail | None:
        """Return a queue that plain sends go to; C{None}: there is none, or L{process} has to see to it."""
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < config.read_queue_nums:
            return None
        if topic[:1] == "%" or topic in CLOSED_TO_SENDS:
            return None
        return self._store.queue_tail(topic, queue_id)

    def _topic_changed(self, topic: str) -> None:
        if self._plain is not None:
            self._plain.forget()

    def _count_plain(self) -> None:
        """Add the figures of the messages that L{take} stored to the statistics."""
        if self._plain is not None:
            for topic, count, size, calls in self._plain.drain():
                self._stats.stored(topic, count, size, calls)

    # -- the answer ------------------------------------------------------------------------------------------

    def _ids(self, appended: Appended) -> str:
        prefix = self._id_prefix
        return ",".join([f"{prefix}{offset:016X}" for offset in appended.offsets])

    def _answer(self, request: Command, appended: Appended, queue_id: int) -> bytes:
        return send_response(
            request.encoding,
            request.opaque,
            self._ids(appended),
            queue_id,
            appended.queue_offset,
            self._pieces[self._settings.broker.trace_on],
        )

    def _answer_later(
        self, status: PutStatus, request: Command, appended: Appended, queue_id: int, recall_handle: str | None
    ) -> Answer:
        if status == PutStatus.OK and recall_handle is None:
            return self._answer(request, appended, queue_id)
        # Stored, but weaker than asked: the answer carries the whole header all the same (D2).
        header = SendResponse(
            self._ids(appended),
            queue_id,
            appended.queue_offset,
            recall_handle=recall_handle,
            region=self._region,
            trace_on=self._settings.broker.trace_on,
        )
        return request.answer(status, REMARKS.get(status), header)

    def _finish(
        self,
        request: Command,
        appended: Appended,
        queue_id: int,
        wait: bool,
        topics: Deferred[None] | None,
        recall_handle: str | None = None,
    ) -> Answer | Deferred[Answer]:
        """Answer once the messages, and a topic that was just made for them (D15), are as durable as promised."""
        waiting = self._store.durable(appended) if wait else None
        if waiting is None and topics is None:
            return self._answer_later(PutStatus.OK, request, appended, queue_id, recall_handle)
        if topics is None:
            assert waiting is not None  # noqa: S101  one of the two is there
            return waiting.addCallback(self._answer_later, request, appended, queue_id, recall_handle)
        status = topics.addCallbacks(lambda _: PutStatus.OK if waiting is None else waiting, _not_saved)
        return status.addCallback(self._answer_later, request, appended, queue_id, recall_handle)

    # -- the other ways ----------------------------------------------------------------------------------------

    def _uncommon(
        self, peer: IPeer, request: Command, header: SendRequest, config: TopicConfig | None, rewritten: Rewritten
    ) -> Answer | Deferred[Answer]:
        """Store a message that is not a plain send to a known topic."""
        queue_id = self._admission.admit(peer, header, config)
        properties = names.decode_text(header.properties)
        properties[names.CLUSTER] = self._cluster  # WAIT stays: what is stored of a delayed or dead message keeps it
        send = Send(
            peer,
            request,
            header,
            header.topic,
            queue_id,
            queue_id,
            properties,
            rewritten.raw,
            rewritten.tag_code,
        )
        for stage in self._stages:
            send = stage.apply(send)
        appended = self._store.append((send.message(self._store_host),))
        self._stats.stored(send.topic, 1, appended.end - appended.offset)
        topics = self._topics.durable()
        return self._finish(request, appended, send.answered_queue_id, rewritten.wait, topics, send.recall_handle)

    def _batch(
        self, peer: IPeer, request: Command, header: SendRequest, config: TopicConfig | None
    ) -> Answer | Deferred[Answer]:
        """Store a batch: each of its messages a record of its own, with the batch's properties after its own."""
        topic = header.topic
        if topic.startswith(RETRY_PREFIX):
            raise MessageIllegal("batch request does not support retry group")
        queue_id = self._admission.admit(peer, header, config)
        shared = names.decode_text(header.properties)
        if level_of(shared, self._levels) > 0 or not TIMED.isdisjoint(shared) or header.sys_flag & TRANSACTION_MASK:
            raise MessageIllegal("a batch can be neither delayed nor transactional")
        shared[names.CLUSTER] = self._cluster
        tail = encode(shared)
        tagged, tag = names.TAGS in shared, self._tags.of_stored(tail)  # it comes last, so it counts, as in a rebuild
        born_ms, born_host, store_host = header.born_timestamp, peer.host, self._store_host
        sys_flag, reconsumed = header.sys_flag & ~HOSTS_MASK, header.reconsume_times
        messages = [
            NewMessage(
                topic,
                queue_id,
                body,
                join(own, tail),
                flag,
                sys_flag,
                born_ms,
                born_host,
                store_host,
                reconsumed,
                0,
                tag if tagged else self._tags.of_stored(own),
            )
            for flag, body, own in decode_items(request.body, _BATCH_LIMIT)
        ]
        appended = self._store.append(messages)
        self._stats.stored(topic, len(messages), appended.end - appended.offset, calls=1)
        wait = shared.get(names.WAIT, "true").lower() == "true"
        return self._finish(request, appended, queue_id, wait, self._topics.durable(topic))
