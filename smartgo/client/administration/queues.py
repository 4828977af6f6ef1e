"""Questions about single queues, asked of a broker by its address: their bounds, and where groups stand in them."""

from __future__ import annotations

from smartgo.client.administration.asking import Asking
from smartgo.client.client import header_of
from smartgo.errors import PeerRefused
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import (
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetResponse,
    QueryOffsetRequest,
    SearchOffsetRequest,
)


class Queues:
    """
    Asks about queues.

    All methods raise L{PeerRefused<smartgo.errors.PeerRefused>} where the broker declines, and
    L{CallFailed<smartgo.errors.CallFailed>} where it does not answer.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def bounds(self, address: str, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the offset of the first message that is there, and that of the next one to come."""
        low = MinOffsetRequest(topic=topic, queue_id=queue_id)
        high = MaxOffsetRequest(topic=topic, queue_id=queue_id)
        return (
            await self._offset(address, RequestCode.GET_MIN_OFFSET, low),
            await self._offset(address, RequestCode.GET_MAX_OFFSET, high),
        )

    async def nearest(self, address: str, topic: str, queue_id: int, time_ms: int, boundary: str | None = None) -> int:
        """
        Return the offset of the message stored nearest to a time, which may be any of several of one time.

        @param time_ms: wall clock.
        @param boundary: C{LOWER}: the first one stored then or later, where the broker knows the difference (5.x).
        """
        header = SearchOffsetRequest(topic=topic, queue_id=queue_id, timestamp=time_ms, boundary_type=boundary)
        return await self._offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, address: str, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group stands in a queue; C{None} where it has no position."""
        header = QueryOffsetRequest(consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False)
        try:
            return await self._offset(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def _offset(self, address: str, code: RequestCode, header: Header) -> int:
        return header_of(OffsetResponse, await self._asking.broker(address, code, header)).offset
