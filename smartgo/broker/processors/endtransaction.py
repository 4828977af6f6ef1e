"""
The verdicts of producers (37), and resumed checks (323) (docs/spec/broker#transactions).

Checks and remarks are those of C{EndTransactionProcessor.java} and C{AdminBrokerProcessor.java} of RocketMQ 4.9.7.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.auth.accounts import Permission
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.messageat import message_at
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.stages.pendingtransactions import TransactionVerdict
from smartgo.broker.stages.transactions import Transactions
from smartgo.errors import BadHeader, NoSuchMessage, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.origin import asker
from smartgo.remoting.processor import Processor
from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.transaction import EndTransactionRequest
from smartgo.schema.message import COMMIT, ROLLBACK, StoredMessage, parse_message_id
from smartgo.schema.topics import HALF_TOPIC

_VERDICTS: Final = {COMMIT: TransactionVerdict.COMMITTED, ROLLBACK: TransactionVerdict.ROLLED_BACK}


@implementer(IRequestProcessor)
class TransactionProcessor(Processor):
    """Ends transactions of producers, and resumes their checks."""

    codes = answered_by("endtransaction")

    def __init__(self, broker: IBroker, transactions: Transactions) -> None:
        self._access = broker.access
        self._store = broker.store
        self._transactions = transactions

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Commit, roll back or resume; the verdict "unknown" is not answered.

        @raise RequestRefused: as docs/spec/broker#transactions says; nothing was stored.
        """
        if request.code == RequestCode.RESUME_CHECK_HALF_MESSAGE:
            return Deferred.fromCoroutine(self._resume(peer, request))
        header = request.read(EndTransactionRequest)
        verdict = _VERDICTS.get(header.commit_or_rollback)
        if verdict is None:
            return None
        return Deferred.fromCoroutine(self._end(peer, request, header, verdict))

    async def _end(
        self, peer: IPeer, request: Command, header: EndTransactionRequest, verdict: TransactionVerdict
    ) -> Answer:
        try:
            _, stored = await message_at(self._store, header.commit_log_offset)
        except NoSuchMessage:
            stored = None
        if stored is None or stored.topic != HALF_TOPIC:
            raise RequestRefused("Find prepared transaction message failed")
        _check(stored, header)
        if self._access is not None:  # clients of 4.9 do not name the topic, and others may name any
            topic = names.find(stored.properties, names.REAL_TOPIC) or ""
            ip, certificate = asker(peer).ip, peer.certificate_names
            self._access.check_resource(request, topic, Permission.PUB, ip, certificate)
        appended = await self._transactions.decide(stored, verdict)
        waiting = None if appended is None else self._store.durable(appended)
        if waiting is not None:
            await waiting  # whatever the status: the verdict is stored, and counts, as in RocketMQ
        return request.answer()

    async def _resume(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(ResumeCheckRequest)
        try:
            _, offset = parse_message_id(header.msg_id or "")
            _, stored = await message_at(self._store, offset)
        except (BadHeader, NoSuchMessage) as error:
            raise RequestRefused(f"Put message back to {HALF_TOPIC} failed: {error}") from None
        if self._access is not None and header.topic:  # who names none may change the cluster; others may name any
            topic = names.find(stored.properties, names.REAL_TOPIC) or ""
            ip, certificate = asker(peer).ip, peer.certificate_names
            self._access.check_resource(request, topic, Permission.ANY, ip, certificate)
        waiting = self._store.durable(await self._transactions.resume(stored))
        if waiting is not None:
            await waiting
        return request.answer()


def _check(stored: StoredMessage, header: EndTransactionRequest) -> None:
    """
    Let a half message pass that the producer may decide.

    @raise RequestRefused: it is of another group, or lies elsewhere.
    """
    if names.find(stored.properties, names.PGROUP) != header.producer_group:
        raise RequestRefused("The producer group wrong")
    if stored.queue_offset != header.tran_state_table_offset:
        raise RequestRefused("The transaction state table offset wrong")
