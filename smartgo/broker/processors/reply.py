"""
Replies to requests between clients (324, 325): pushed to the client that asked (326), then stored.

Rules: docs/spec/broker#replies. Source: C{ReplyMessageProcessor} of 4.9.7.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.processors.sendadmission import SendAdmission
from smartgo.broker.send import Send
from smartgo.errors import CallFailed, MessageIllegal, RequestRefused, ServiceNotAvailable
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import PushReplyRequest, SendRequest, SendRequestV2, SendResponse
from smartgo.schema.message import TRANSACTION_MASK, message_id
from smartgo.schema.propertyrewriter import Rewriter, Rewritten
from smartgo.schema.timers import TIMED

PUSH_TIMEOUT: Final = 10.0
"""Seconds that the client which asked gets to take a reply."""


@implementer(IRequestProcessor)
class ReplyProcessor(Processor):
    """Hands replies to the clients that wait for them."""

    codes = answered_by("reply")

    _log = Logger()

    def __init__(self, broker: IBroker) -> None:
        identity = broker.identity
        self._settings = broker.settings.current
        self._clock = broker.env.clock
        self._store = broker.store
        self._topics = broker.topics
        self._producers = broker.producers
        self._stats = broker.stats
        self._admission = SendAdmission(broker)
        self._rewriter = Rewriter({}, dropped=(), special=TIMED)
        self._address = identity.address
        self._store_host = identity.store_host

    def run_ended(self) -> None:
        """Make what was appended readable."""
        self._store.end_run()

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Push a reply to the client that its property REPLY_TO_CLIENT names, and store it.

        @raise RequestRefused: the topic, the queue or the properties are not allowed; nothing was pushed or stored.
        """
        is_long = request.code == RequestCode.SEND_REPLY_MESSAGE
        header: SendRequest = request.read(SendRequest if is_long else SendRequestV2)
        rewritten = self._rewriter.rewrite(header.properties)
        if rewritten.special or header.sys_flag & TRANSACTION_MASK:
            raise MessageIllegal("a reply can be neither delayed nor transactional")
        queue_id = self._admission.admit(peer, header, self._topics.get(header.topic))
        return Deferred.fromCoroutine(self._reply(peer, request, header, queue_id, rewritten))

    async def _reply(
        self, peer: IPeer, request: Command, header: SendRequest, queue_id: int, rewritten: Rewritten
    ) -> Answer:
        remark = await self._push(peer, request, header)
        settings = self._settings.broker
        answer = SendResponse("0", queue_id, 0, region=settings.region_id, trace_on=settings.trace_on)
        if settings.store_reply_message_enable:
            await self._keep(peer, request, header, queue_id, rewritten, answer)
        return request.answer(ResponseCode.SUCCESS if remark is None else ResponseCode.SYSTEM_ERROR, remark, answer)

    async def _push(self, peer: IPeer, request: Command, header: SendRequest) -> str | None:
        """Push the reply; return a remark where the client that asked did not take it."""
        properties = names.decode_text(header.properties)
        asker = properties.get(names.REPLY_TO_CLIENT)
        if asker is None:
            return f"reply message properties[{names.REPLY_TO_CLIENT}] is null"
        found = self._producers.peer_of(asker)
        if found is None:
            return f"push reply message fail, channel of <{asker}> not found."
        now_ms = self._clock.wall_ms()
        properties[names.PUSH_REPLY_TIME] = str(now_ms)
        pushed = PushReplyRequest(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=peer.address,
            store_host=self._address,
            store_timestamp=now_ms,
            properties=names.encode(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        command = Command.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, request.body)
        try:
            answer = await found.ask(command, PUSH_TIMEOUT)
        except CallFailed as error:
            self._log.warn("a reply for client {client} was not taken: {error}", client=asker, error=error)
        else:
            if answer.code == ResponseCode.SUCCESS:
                return None
            self._log.warn(
                "client {client} refused a reply: {code} {remark}",
                client=asker,
                code=answer.code,
                remark=answer.remark or "",
            )
        return f"push reply message to {asker}fail."

    async def _keep(
        self,
        peer: IPeer,
        request: Command,
        header: SendRequest,
        queue_id: int,
        rewritten: Rewritten,
        answer: SendResponse,
    ) -> None:
        """Store the reply, and put its id and offset into the answer; one that cannot be stored has been pushed."""
        text = header.properties
        raw = rewritten.raw if names.RECORD_CRC in text else text.encode("utf-8", "replace")  # as the client sent them
        send = Send(peer, request, header, header.topic, queue_id, queue_id, {}, raw, rewritten.tag_code)
        try:
            appended = self._store.append((send.message(self._store_host),))
        except RequestRefused as error:
            self._stats.put_failures += 1
            self._log.warn("a reply of {peer} was not stored: {error}", peer=peer.address, error=error)
            return
        self._store.end_run()
        self._stats.stored(header.topic, 1, appended.end - appended.offset)
        answer.msg_id = message_id(self._store_host, appended.offset)
        answer.queue_offset = appended.queue_offset
        for waiting in (self._store.durable(appended), self._topics.durable(header.topic)):
            if waiting is not None:
                with suppress(ServiceNotAvailable):  # it was pushed: refused, the client would send it again
                    await waiting
