"""
Putting the units of records back into their queues, where damage that was put right had kept them out.

A queue that was made without a record has a unit without a message in its place, begins behind it, or ends before it.
Only the offset that the record names counts: one that another message has meanwhile is left to that. As in
L{smartgo.store.replicalog}, a record that cannot follow what its queue has is left out.
"""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from smartgo.errors import LogsDiffer, MessageIllegal
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TagCodes
from smartgo.schema.record import RECORD_MINIMUM
from smartgo.schema.regions import Region
from smartgo.store.checkpointer import Checkpointed, Checkpointer
from smartgo.store.damage import DamageTable
from smartgo.store.queues.file import ConsumeQueue
from smartgo.store.queues.unitruns import HIGHEST, LONGEST_GAP

_PORTION: Final = 4096  # units without a message that are written at once


class RestoredUnits:
    """Puts the units of one store's records back."""

    _log = Logger()

    def __init__(self, parts: Checkpointed, checkpointer: Checkpointer, damage: DamageTable) -> None:
        """@param checkpointer: knows which topics were deleted."""
        self._commitlog = parts.log
        self._queues = parts.queues
        self._checkpointer = checkpointer
        self._damage = damage
        self._tags = TagCodes()

    def is_missing(self, message: StoredMessage) -> bool:
        """
        Tell whether the queue of a record has no unit for it.

        @raise LogsDiffer: the queue has another message at the offset that the record names.
        """
        if self._is_of_no_queue(message):
            return False
        queue = self._queues.by_key.get((message.topic, message.queue_id))
        number = message.queue_offset
        if queue is None or not queue.minimum <= number < queue.visible:
            return True
        unit = queue.unit(number)
        if unit is None or unit.is_filler:
            return True
        if (unit.commitlog_offset, unit.size) != (message.physical_offset, message.size):
            raise LogsDiffer(
                f"the record at {message.physical_offset} is for offset {number} of queue {message.queue_id} of"
                f" {message.topic}, which is the message at {unit.commitlog_offset}"
            )
        return False

    def restore(self, message: StoredMessage, region: Region) -> None:
        """
        Write the unit of a record, or stage it where it follows all that its queue has.

        @param region: where it lies; the damage that is known has it no more.
        @raise ServiceNotAvailable: there is no room for it.
        """
        if self._is_of_no_queue(message):
            return
        key = (message.topic, message.queue_id)
        queue = self._queues.by_key.get(key)
        if queue is None:
            try:
                queue = self._queues.create(*key)
            except MessageIllegal as error:
                self._leave_out(message, str(error))
                return
        if message.queue_offset < queue.next_offset:
            self._put_back(queue, message, region)
        else:
            self._add(queue, message, region)

    def _is_of_no_queue(self, message: StoredMessage) -> bool:
        """Tell whether a record counts for no queue: it is a half message, or its topic was deleted after it."""
        below = self._checkpointer.deleted.get(message.topic, 0)
        return bool(message.sys_flag & PREPARED) or message.physical_offset < below

    # -- in place of units without a message -------------------------------------------------------------------

    def _put_back(self, queue: ConsumeQueue, message: StoredMessage, region: Region) -> None:
        """Write a unit below the end of its queue, if no message stands there."""
        number = message.queue_offset
        view = queue.view(number, 1) if number < queue.visible else None
        file = queue.files.find(number * UNIT_SIZE)
        if view is None or file is None or not Unit.unpack(view).is_filler:
            self._leave_out(message, "its queue has another message there, or has removed that part")
            return
        if number < queue.minimum:
            if queue.minimum - number > self._most_missing(region.end, self._commitlog.end, region):
                self._leave_out(message, f"its queue begins at offset {queue.minimum}")
                return
            # Units lead to ever higher places of the log, those between this one and the next message too.
            self._fill(queue, number + 1, queue.minimum, message.physical_offset)
            queue.minimum = number
        view[:] = Unit(message.physical_offset, message.size, self._code_of(queue, message)).pack()
        self._queues.dirty[file] = None

    def _fill(self, queue: ConsumeQueue, begin: int, end: int, physical: int) -> None:
        """Let the units without a message between two offsets sort as if they led to C{physical}."""
        filler = Unit(physical, PREFILL.size, 0).pack()
        while begin < end:
            view = queue.view(begin, min(end - begin, _PORTION))
            file = queue.files.find(begin * UNIT_SIZE)
            if view is None or file is None:
                return
            count = len(view) // UNIT_SIZE
            view[:] = filler * count
            self._queues.dirty[file] = None
            begin += count

    def _code_of(self, queue: ConsumeQueue, message: StoredMessage) -> int:
        if queue.delay_ms is not None:
            return message.stored_ms + queue.delay_ms
        return self._tags.of_stored(message.properties)

    # -- behind the last unit ----------------------------------------------------------------------------------

    def _add(self, queue: ConsumeQueue, message: StoredMessage, region: Region) -> None:
        """Stage a unit behind all that a queue has; units without a message stand in for what is missing before it."""
        number, physical = message.queue_offset, message.physical_offset
        if not 0 <= number < HIGHEST:
            self._leave_out(message, "no queue gets that far")
            return
        if number > queue.next_offset and queue.next_offset * UNIT_SIZE == queue.files.begin:
            self._begin(queue, number)
        last = queue.unit(queue.visible - 1) if queue.visible > queue.minimum else None
        missing = number - queue.next_offset
        if last is not None and last.commitlog_offset > physical:
            self._leave_out(message, f"the last message of its queue is at {last.commitlog_offset}")
            return
        if missing > self._most_missing(0 if last is None else last.commitlog_offset, region.offset, region):
            self._leave_out(message, f"its queue ends at offset {queue.next_offset}")
            return
        queue.claim(missing + 1)
        if missing:
            queue.stage_fillers(missing, physical, message.stored_ms)
        code = self._tags.of_stored(message.properties)
        queue.stage(number, Unit(physical, message.size, code).pack(), (code,), message.stored_ms)

    def _begin(self, queue: ConsumeQueue, number: int) -> None:
        """Let a queue without units begin at an offset. @raise ServiceNotAvailable: no room."""
        self._queues.discard_files(queue)  # their names may have survived a power failure
        try:
            queue.begin_at(number)
        except OSError as error:
            raise queue.no_room(error) from error

    def _most_missing(self, begin: int, end: int, region: Region) -> int:
        """Return how many messages of one queue may be missing between two places of the log, and in a region."""
        if begin < self._commitlog.minimum:
            return LONGEST_GAP  # the log has lost what was there
        return min(self._damage.most_records(begin, end) + region.length // RECORD_MINIMUM, LONGEST_GAP)

    def _leave_out(self, message: StoredMessage, reason: str) -> None:
        self._log.warn(
            "the record at {physical}, which was put right, names offset {offset} of queue {queue} of topic {topic},"
            " and is not delivered: {reason}",
            physical=message.physical_offset,
            offset=message.queue_offset,
            queue=message.queue_id,
            topic=message.topic,
            reason=reason,
        )
