"""
Half messages of transactions (docs/spec/broker#send): refused until transactions are built.

Stored as ordinary messages they would be seen before their transaction is committed.
"""

from __future__ import annotations

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.send import Send
from smartgo.errors import NoPermission
from smartgo.schema import properties as names
from smartgo.schema.message import TRANSACTION_MASK


@implementer(ISendStage)
class TransactionHalf:
    """Refuses the messages of transactions."""

    properties = frozenset({names.TRAN_MSG})

    def __init__(self, broker: IBroker) -> None:
        self._address = broker.identity.address

    def apply(self, send: Send) -> Send:
        """Return what belongs to no transaction; see L{ISendStage}. @raise NoPermission: it belongs to one."""
        if send.header.sys_flag & TRANSACTION_MASK or send.properties.get(names.TRAN_MSG, "").lower() == "true":
            raise NoPermission(f"the broker[{self._address}] sending transaction message is forbidden")
        return send
