"""Putting a damaged region of the log right with the records that another copy of the log has at the same place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import LogsDiffer
from smartgo.schema.consumequeue import Unit
from smartgo.schema.logcheck import DamagedBytes, LogCheck
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TagCodes
from smartgo.schema.regions import Region
from smartgo.store.commitlog import CommitLog
from smartgo.store.damage import DamageTable
from smartgo.store.mappedfile import MappedFile
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.verifiedlog import LANE as READ_LANE

LANE: Final = "tables"
_PORTION: Final = 256  # records that are worked on before other work has its turn


class DamageRepair:
    """Repairs the damaged regions of one open store."""

    _log = Logger()

    def __init__(self, log: CommitLog, queues: ConsumeQueues, damage: DamageTable, env: IEnvironment) -> None:
        self._commitlog = log
        self._queues = queues
        self._damage = damage
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._tags = TagCodes()

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
        file = self._commitlog.files.find(region.offset)
        if file is None or region not in self._damage.regions:
            return  # it was removed, or repaired meanwhile
        records = await self._checked(region, data, file)
        if region not in self._damage.regions:
            return
        await self._threads.run(LANE, self._write, file, region, data)
        self._damage.remove(region)
        for number, message in enumerate(records, 1):
            self._restore_unit(message)
            if number % _PORTION == 0:
                await deferLater(self._clock, 0.0)
        self._log.info(
            "the damaged region of {size} B at {offset} was put right{source}; messages delivered again: {count}",
            size=region.length,
            offset=region.offset,
            source=f" with the bytes of {source}" if source else "",
            count=len(records),
        )

    async def _checked(self, region: Region, data: bytes, file: MappedFile) -> list[StoredMessage]:
        """
        Return the records that are to be written, decoded in a thread some at a time: there may be very many.

        @raise LogsDiffer: the bytes are not whole records of that place, or not those that the queues know.
        """
        begin = region.offset

        def read(offset: int, size: int) -> bytes:
            return data[offset - begin : offset - begin + size]

        check = LogCheck(read, begin, region.end, begin + len(data), file.end)
        left = iter(check)
        found: list[StoredMessage] = []
        while part := await self._threads.run(READ_LANE, _some, left):
            for message in part:
                self._check_unit(message)
            found += part
        if len(data) != region.length or check.position != region.end:
            raise LogsDiffer(f"the other copy has {len(data)} B at {begin}, where {region.length} B are damaged")
        return found

    def _check_unit(self, message: StoredMessage) -> None:
        """@raise LogsDiffer: the queue has another message at the offset that a record names."""
        queue = self._queues.by_key.get((message.topic, message.queue_id))
        number = message.queue_offset
        if queue is None or message.sys_flag & PREPARED or not queue.minimum <= number < queue.visible:
            return
        unit = queue.unit(number)
        if unit is None or unit.is_filler:
            return
        if (unit.commitlog_offset, unit.size) != (message.physical_offset, message.size):
            raise LogsDiffer(
                f"the record at {message.physical_offset} is for offset {number} of queue {message.queue_id} of"
                f" {message.topic}, which is the message at {unit.commitlog_offset}"
            )

    def _write(self, file: MappedFile, region: Region, data: bytes) -> None:
        """Write through the file, not the mapping: an unreadable page is an error there; in the lane."""
        self._files.overwrite(file.path, region.offset - file.base, data)
        mapping = self._files.map(file.path)
        try:
            mapping.sync()
        finally:
            mapping.close()

    def _restore_unit(self, message: StoredMessage) -> None:
        """Let the queue lead to a record again where its unit was made anew without it."""
        queue = self._queues.by_key.get((message.topic, message.queue_id))
        number = message.queue_offset
        if queue is None or message.sys_flag & PREPARED or not queue.minimum <= number < queue.visible:
            return
        view = queue.view(number, 1)
        file = queue.files.find(number * len(Unit(0, 0, 0).pack()))
        if view is None or file is None or not Unit.unpack(view).is_filler:
            return
        code = self._tags.of_stored(message.properties)
        if queue.delay_ms is not None:
            code = message.stored_ms + queue.delay_ms
        view[:] = Unit(message.physical_offset, message.size, code).pack()
        self._queues.dirty[file] = None


def _some(left: Iterator[StoredMessage | DamagedBytes]) -> list[StoredMessage]:
    """Return the next records; in the lane. @raise LogsDiffer: something else follows."""
    found = []
    for one in islice(left, _PORTION):
        if isinstance(one, DamagedBytes):
            raise LogsDiffer(f"what the other copy has at {one.offset} is no record: {one.reason}")
        found.append(one)
    return found
