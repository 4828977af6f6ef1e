"""Putting a damaged region of the log right with the records that another copy of the log has at the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import LogsDiffer, ServiceNotAvailable
from smartgo.schema.logcheck import DamagedBytes, LogCheck
from smartgo.schema.message import StoredMessage
from smartgo.schema.regions import Region
from smartgo.store.checkpointer import Checkpointed, Checkpointer
from smartgo.store.damage import DamageTable
from smartgo.store.interfaces import PutStatus
from smartgo.store.mappedfile import MappedFile
from smartgo.store.restoredunits import RestoredUnits
from smartgo.store.verifiedlog import LANE as READ_LANE

LANE: Final = "tables"
_PORTION: Final = 256  # records that are worked on before other work has its turn


class DamageRepair:
    """Repairs the damaged regions of one open store."""

    _log = Logger()

    def __init__(self, parts: Checkpointed, checkpointer: Checkpointer, damage: DamageTable, env: IEnvironment) -> None:
        """@param checkpointer: of the same parts."""
        self._parts = parts
        self._checkpointer = checkpointer
        self._damage = damage
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._units = RestoredUnits(parts, checkpointer, damage)

    def repair(self, region: Region, data: bytes, source: str = "") -> Deferred[None]:
        """
        Write records in place of a damaged region, durably, and let readers have them.

        @param data: what another copy of the log has there: whole valid records, as long as the region, of which none
            differs from what its queue says of it.
        @param source: who has that copy, for the log.
        @raise LogsDiffer: through the Deferred: it is not that; nothing was changed.
        @raise OSError: through the Deferred: it could not be written; the region is still damaged.
        """
        return Deferred.fromCoroutine(self._repair(region, data, source))

    async def _repair(self, region: Region, data: bytes, source: str) -> None:
        file = self._parts.log.files.find(region.offset)
        if file is None or region not in self._damage.regions:
            return  # it was removed, or repaired meanwhile
        count, missing = await self._checked(region, data, file)
        if region not in self._damage.regions:
            return
        await self._threads.run(LANE, self._write, file, region, data)
        self._damage.remove(region, settled=not missing)
        if missing:
            await self._restore(missing, region)
        self._log.info(
            "the damaged region of {size} B at {offset} was put right{source}; messages delivered again: {count}",
            size=region.length,
            offset=region.offset,
            source=f" with the bytes of {source}" if source else "",
            count=count,
        )

    async def _checked(self, region: Region, data: bytes, file: MappedFile) -> tuple[int, list[StoredMessage]]:
        """
        Return how many records are to be written, and those, without their bodies, that their queues have no unit for.

        They are decoded in a thread some at a time: there may be very many.

        @raise LogsDiffer: the bytes are not whole records of that place, or not those that the queues know.
        """
        begin = region.offset

        def read(offset: int, size: int) -> bytes:
            return data[offset - begin : offset - begin + size]

        check = LogCheck(read, begin, region.end, begin + len(data), file.end)
        left = iter(check)
        count = 0
        missing: list[StoredMessage] = []
        while part := await self._threads.run(READ_LANE, _some, left):
            count += len(part)
            missing += [message._replace(body=b"") for message in part if self._units.is_missing(message)]
        if len(data) != region.length or check.position != region.end:
            raise LogsDiffer(f"the other copy has {len(data)} B at {begin}, where {region.length} B are damaged")
        return count, missing

    def _write(self, file: MappedFile, region: Region, data: bytes) -> None:
        """Write through the file, not the mapping: an unreadable page is an error there; in the lane."""
        self._files.overwrite(file.path, region.offset - file.base, data)
        mapping = self._files.map(file.path)
        try:
            mapping.sync()
        finally:
            mapping.close()

    async def _restore(self, missing: Sequence[StoredMessage], region: Region) -> None:
        """
        Let queues lead to records that they were made without, durably.

        Until that is durable the list of damage keeps the region, so that the next start looks after its records.
        """
        left_out = False
        for number, message in enumerate(missing, 1):
            try:
                self._units.restore(message, region)
            except ServiceNotAvailable as error:
                left_out = True
                self._log.error("{error}; a message that was put right comes back after the next start", error=error)
            if number % _PORTION == 0:
                self._publish()
                await deferLater(self._clock, 0.0)
        self._publish()
        flusher = self._parts.flusher
        flusher.flush()
        flushed = await flusher.wait(self._parts.log.end)
        saved = flushed is PutStatus.OK and await self._checkpointer.save(table=True) is PutStatus.OK
        if saved and not left_out:
            self._damage.settle(region)

    def _publish(self) -> None:
        """Let readers have the units that were staged; a run of appends that is under way does so at its end."""
        if self._parts.log.end == self._parts.dispatch.run_end:
            self._parts.dispatch.end_run()


def _some(left: Iterator[StoredMessage | DamagedBytes]) -> list[StoredMessage]:
    """Return the next records; in the lane. @raise LogsDiffer: something else follows."""
    found = []
    for one in islice(left, _PORTION):
        if isinstance(one, DamagedBytes):
            raise LogsDiffer(f"what the other copy has at {one.offset} is no record: {one.reason}")
        found.append(one)
    return found
