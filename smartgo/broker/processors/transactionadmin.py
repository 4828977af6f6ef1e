"""
The states of transactions, which administrators ask for (30007): docs/spec/broker#transactions.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.stages.transactions import Transactions
from smartgo.broker.stages.transactionstates import TransactionStates
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.command import Command
from smartgo.schema.headers.transaction import ListTransactionsRequest


@implementer(IRequestProcessor)
class TransactionAdmin(Processor):
    """Tells what is undecided, and what was given up."""

    codes = answered_by("transactionadmin")

    def __init__(self, broker: IBroker, transactions: Transactions) -> None:
        self._states = TransactionStates(
            broker.env.clock, broker.store, transactions, broker.producers, broker.settings.current
        )

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer with some transactions, and where the next request goes on."""
        return Deferred.fromCoroutine(self._list(request))

    async def _list(self, request: Command) -> Answer:
        table = await self._states.table(request.read(ListTransactionsRequest))
        return request.answer(body=table.encode())
