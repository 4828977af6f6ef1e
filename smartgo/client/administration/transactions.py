"""
Transactions: which are undecided or were given up, and to have those checked back again.

RocketMQ has a request for the second alone (323); only brokers of smartgo answer the first (30007).
"""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.client.administration.asking import Asking, body_of, deferred, named
from smartgo.errors import CallFailed, NoSuchMessage, PeerRefused
from smartgo.schema.bodies import TransactionEntry, TransactionTable
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.transaction import ListTransactionsRequest

GIVEN_UP: Final = "givenUp"
"""The state of a transaction whose check can be resumed."""

_REQUESTS: Final = 64  # requests to one broker after the first: each looks at a limited number of transactions


class TransactionSelection(msgspec.Struct, frozen=True):
    """
    The transactions that are asked for.

    @ivar given_up: those that were given up, newest first; else the undecided ones.
    @ivar group: of one producer group; empty: of all. C{topic} likewise.
    @ivar count: of one broker, at most.
    """

    given_up: bool = False
    group: str = ""
    topic: str = ""
    count: int = 100


class BrokerTransactions(msgspec.Struct):
    """
    The transactions that one broker told.

    @ivar table: its figures.
    @ivar rows: what was asked for.
    @ivar more: there are more of these than were asked for, or may be.
    """

    table: TransactionTable
    rows: list[TransactionEntry]
    more: bool


class TransactionQueries:
    """Queries and changes of transactions. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    @deferred
    async def list(self, wanted: TransactionSelection, lenient: bool = False) -> dict[str, BrokerTransactions]:
        """
        Return transactions by broker name.

        @param lenient: brokers of RocketMQ, and slaves, are left out; else these are ones that do not answer.
        """
        places = await self._asking.readable()
        first = await self._asking.bodies(
            TransactionTable,
            places,
            RequestCode.LIST_TRANSACTIONS,
            _header(wanted, -1, wanted.count),
            none=(ResponseCode.SLAVE_NOT_AVAILABLE,) if lenient else (),
            unable={} if lenient else None,
        )
        found = {}
        for name, table in first.items():
            found[name] = one = BrokerTransactions(table, table.rows, table.next >= 0)
            for _ in range(_REQUESTS):
                left = wanted.count - len(one.rows)
                if left <= 0 or not one.more:
                    break
                header = _header(wanted, table.next, left)
                try:
                    answer = await self._asking.broker(places[name], RequestCode.LIST_TRANSACTIONS, header)
                    table = body_of(TransactionTable, answer)
                except CallFailed as error:
                    self._asking.go_on_without([(name, named(f"broker {name}", error))])
                    break
                one.rows += table.rows
                one.more = table.next >= 0
        return found

    @deferred
    async def find(self, id: str) -> dict[str, TransactionTable]:
        """
        Return the transactions with an id, by broker name.

        @param id: the UNIQ_KEY of a message, which is its transaction id, or an offset id of a half message.
        @raise NoSuchMessage: through the Deferred: no broker that answered knows it.
        """
        header = ListTransactionsRequest(id=id)
        places = await self._asking.readable()
        tables = await self._asking.bodies(TransactionTable, places, RequestCode.LIST_TRANSACTIONS, header)
        found = {name: table for name, table in tables.items() if table.rows}
        if not found:
            raise NoSuchMessage(f"no broker knows a transaction {id}")
        return found

    @deferred
    async def resume(self, id: str) -> tuple[str, TransactionEntry]:
        """
        Have a transaction that was given up checked back again, from the beginning (323).

        @return: the name of its broker, and the transaction as it was.
        @raise NoSuchMessage: through the Deferred: no broker that answered knows it.
        @raise PeerRefused: through the Deferred: it was not given up, or is decided or resumed meanwhile.
        """
        found = await self.find(id)
        pairs = [(name, row) for name, table in found.items() for row in table.rows]
        name, row = next((pair for pair in pairs if pair[1].state == GIVEN_UP), pairs[0])
        if row.state != GIVEN_UP:
            raise PeerRefused(ResponseCode.SYSTEM_ERROR, f"broker {name}: transaction {id} was not given up")
        masters = await self._asking.masters([name])
        header = ResumeCheckRequest(msg_id=row.offset_id)
        await self._asking.broker(masters[name], RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
        return name, row


def _header(wanted: TransactionSelection, begin: int, count: int) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        given_up=wanted.given_up, begin=begin, count=count, group=wanted.group, topic=wanted.topic
    )
