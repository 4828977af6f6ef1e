"""
The recovery of the timer log: from its last checkpoint, and from what the CommitLog has behind it.

First the log is read for delivered copies, then the timer topic for messages that came since. Without a checkpoint that
can be used both are read from the oldest message of the timer topic on, and what was delivered may be more than memory
holds (L{smartgo.store.timer.deliveredoffsets}).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.schema.consumequeue import Unit
from smartgo.schema.timers import due_of, wheel_ms
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.queues.file import ConsumeQueue
from smartgo.store.timer.deliveredoffsets import DeliveredOffsets
from smartgo.store.timer.logrecords import entries_of, scan_delivered
from smartgo.store.timer.slotstorage import LANE, PeerProgress, SlotStorage
from smartgo.store.timer.source import TimerSource
from smartgo.store.timer.waiting import WaitingTimers

_UNITS: Final = 4096  # of the timer topic that are read at once
_WRITE_FROM: Final = 262_144  # entries for files that are kept in memory until they are written: each file is opened


class TimerRecovery:
    """
    One recovery of a timer log.

    @ivar position: physical offset that the checkpoint reached.
    @ivar changes: how many messages came or were delivered since.
    """

    _log = Logger()

    def __init__(
        self,
        threads: IThreads,
        files: IFiles,
        source: TimerSource,
        storage: SlotStorage,
        waiting: WaitingTimers,
        check_cancelled: Callable[[], None],
    ) -> None:
        """
        @param waiting: what is found is put there; it is empty.
        @param check_cancelled: raises something when the store is being closed; called in any thread.
        """
        self._threads = threads
        self._files = files
        self._source = source
        self._storage = storage
        self._waiting = waiting
        self._check = check_cancelled
        self._delivered: set[int] = set()  # since the checkpoint
        self._all_delivered: DeliveredOffsets | None = None  # where there is no checkpoint
        self._peer = PeerProgress(0, 0)  # what RocketMQ delivered, without our mark
        self.position = 0
        self.changes = 0

    async def run(self, end: int, horizon_ms: int) -> int:
        """
        Find out what waits.

        @param end: physical offset at which the readable log ends; C{horizon_ms} as for L{WaitingTimers.put}.
        @return: logical offset in the timer topic of the next message to be taken.
        @raise OSError: as the system says.
        """
        queue = self._source.queues.by_key.get((TIMER_TOPIC, 0))
        low, high = (0, 0) if queue is None else (queue.minimum, queue.visible)
        saved = await self._threads.run(LANE, self._storage.open, end, high)
        position, offset = end, low
        if saved is not None:
            self._waiting.restore(saved)
            position, offset = saved.position, max(low, saved.queue_offset)
        elif queue is not None and high > low:
            self._all_delivered = DeliveredOffsets(self._threads, self._storage)
            self._peer = await self._threads.run(LANE, self._storage.peer)
            unit = queue.unit(low)
            position = end if unit is None else max(unit.commitlog_offset, self._source.log.minimum)
            self._log.info("the timer log is made from the log, from {position} on", position=position)
        self.position = position
        await self._find_delivered(position, end)
        self._waiting.remove_delivered(self._delivered)
        if queue is not None:
            await self._replay(queue, offset, high, horizon_ms)
        self._waiting.masked |= self._delivered
        return max(offset, high)

    async def _find_delivered(self, position: int, end: int) -> None:
        """Read the log from C{position} to C{end} for delivered copies."""
        while position < end:
            self._check()
            files = self._source.log_files()
            scan = await self._threads.run(LANE, scan_delivered, self._files, files, position, end, self._check)
            if self._all_delivered is None:
                self._delivered.update(scan.delivered)
            else:
                await self._all_delivered.add(scan.delivered)
            self.changes += len(scan.delivered)
            position = scan.position

    async def _replay(self, queue: ConsumeQueue, offset: int, end: int, horizon_ms: int) -> None:
        """Take the messages of the timer topic between two logical offsets, without those that were delivered."""
        while offset < end:
            self._check()
            units = queue.units(offset, min(_UNITS, end - offset))
            if not units:
                return
            found = await self._threads.run(LANE, entries_of, self._files, self._source.log_files(), units)
            delivered = await self._delivered_of(units)
            peer_ms, peer_end = self._peer
            for at, (unit, arrival) in enumerate(zip(units, found, strict=True), offset):
                if unit.commitlog_offset in delivered and not unit.is_filler:
                    continue
                if arrival is not None and (at >= peer_end or wheel_ms(due_of(arrival.entry)) >= peer_ms):
                    self._waiting.put(arrival.entry, horizon_ms, arrival.recalled)
            offset += len(units)
            self.changes += len(units)
            if self._waiting.unwritten_count >= _WRITE_FROM:
                await self._write()

    async def _delivered_of(self, units: Sequence[Unit]) -> set[int]:
        """Return the physical offsets of those of some messages that were delivered. @raise OSError"""
        offsets = [unit.commitlog_offset for unit in units if not unit.is_filler]
        if self._all_delivered is not None:
            return await self._all_delivered.among(offsets)
        found = self._delivered.intersection(offsets)
        self._delivered -= found
        return found

    async def _write(self) -> None:
        """Write to files what belongs there. @raise OSError: that is not possible."""
        parts = self._waiting.unwritten()
        names = [(file.name, entries) for file, entries in parts]
        if await self._threads.run(LANE, self._storage.write, names) < len(parts):
            raise OSError("its entries cannot be written")
