"""
The refusal of requests that would store a message on a slave: L{SLAVE_TAKES_NO_MESSAGES}.

Rules: docs/spec/ha#roles, reliability H5.
"""

from __future__ import annotations

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import SLAVE_TAKES_NO_MESSAGES
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.command import Command


@implementer(IRequestProcessor)
class MasterOnly(Processor):
    """Refuses on a slave what the processors of messages answer on a master."""

    codes = frozenset(SLAVE_TAKES_NO_MESSAGES)

    def __init__(self, broker: IBroker) -> None:
        me = broker.identity
        self._remark = (
            f"broker {me.name} at {me.address} is a slave and takes no messages; its master, broker id 0, does"
        )

    def process(self, peer: IPeer, request: Command) -> Answer:
        """Refuse: 11 for the end of a transaction, 14 for the others; a producer then tries another broker."""
        return request.answer(SLAVE_TAKES_NO_MESSAGES[request.code], self._remark)
