"""
What a slave refuses because it would write: sends (10, 310, 320), replies (324, 325), messages given back (36), ends of
transactions (37).

Rules: docs/spec/ha#roles, reliability H5.
"""

from __future__ import annotations

from zope.interface import implementer

from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command


@implementer(IRequestProcessor)
class MasterOnly(Processor):
    """Stands on a slave where a master has what takes messages."""

    codes = frozenset(
        {
            int(RequestCode.SEND_MESSAGE),
            int(RequestCode.SEND_MESSAGE_V2),
            int(RequestCode.SEND_BATCH_MESSAGE),
            int(RequestCode.SEND_REPLY_MESSAGE),
            int(RequestCode.SEND_REPLY_MESSAGE_V2),
            int(RequestCode.CONSUMER_SEND_MSG_BACK),
            int(RequestCode.END_TRANSACTION),
        }
    )

    def __init__(self, name: str, address: str) -> None:
        """
        @param name: the broker's, which its master shares.
        @param address: ours.
        """
        self._remark = f"broker {name} at {address} is a slave and takes no messages; its master, broker id 0, does"

    def process(self, peer: IPeer, request: Command) -> Answer:
        """Refuse: 11 for the end of a transaction, 14 for the others; a producer then tries another broker."""
        if request.code == RequestCode.END_TRANSACTION:
            return request.answer(ResponseCode.SLAVE_NOT_AVAILABLE, self._remark)
        return request.answer(ResponseCode.SERVICE_NOT_AVAILABLE, self._remark)
