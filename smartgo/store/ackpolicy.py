"""Two conditions of an acknowledgement, waited for side by side: the disk, and what else was demanded (a slave)."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.store.interfaces import IFlushPolicy, PutStatus


@implementer(IFlushPolicy)
class AllOf:
    """The acknowledgement policy that waits for two others; where both fail, the second one's status is the answer."""

    def __init__(self, first: IFlushPolicy, second: IFlushPolicy) -> None:
        self._first = first
        self._second = second

    def durable(self, end: int) -> Deferred[PutStatus] | None:
        """See L{IFlushPolicy.durable}."""
        first: Deferred[PutStatus] | None = self._first.durable(end)
        second: Deferred[PutStatus] | None = self._second.durable(end)
        if second is None:
            return first
        return second if first is None else Deferred.fromCoroutine(_both(first, second))

    def may_wait(self) -> bool:
        """See L{IFlushPolicy.may_wait}."""
        return bool(self._first.may_wait() and self._second.may_wait())


async def _both(first: Deferred[PutStatus], second: Deferred[PutStatus]) -> PutStatus:
    statuses = await first, await second  # both have been under way since they were asked for
    return statuses[0] if statuses[1] is PutStatus.OK else statuses[1]
