"""
Single messages: by key (12), by their place in the CommitLog (33), and consumed once more by a member of a group (309).

Rules: docs/spec/broker#calls and docs/spec/broker#queries, docs/spec/search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.clientadmin import relay
from smartgo.broker.processors.messageat import message_at
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import NoSuchMessage, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest
from smartgo.schema.headers.messages import QueryMessageRequest, QueryMessageResponse, ViewMessageRequest
from smartgo.schema.message import parse_message_id
from smartgo.schema.record import decode


@implementer(IRequestProcessor)
class QueryProcessor(Processor):
    """Finds single messages by key, by unique key or by offset."""

    codes = answered_by("query")

    def __init__(self, broker: IBroker) -> None:
        config = broker.settings.current.store
        self._store = broker.store
        self._consumers = broker.consumers
        self._broker_name = broker.identity.name
        self._limit = config.max_msgs_num_batch
        self._strict = broker.access is not None
        self._unique_limit = config.default_query_max_num  # whatever a search by unique key says
        self._answers: Mapping[int, Callable[[Command], Deferred[Answer]]] = {
            RequestCode.QUERY_MESSAGE: lambda request: Deferred.fromCoroutine(self._query(request)),
            RequestCode.VIEW_MESSAGE_BY_ID: lambda request: Deferred.fromCoroutine(self._view(request)),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda request: Deferred.fromCoroutine(self._consume(request)),
        }

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """Answer with stored messages, or with what a consumer made of one."""
        return self._answers[request.code](request)

    async def _query(self, request: Command) -> Answer:
        """
        Return all messages whose key has the hash of the asked one: as with RocketMQ, the client compares the keys.

        With access control on, messages of other topics whose keys have the same hash are left out: it is easy to find
        such a key, and who asks may not be allowed to see them.

        That a time is exact to the second is left to the asking side too: any change here would answer differently from
        a RocketMQ broker beside this one.
        """
        header = request.read(QueryMessageRequest)
        count = min(self._unique_limit if header.unique_key_query else header.max_num, self._limit)
        found = await self._store.query(header.topic, header.key, count, header.begin_timestamp, header.end_timestamp)
        how_far = QueryMessageResponse(
            index_last_update_timestamp=found.last_ms, index_last_update_phyoffset=found.last_offset
        )
        records = [one for one in found.records if not self._strict or decode(one).topic == header.topic]
        if records:
            return request.answer(header=how_far, body=b"".join(records))
        remark = "can not find message, maybe time range not correct"
        return request.answer(ResponseCode.QUERY_NOT_FOUND, remark, header=how_far)

    async def _view(self, request: Command) -> Answer:
        offset = request.read(ViewMessageRequest).offset
        try:
            record, _ = await message_at(self._store, offset)
            return request.answer(body=record)
        except NoSuchMessage:
            raise RequestRefused(f"can not find message by the offset, {offset}") from None

    async def _consume(self, request: Command) -> Answer:
        """Have a member of a group consume a message, which goes to it as it is stored."""
        header = request.read(ConsumeDirectlyRequest)
        _, offset = parse_message_id(header.msg_id or "")
        try:
            record, _ = await message_at(self._store, offset)
        except NoSuchMessage:
            raise RequestRefused(f"no message {header.msg_id}: nothing can be read at the offset {offset}") from None
        fields = {**request.fields, "brokerName": self._broker_name}
        return await relay(self._consumers, request, header.consumer_group, header.client_id or "", fields, record)
