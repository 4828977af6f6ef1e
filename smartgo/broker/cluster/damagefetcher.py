"""
The repair of a damaged log with the bytes that another broker of the same name has at the same place.

While a slave follows its master both logs have the same bytes at the same places: either asks the other for those of
each damaged region (30001, L{smartgo.broker.processors.logend}). What is beside the region is asked for as well, and
has to be the same in both logs; the bytes themselves are checked record by record before they are written. A RocketMQ
master does not know that request: it is asked for the messages there, one by one, by the request that clients use (33).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from smartgo.broker.cluster.registrar import Ask
from smartgo.errors import LogsDiffer, NoSuchMessage, PeerRefused
from smartgo.ha.interfaces import IMasterTail, Tail
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.hatransfer import TAIL_LIMIT
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.regions import Region
from smartgo.store.openstore import OpenStore
from smartgo.store.replicatedlog import read_cold

TIMEOUT: Final = 6.0
"""Seconds that a RocketMQ master gets for an answer."""
_MOST: Final = 64  # questions at a time
_MOST_LATER: Final = 4096
_SIZE_LIMIT: Final = 64 << 20  # bytes of a region that is fetched
_AGAIN: Final = 600.0  # seconds until a broker that had nothing for a region is asked again: it may be put right itself
_AROUND: Final = 4096  # bytes on either side of a region that are compared


class DamageFetcher:
    """Fetches the bytes of damaged regions from another broker."""

    _log = Logger()

    def __init__(
        self, seconds: Callable[[], float], store: OpenStore, tail: IMasterTail, ask: Ask | None = None
    ) -> None:
        """
        @param seconds: the monotonic clock.
        @param tail: asks another broker for bytes of its log.
        @param ask: asks a RocketMQ master for messages; C{None}: a RocketMQ broker is left alone.
        """
        self._seconds = seconds
        self._store = store
        self._tail = tail
        self._ask_at = ask
        self._later: dict[tuple[str, Region], float] = {}  # who had nothing for a region -> when it is asked again

    def wanted(self, peer: str) -> list[Region]:
        """Return the damaged regions that a broker may put right."""
        later, now = self._later, self._seconds()
        return [one for one in self._store.damage.regions if later.get((peer, one), now) <= now]

    async def repair(self, peer: str) -> None:
        """
        Repair what can be repaired, some regions at a time.

        @param peer: C{host:port} of the main port of a broker whose log is the same as ours.
        @raise CallFailed: it cannot be asked, or lets us ask nothing.
        """
        left = _MOST
        for region in self.wanted(peer):
            if left <= 0:
                return
            try:
                parts = [] if region.length > _SIZE_LIMIT else await self._fetch(peer, region)
                if parts is None:
                    continue  # it may have the bytes later
                left -= max(1, len(parts))
                await self._store.repair_damage(region, b"".join(parts), peer)
            except (LogsDiffer, OSError, PeerRefused) as error:
                if isinstance(error, PeerRefused) and error.code == ResponseCode.NO_PERMISSION:
                    raise  # it refuses all regions
                known = (peer, region) in self._later
                if len(self._later) >= _MOST_LATER:
                    self._later.clear()  # of most there is no such region any more
                self._later[peer, region] = self._seconds() + _AGAIN
                say = self._log.debug if known else self._log.warn
                say(
                    "the damaged region at {offset} cannot be put right with what {peer} has: {error}",
                    offset=region.offset,
                    peer=peer,
                    error=str(error),
                )

    async def _fetch(self, peer: str, region: Region) -> list[bytes] | None:
        """
        Return the bytes that another broker has in place of a region; C{None} where it may have them later.

        @raise LogsDiffer: its log is not ours.
        """
        bounds = await self._tail.ask(peer, region.offset, region.offset, read=True)
        if bounds is None:
            return await self._fetch_messages(peer, region)
        if bounds.minimum > region.offset:
            raise LogsDiffer(f"its log begins at {bounds.minimum}")
        if bounds.end < region.end:
            return None
        begin, end = self._around(region, bounds)
        data = await self._read(peer, begin, end)
        before, after = data[: region.offset - begin], data[region.end - begin :]
        try:
            store = self._store
            same = before == await read_cold(store, begin, region.offset) and after == await read_cold(
                store, region.end, end
            )
        except NoSuchMessage:
            return None  # retention removed it
        if not same:
            raise LogsDiffer("its log has other bytes beside the region")
        return [data[region.offset - begin : region.end - begin]]

    def _around(self, region: Region, bounds: Tail) -> tuple[int, int]:
        """Return the range that a region and what lies on either side of it have in both logs, without other damage."""
        minimum, maximum = self._store.log_bounds()
        begin = max(minimum, bounds.minimum, region.offset - _AROUND)
        end = min(maximum, bounds.end, region.end + _AROUND)
        for other in self._store.damage.between(begin, end):
            if other.end <= region.offset:
                begin = max(begin, other.end)
            elif other.offset >= region.end:
                end = min(end, other.offset)
        return begin, end

    async def _read(self, peer: str, begin: int, end: int) -> bytes:
        """
        Return bytes of another broker's log.

        @raise LogsDiffer: it does not have all of them any more.
        """
        parts: list[bytes] = []
        for at in range(begin, end, TAIL_LIMIT):
            size = min(TAIL_LIMIT, end - at)
            piece = await self._tail.ask(peer, at, at + size, read=True)
            if piece is None or len(piece.data) != size:
                raise LogsDiffer(f"it does not give its bytes from {at} to {at + size}")
            parts.append(piece.data)
        return b"".join(parts)

    async def _fetch_messages(self, peer: str, region: Region) -> list[bytes] | None:
        """Return a RocketMQ master's records from the beginning of a region on, as long as it has them."""
        if self._ask_at is None:
            return None
        parts: list[bytes] = []
        at = region.offset
        while at < region.end:
            request = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(at))
            answer = await self._ask_at(peer, request, TIMEOUT)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                break
            parts.append(bytes(answer.body))
            at += len(answer.body)
        return parts
