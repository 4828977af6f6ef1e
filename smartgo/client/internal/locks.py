"""
The locks of orderly consumers: a broker grants a queue to one member at a time.

Source: C{client/impl/consumer/RebalanceImpl.java}, C{lock}, C{lockAll}, C{unlock}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twisted.logger import Logger

from smartgo.client.client import Client, succeeded
from smartgo.errors import BadBody, CallFailed
from smartgo.schema.bodies import LockBatchBody, LockBatchResult, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

RENEWAL: Final = 20.0  # seconds


class QueueLocks:
    """The queue locks of one group at the brokers."""

    _log = Logger()

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Request locks of queues; return the queues granted, and those whose broker did not answer."""
        granted: set[MessageQueue] = set()
        unknown: set[MessageQueue] = set()
        for broker, wanted in _by_broker(queues).items():
            command = Command.request(RequestCode.LOCK_BATCH_MQ, body=self._body(wanted))
            address = self._client.routes.address(broker)
            if address is None:
                unknown.update(wanted)
                continue
            try:
                answer = succeeded(await self._client.remoting.ask(address, command))
                granted.update(LockBatchResult.decode(answer.body).lock_ok_mq_set)
            except (CallFailed, BadBody) as error:
                self._log.warn("no locks from broker {broker}: {error}", broker=broker, error=error)
                unknown.update(wanted)
        return granted, unknown

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks; a lock that cannot be released expires after 60 s."""
        for broker, given in _by_broker(queues).items():
            address = self._client.routes.address(broker)
            if address is None:
                continue
            try:
                await self._client.remoting.tell(
                    address, Command.request(RequestCode.UNLOCK_BATCH_MQ, body=self._body(given))
                )
            except CallFailed as error:
                self._log.warn(
                    "the locks at broker {broker} could not be released: {error}", broker=broker, error=error
                )

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return LockBatchBody(consumer_group=self._group, client_id=self._client.id, mq_set=queues).encode()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
