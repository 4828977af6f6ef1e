"""
A slave's repair of its damaged log with its master's records.

While a slave follows its master both logs have the same bytes at the same places. So the master is asked for the
message at each damaged place, by the request that clients use (33), which a RocketMQ master answers, too. What it says
is checked like any record before it is written.
"""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from smartgo.broker.cluster.registrar import Ask
from smartgo.errors import LogsDiffer
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.regions import Region
from smartgo.store.openstore import OpenStore

TIMEOUT: Final = 6.0
"""Seconds that the master gets for an answer."""
_MOST: Final = 64  # records that are asked for at a time
_SIZE_LIMIT: Final = 64 << 20  # bytes of a region that is fetched


class DamageFetcher:
    """Fetches the records of damaged regions from a master."""

    _log = Logger()

    def __init__(self, ask: Ask, store: OpenStore) -> None:
        self._ask_at = ask
        self._store = store
        self._given_up: set[Region] = set()  # the master has no messages there

    async def repair(self, master: str) -> None:
        """
        Repair what can be repaired, some regions at a time.

        @param master: C{host:port} of the main port of a master whose log is the same as ours.
        @raise CallFailed: it cannot be asked.
        """
        left = _MOST
        for region in [one for one in self._store.damage.regions if one not in self._given_up]:
            if left <= 0:
                return
            parts = [] if region.length > _SIZE_LIMIT else await self._fetch(master, region)
            left -= max(1, len(parts))
            try:
                await self._store.repair_damage(region, b"".join(parts))
            except (LogsDiffer, OSError) as error:
                self._given_up.add(region)
                self._log.warn(
                    "the damaged region at {offset} cannot be put right with what {master} has: {error}",
                    offset=region.offset,
                    master=master,
                    error=str(error),
                )

    async def _fetch(self, master: str, region: Region) -> list[bytes]:
        """Return the master's records from the beginning of a region on, as long as it has them."""
        parts: list[bytes] = []
        at = region.offset
        while at < region.end:
            request = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(at))
            answer = await self._ask_at(master, request, TIMEOUT)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                break
            parts.append(bytes(answer.body))
            at += len(answer.body)
        return parts
