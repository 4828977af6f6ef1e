"""Messages by their place in the CommitLog (33), as C{broker.md} section 13 has it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.errors import NoSuchMessage, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.store.interfaces import IMessageStore


@implementer(IRequestProcessor)
class QueryProcessor(Processor):
    """Looks messages up."""

    codes = frozenset({int(RequestCode.VIEW_MESSAGE_BY_ID)})

    def __init__(self, store: IMessageStore) -> None:
        self._store = store

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """Answer with one stored message."""
        return Deferred.fromCoroutine(self._view(request))

    async def _view(self, request: Command) -> Answer:
        offset = request.read(ViewMessageRequest).offset
        try:
            return request.answer(body=await self._store.at(offset))
        except NoSuchMessage:
            raise RequestRefused(f"can not find message by the offset, {offset}") from None
