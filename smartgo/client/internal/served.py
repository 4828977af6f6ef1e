"""
The client's answers to brokers: 39 (check back), 40 (members changed), 220 (reset offsets), 221 (offsets),
307 (running information), 309 (consume a message), 326 (a reply).

Rules: docs/spec/client#calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.client.internal.groupmember import GroupConsumer, GroupProducer
from smartgo.client.internal.replies import AwaitedReplies
from smartgo.client.messages import ReceivedMessage, received
from smartgo.errors import BadCompression, BadRecord, BodyTooLong, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.schema import properties
from smartgo.schema.bodies import ConsumerStatusBody, ResetOffsetBody
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import (
    ConsumeDirectlyRequest,
    ConsumerStatusRequest,
    NotifyConsumerIdsChangedRequest,
    ResetOffsetRequest,
    RunningInfoRequest,
)
from smartgo.schema.headers.send import PushReplyRequest
from smartgo.schema.headers.transaction import CheckTransactionRequest
from smartgo.schema.record import decode


@implementer(IRequestProcessor)
class ServedRequests:
    """The processor of brokers' requests to a client's consumers and producers."""

    codes = frozenset(
        {
            int(RequestCode.CHECK_TRANSACTION_STATE),
            int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
            int(RequestCode.RESET_CONSUMER_CLIENT_OFFSET),
            int(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT),
            int(RequestCode.GET_CONSUMER_RUNNING_INFO),
            int(RequestCode.CONSUME_MESSAGE_DIRECTLY),
            int(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT),
        }
    )

    _log = Logger()

    def __init__(
        self, consumers: Mapping[str, GroupConsumer], producers: Mapping[str, GroupProducer], replies: AwaitedReplies
    ) -> None:
        """
        @param consumers: by group; the client's own table.
        @param producers: the same.
        @param replies: the requests of the producers that wait for replies.
        """
        self._replies = replies
        self._consumers = consumers
        self._producers = producers

    def refuses(self) -> bool:
        """Return C{False}: a client is never too busy."""
        return False

    def run_ended(self) -> None:
        """Do nothing: no work is left for the end of a run."""

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer a request of a broker.

        @raise RequestRefused: no consumer of that group is here.
        """
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            consumer = self._consumers.get(request.read(NotifyConsumerIdsChangedRequest).consumer_group)
            if consumer is not None:
                consumer.members_changed()
            return request.answer()
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            return self._check_back(peer, request)
        if request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            self._replies.arrived(request.read(PushReplyRequest), request.body)
            return request.answer()
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(request)
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return self._consume(request)
        if request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return self._status(request)
        consumer = self._consumer(request.read(RunningInfoRequest).consumer_group)
        return request.answer(body=consumer.running_info().encode())

    def _check_back(self, peer: IPeer, request: Command) -> Answer:
        """Have the producer of a half message tell what became of its transaction; it sends that as a request."""
        header = request.read(CheckTransactionRequest)
        half = _message(request.body, "")
        group = half.properties.get(properties.PGROUP, "")
        producer = self._producers.get(group)
        if producer is None:
            self._log.warn(
                "broker {address} asks what became of transaction {id} of group {group}, of which no producer is here",
                address=peer.address,
                id=half.message_id,
                group=group,
            )
        else:
            producer.check_back(peer.address, header, half)
        return request.answer()

    def _reset(self, request: Command) -> Deferred[Answer]:
        header = request.read(ResetOffsetRequest)
        consumer = self._consumer(header.group)
        table = ResetOffsetBody.decode(request.body).offset_table
        offsets = {queue: offset for queue, offset in table.items() if queue.topic == header.topic}
        return consumer.reset_offsets(offsets).addCallback(lambda _: request.answer())

    def _status(self, request: Command) -> Answer:
        header = request.read(ConsumerStatusRequest)
        queues = self._consumer(header.group).running_info().mq_table
        offsets = {queue: info.commit_offset for queue, info in queues.items() if queue.topic == header.topic}
        return request.answer(body=ConsumerStatusBody(message_queue_table=offsets).encode())

    def _consume(self, request: Command) -> Deferred[Answer]:
        header = request.read(ConsumeDirectlyRequest)
        consumer = self._consumer(header.consumer_group)
        message = _message(request.body, header.broker_name or "")
        return consumer.consume_directly(message).addCallback(lambda result: request.answer(body=result.encode()))

    def _consumer(self, group: str) -> GroupConsumer:
        consumer = self._consumers.get(group)
        if consumer is None:
            raise RequestRefused(f"The Consumer Group <{group}> not exist in this consumer")
        return consumer


def _message(body: bytes, broker_name: str) -> ReceivedMessage:
    """
    Return the message that is the body of a request.

    @raise RequestRefused: it cannot be read.
    """
    try:
        return received(decode(body), broker_name)
    except (BadRecord, BadCompression, BodyTooLong) as error:
        raise RequestRefused(f"the message cannot be read: {error}") from None
