"""
Putting a slave's torn records right: with the bytes that the master has at the same places.

Nothing was appended since the store was opened. A checkpoint that claims nothing from the first of these records on is
written before a byte changes; so whatever happens on the way, the next start reads the log from there, and holds all
from there on for doubtful again. The units from there on are taken away, the bytes are put right, and the records come
to the queues once more, as if they had just been received.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.logger import Logger

from smartgo.errors import BadRecord, LogsDiffer, ServiceNotAvailable
from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.schema.record import check, start_struct
from smartgo.store.checkpointer import Checkpointer
from smartgo.store.commitlog import CommitLog
from smartgo.store.dispatch import QueueDispatch
from smartgo.store.flush import Flusher
from smartgo.store.interfaces import PutStatus
from smartgo.store.queues.file import ConsumeQueue, ConsumeQueues
from smartgo.store.replicalog import ReplicaLog


class LogRepair:
    """Repairs the log of one slave."""

    _log = Logger()

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatch: QueueDispatch,
        flusher: Flusher,
        checkpointer: Checkpointer,
        replica: ReplicaLog,
    ) -> None:
        self._commitlog = log
        self._queues = queues
        self._dispatch = dispatch
        self._flusher = flusher
        self._checkpointer = checkpointer
        self._replica = replica

    async def repair(self, records: Mapping[int, bytes]) -> None:
        """
        See L{IReplicatedLog.repair<smartgo.store.replicatedlog.IReplicatedLog.repair>}.

        @raise LogsDiffer: what is to be put there cannot be: nothing was changed.
        @raise ServiceNotAvailable: no checkpoint could be written; or there is no room for units, and the log ends
            before the first record that has none.
        """
        log = self._commitlog
        begin = min(records)
        for offset, record in records.items():
            try:
                size = check(record, 0, offset).size
            except BadRecord as error:
                raise LogsDiffer(f"the master's bytes at {offset} are not a record: {error}") from None
            if not size == len(record) == start_struct.unpack(log.slice(offset, start_struct.size))[0]:
                raise LogsDiffer(f"the master has a record of another size at {offset}")
        if log.files.find(begin) is not log.files.find(log.end - 1):
            raise LogsDiffer(f"the record at {begin} is torn, and newer log files follow")
        log.torn = log.end - begin
        self._dispatch.retreat(begin)
        self._flusher.retreat(begin)
        for queue in list(self._queues):
            end = _end_below(queue, begin)
            if end == queue.visible:
                continue
            if end > queue.minimum:
                queue.cut(end)
            else:  # it may be there because of the torn record alone
                self._queues.discard_files(queue)
                del self._queues.by_key[queue.key]
        if await self._checkpointer.save(table=True) is not PutStatus.OK:
            raise ServiceNotAvailable(f"no checkpoint could be written to repair the record at {begin}")
        for offset, record in records.items():
            log.slice(offset, len(record))[:] = record
            self._log.warn("the record at {offset} was torn, and now equals the master's", offset=offset)
        # A flush that ended meanwhile did not cover this, nor did a run.
        self._flusher.retreat(begin)
        self._dispatch.retreat(begin)
        self._replica.retake()


def _end_below(queue: ConsumeQueue, physical: int) -> int:
    """Return the logical offset after a queue's last unit that leads below a physical offset."""
    end = queue.visible
    while end > queue.files.begin // UNIT_SIZE:
        unit = queue.unit(end - 1)
        if unit is None or unit.commitlog_offset < physical:
            break
        end -= 1
    return end
