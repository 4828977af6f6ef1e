"""
The first offsets of the queues, as the log loses its oldest files.

A queue begins with the first message that the log still has. Where that is, is found in the files of the queues by a
thread, as their oldest pages are hardly in memory. Source: C{ConsumeQueue.correctMinOffset}; docs/spec/store#deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted.logger import Logger

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.schema.consumequeue import UNIT_SIZE, Unit, unit_struct
from smartgo.store.messagelookup import FilePaths
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.queues.firstreadable import behind_fillers, first_kept

LANE: Final = "remove"

_QUEUES: Final = 128  # that the lane looks at in one go


class ExpiredUnits(NamedTuple):
    """The units that a queue lost."""

    topic: str
    queue_id: int
    begin: int
    """Logical offset of the first of them."""
    end: int
    """Logical offset after the last of them: the queue begins there now."""


ExpiryListener = Callable[[ExpiredUnits], None]
"""Is told, on the reactor thread, of each queue that lost messages; must not block."""


class QueueExpiry:
    """
    Moves the first offsets of queues.

    @ivar listeners: told of each queue that lost messages.
    """

    _log = Logger()

    def __init__(self, threads: IThreads, files: IFiles, queues: ConsumeQueues) -> None:
        self._threads = threads
        self._files = files
        self._queues = queues
        self.listeners: list[ExpiryListener] = []

    async def move(self, minimum: int) -> None:
        """
        Let every queue begin with its first message at or behind physical offset C{minimum}.

        @raise OSError: a queue file cannot be read; the queues before it are done.
        """
        queues = list(self._queues)
        for at in range(0, len(queues), _QUEUES):
            asked = [queue for queue in queues[at : at + _QUEUES] if queue.minimum < queue.visible]
            spans = [(FilePaths.of(queue.files), queue.minimum, queue.visible) for queue in asked]
            found = await self._threads.run(LANE, self._first_offsets, spans, minimum)
            for queue, (_, begin, _), first in zip(asked, spans, found, strict=True):
                if first > begin and not queue.dropped:
                    queue.minimum = first
                    self._tell(ExpiredUnits(queue.topic, queue.queue_id, begin, first))

    def _first_offsets(self, spans: Sequence[tuple[FilePaths, int, int]], minimum: int) -> list[int]:
        """Find the first offsets of some queues; in the lane."""
        return [self._first_offset(paths, begin, end, minimum) for paths, begin, end in spans]

    def _first_offset(self, paths: FilePaths, begin: int, end: int, minimum: int) -> int:
        def units(offset: int, count: int) -> Sequence[Unit]:
            position = offset * UNIT_SIZE
            size = min(count * UNIT_SIZE, paths.file_end(position) - position)
            raw = paths.read(self._files, position, size)
            return [Unit._make(one) for one in unit_struct.iter_unpack(raw[: len(raw) - len(raw) % UNIT_SIZE])]

        def unit(offset: int) -> Unit | None:
            return next(iter(units(offset, 1)), None)

        first = unit(begin)
        if first is not None and not first.is_filler and first.commitlog_offset >= minimum:
            return begin  # nothing that was removed led there: the usual case, where there are many queues
        return behind_fillers(units, first_kept(unit, begin, end, minimum), end)

    def _tell(self, expired: ExpiredUnits) -> None:
        for listener in self.listeners:
            try:
                listener(expired)
            except Exception:  # a listener's bug must not keep the disk full
                self._log.failure("a listener failed on the expired messages of {topic}", topic=expired.topic)
