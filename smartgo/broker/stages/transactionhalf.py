"""
Half messages of transactions (docs/spec/broker#transactions): stored in C{RMQ_SYS_TRANS_HALF_TOPIC} until the verdict.

L{smartgo.broker.stages.transactions} learns of them as of every arrival in that topic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.send import Send
from smartgo.broker.stages.delay import level_of
from smartgo.errors import MessageIllegal, NoPermission, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.message import TRANSACTION_MASK
from smartgo.schema.timers import TIMED
from smartgo.schema.topics import HALF_TOPIC
from smartgo.schema.transactions import half_properties

_TRUE: Final = "true"


@implementer(ISendStage)
class TransactionHalf:
    """Stores the messages of transactions in the half topic."""

    properties = frozenset({names.TRAN_MSG})

    def __init__(self, broker: IBroker) -> None:
        self._settings = broker.settings.current
        self._topics = broker.topics
        self._levels = broker.store_settings.delay_levels
        self._address = broker.identity.address
        self._transactions = broker.transactions

    def apply(self, send: Send) -> Send:
        """
        Change topic, queue and properties of a half message; see L{ISendStage}.

        A client before 4.6.1 gives a committed message back by a send of its own, with all its properties: such a
        retry, with redeliveries and a delay, is no half message.

        @raise NoPermission: C{rejectTransactionMessage}, or the sys flag has a transaction's bits without TRAN_MSG: a
            message that is stored so would never be seen.
        @raise ServiceNotAvailable: too many transactions are undecided (C{maxPendingTransactions}).
        @raise MessageIllegal: it asks for a delay or a delivery time as well; RocketMQ would lose it.
        """
        header = send.header
        is_half = send.properties.get(names.TRAN_MSG, "").lower() == _TRUE
        if not is_half and not header.sys_flag & TRANSACTION_MASK:
            return send
        cleared = msgspec.structs.replace(header, sys_flag=header.sys_flag & ~TRANSACTION_MASK)
        level = level_of(send.properties, self._levels)
        if is_half and header.reconsume_times > 0 and level > 0:
            return replace(send, header=cleared)
        if not is_half or self._settings.broker.reject_transaction_message:
            raise NoPermission(f"the broker[{self._address}] sending transaction message is forbidden")
        if level > 0 or not TIMED.isdisjoint(send.properties):
            raise MessageIllegal("a message can't be both transactional and delayed")
        limit = self._settings.limits.max_pending_transactions
        if self._transactions is not None and len(self._transactions.pending) >= limit:
            raise ServiceNotAvailable(f"{limit} transactions are undecided (maxPendingTransactions)")
        self._topics.create_system(HALF_TOPIC, 1)
        properties = half_properties(send.topic, send.queue_id, send.properties)
        properties.setdefault(names.PGROUP, header.producer_group)
        return replace(send.with_properties(properties), header=cleared, topic=HALF_TOPIC, queue_id=0)
