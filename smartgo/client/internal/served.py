"""
The client's answers to brokers: 40 (members changed), 220 (reset offsets), 307 (running information), 309 (consume a
message).
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.client.internal.groupmember import GroupConsumer
from smartgo.client.messages import received
from smartgo.errors import BadCompression, BadRecord, BodyTooLong, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.schema.bodies import ResetOffsetBody
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import (
    ConsumeDirectlyRequest,
    NotifyConsumerIdsChangedRequest,
    ResetOffsetRequest,
    RunningInfoRequest,
)
from smartgo.schema.record import decode


@implementer(IRequestProcessor)
class ServedRequests:
    """The processor of brokers' requests to a client's consumers."""

    codes = frozenset(
        {
            int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
            int(RequestCode.RESET_CONSUMER_CLIENT_OFFSET),
            int(RequestCode.GET_CONSUMER_RUNNING_INFO),
            int(RequestCode.CONSUME_MESSAGE_DIRECTLY),
        }
    )

    def __init__(self, consumers: Mapping[str, GroupConsumer]) -> None:
        """
        @param consumers: by group; the client's own table.
        """
        self._consumers = consumers

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
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(request)
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return self._consume(request)
        consumer = self._consumer(request.read(RunningInfoRequest).consumer_group)
        return request.answer(body=consumer.running_info().encode())

    def _reset(self, request: Command) -> Deferred[Answer]:
        header = request.read(ResetOffsetRequest)
        consumer = self._consumer(header.group)
        table = ResetOffsetBody.decode(request.body).offset_table
        offsets = {queue: offset for queue, offset in table.items() if queue.topic == header.topic}
        return consumer.reset_offsets(offsets).addCallback(lambda _: request.answer())

    def _consume(self, request: Command) -> Deferred[Answer]:
        header = request.read(ConsumeDirectlyRequest)
        consumer = self._consumer(header.consumer_group)
        try:
            message = received(decode(request.body), header.broker_name or "")
        except (BadRecord, BadCompression, BodyTooLong) as error:
            raise RequestRefused(f"the message cannot be read: {error}") from None
        return consumer.consume_directly(message).addCallback(lambda result: request.answer(body=result.encode()))

    def _consumer(self, group: str) -> GroupConsumer:
        consumer = self._consumers.get(group)
        if consumer is None:
            raise RequestRefused(f"The Consumer Group <{group}> not exist in this consumer")
        return consumer
