"""
Bringing the queues in line with the log, when a store is opened.

While recovery reads the log's tail, the units that belong to it are planned; L{QueueRebuild.settle} finds out how far
each queue really goes without that tail, and adds the planned units, writing only where other bytes stand. A queue that
has not what it must have is wanted: L{QueueRebuild.make_anew} makes it from all of the log.

How far a queue goes: after a clean stop the table of queues says so. Else L{smartgo.store.recovery.queueends} finds
out.

Two things in a log look like faults and are none. A queue that begins again at a lower offset was deleted with its
topic: the later records count. A queue whose first record in the log is not number 0 lost the ones before to deletion
of old files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IFiles
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit, unit_struct
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TagCodes
from smartgo.schema.topics import QUEUE_LIMIT
from smartgo.store.checkpoint import QueueTable
from smartgo.store.queues.file import ConsumeQueue, ConsumeQueues, QueueKey
from smartgo.store.queues.firstreadable import behind_fillers, first_kept
from smartgo.store.queues.unitruns import LONGEST_GAP, UnitSequence
from smartgo.store.recovery.queueends import QueueEnds
from smartgo.store.storelayout import StoreLayout

_FLUSH_UNITS: Final = 4096
_TOLD: Final = 1000  # records left out that are counted
_pack = unit_struct.pack


class QueueRebuild:
    """
    Brings the queues of a store that is being opened in line with its log.

    @ivar wanted: queues that have to be made anew.
    @ivar everything: all queues have to be, those too that nobody knows of.
    """

    _log = Logger()

    def __init__(
        self,
        files: IFiles,
        layout: StoreLayout,
        queues: ConsumeQueues,
        table: QueueTable | None,
        deleted: Mapping[str, int],
        changing: Callable[[], None],
        keeps_offsets: bool,
    ) -> None:
        """
        @param table: what the queues had at least, if known.
        @param deleted: see L{QueueTable}.
        @param changing: called before any file is changed.
        @param keeps_offsets: offsets that the queues had count as given out, even where the log has no such message;
            those of a slave are its master's, who may give them out again.
        """
        self._files = files
        self._layout = layout
        self._queues = queues
        self._table = table
        self._deleted = deleted
        self._changing = changing
        self._tags = TagCodes()
        self._keeps_offsets = keeps_offsets
        self._given_out = {} if table is None else {(one.topic, one.queue_id): one.next_offset for one in table.queues}
        self._ends = QueueEnds(files, layout.log_files)
        self._planned: dict[QueueKey, UnitSequence] = {}
        self._unconfirmed: list[tuple[QueueKey, int, bytes, int]] = []
        self._trusted: set[QueueKey] = set()
        self._littered: set[QueueKey] = set()  # old units lie behind the end
        self._begun_again: set[QueueKey] = set()  # the table of queues is of the topic that was deleted
        self._impossible: dict[int, QueueKey] = {}  # records left out: physical offset, and what they say
        self.wanted: set[QueueKey] = set(layout.broken)
        self.everything = False
        for (topic, queue_id), bases in layout.queues.items():
            queues.create(topic, queue_id, bases)

    # -- planning ----------------------------------------------------------------------------------------------

    def plan(self, message: StoredMessage, damaged: int = 0) -> None:
        """
        Take a record of the log's tail; it counts once L{confirm} is called.

        @param damaged: bytes of damage in the log before it, from the first record on.
        """
        made = self._unit_of(message)
        if made is not None:
            self._unconfirmed.append((*made, damaged))

    def confirm(self) -> None:
        """The records taken since the last call will stay."""
        for key, offset, unit, damaged in self._unconfirmed:
            sequence = self._planned.get(key)
            if sequence is None:
                sequence = self._planned[key] = UnitSequence()
            sequence.add(offset, unit, damaged)
        self._unconfirmed.clear()

    def drop_unconfirmed(self) -> None:
        """The records taken since L{confirm} will be cut."""
        self._unconfirmed.clear()

    def _unit_of(self, message: StoredMessage) -> tuple[QueueKey, int, bytes] | None:
        if message.sys_flag & PREPARED or message.physical_offset < self._deleted.get(message.topic, 0):
            return None
        key = (message.topic, message.queue_id)
        queue = self._queues.by_key.get(key)
        if queue is None:
            if message.queue_id >= QUEUE_LIMIT:
                if len(self._impossible) < _TOLD:
                    self._impossible[message.physical_offset] = key
                return None
            queue = self._queues.create(*key)
        if queue.delay_ms is None:
            code = self._tags.of_stored(message.properties)
        else:
            code = message.stored_ms + queue.delay_ms
        return key, message.queue_offset, _pack(message.physical_offset, message.size, code)

    # -- how far the queues go ---------------------------------------------------------------------------------

    def newest(self) -> int:
        """Return the physical offset after the newest record that any queue has; 0 without one."""
        newest = 0
        for queue in self._queues:
            unit = self._ends.last_unit(queue, self._ends.bisect(queue, 1 << 62))
            if unit is not None and not unit.is_filler:
                newest = max(newest, unit.commitlog_offset + unit.size)
        return newest

    def settle(self, begin: int, minimum: int, exact: bool, put_right: Iterable[StoredMessage] = ()) -> None:
        """
        Find the end of each queue below C{begin}, and add what was planned.

        @param begin: physical offset where the planned records begin.
        @param minimum: physical offset of the oldest log file.
        @param exact: the table of queues says where they end.
        @param put_right: records that were damaged when the queues were made, and may be missing there.
        """
        self._discard_deleted(begin)
        known = {} if self._table is None else {(one.topic, one.queue_id): one for one in self._table.queues}
        same_log = self._table is not None and self._table.log_minimum == minimum
        for queue in list(self._queues):
            if queue.key in self.wanted or not queue.files.files:
                continue
            entry = known.get(queue.key)
            if entry is not None and same_log and queue.files.begin > entry.minimum * UNIT_SIZE:
                self.wanted.add(queue.key)
                continue
            end: int | None
            if exact and entry is not None and self._covers(queue, entry.minimum, entry.next_offset):
                end = entry.next_offset if self._ends.is_borne_out(queue, entry.next_offset) else None
                if same_log:
                    self._trusted.add(queue.key)
                    queue.minimum = entry.minimum
            else:
                end = self._ends.find(queue, begin, partial(self._littered.add, queue.key))
            if end is None or not all(
                self._ends.is_borne_out(queue, file.base // UNIT_SIZE + 1)
                for file in queue.files.files
                if queue.minimum * UNIT_SIZE <= file.base < (end - 1) * UNIT_SIZE
            ):
                self.wanted.add(queue.key)
                self._trusted.discard(queue.key)
            else:
                self._set_end(queue, end)
        for key, entry in known.items():
            held = self._queues.by_key.get(key)
            if entry.next_offset > (0 if held is None else held.visible):
                self.wanted.add(key)
        if self._table is None and not self._layout.queues and begin > minimum:
            self.everything = True
        if not self.everything:
            for key, sequence in self._planned.items():
                self._take(key, sequence, True, begin == minimum)
        self._planned.clear()
        self._want_queues_of(put_right)

    def _want_queues_of(self, messages: Iterable[StoredMessage]) -> None:
        """Want the queues that lack a record, made anew with it."""
        for message in messages:
            made = self._unit_of(message)
            if made is None:
                continue
            key, offset, _ = made
            queue = self._queues.by_key[key]
            unit = queue.unit(offset) if 0 <= offset < queue.visible else None
            if unit is None or unit.is_filler:
                self.wanted.add(key)
                self._trusted.discard(key)

    def _discard_deleted(self, begin: int) -> None:
        """
        Remove the files that a deleted topic still has, as moving them away did not become durable.

        No file holds units of the deleted topic and of the one that came after it.
        """
        for queue in self._queues:
            below = self._deleted.get(queue.topic, 0)
            if not below or not queue.files.files:
                continue
            unit = self._ends.last_unit(queue, self._ends.bisect(queue, below))
            if unit is not None and unit.size != PREFILL.size:
                self._changing()
                self._queues.discard_files(queue)
                if begin > below:
                    self.wanted.add(queue.key)  # the log may have messages of the new topic below what is planned

    def _covers(self, queue: ConsumeQueue, minimum: int, end: int) -> bool:
        files = queue.files
        return files.begin <= minimum * UNIT_SIZE and files.end >= end * UNIT_SIZE

    def _set_end(self, queue: ConsumeQueue, end: int) -> None:
        queue.visible = queue.next_offset = queue.reserved = end

    # -- adding ------------------------------------------------------------------------------------------------

    def _take(self, key: QueueKey, sequence: UnitSequence, last: bool, from_oldest: bool) -> None:
        """Add what a sequence holds to its queue."""
        queue = self._queues.by_key[key]
        for offset, units in sequence.drain(last, self._given_out.get(key, 0)):
            if key in self.wanted and not from_oldest:
                return
            self._add(queue, offset, bytes(units), from_oldest)
        if last and sequence.displaced:
            self._log.warn(
                "{count} messages of topic {topic}, queue {queue} have a wrong offset, and are left out",
                count=sequence.displaced,
                topic=queue.topic,
                queue=queue.queue_id,
            )

    def _add(self, queue: ConsumeQueue, offset: int, units: bytes, from_oldest: bool) -> None:
        """Add units of adjacent records behind what the queue has."""
        if offset > queue.visible and not from_oldest:
            self.wanted.add(queue.key)
            return
        if offset != queue.visible:
            self._changing()
        if offset > queue.visible:
            if not queue.files.files or self._is_unused(queue):
                self._queues.discard_files(queue)  # names of files survived a power failure, their units did not
                queue.begin_at(offset)
            elif offset - queue.visible > LONGEST_GAP:
                self._complain(queue, "its offsets jump to {offset}, which cannot be: what follows is left out", offset)
                return
            else:
                self._complain(queue, "the messages before offset {offset} are not in the log", offset)
                self._fill(queue, offset, Unit.unpack(units).commitlog_offset)
        elif offset < queue.visible:
            if offset:
                self._complain(queue, "its offsets fall to {offset}, which cannot be: what follows is left out", offset)
                return
            self._complain(queue, "it was deleted, and begins again at {offset}", offset)
            self._begun_again.add(queue.key)
            if queue.files.begin:
                self._queues.discard_files(queue)
            else:
                queue.cut(0)
        done = 0
        while done < len(units):
            view = queue.view(queue.visible, (len(units) - done) // UNIT_SIZE)
            if view is not None and view == units[done : done + len(view)]:
                count = len(view) // UNIT_SIZE
                queue.find_written(count)
            else:
                size = len(units) - done if view is None else len(view)
                size = min(size, queue.files.file_size)
                count = size // UNIT_SIZE
                self._changing()
                queue.reserve(queue.visible + count)
                queue.write(units[done : done + size], count)
                queue.next_offset = queue.visible
            done += count * UNIT_SIZE

    def _complain(self, queue: ConsumeQueue, what: str, offset: int) -> None:
        self._log.warn("topic {topic}, queue {queue}: " + what, topic=queue.topic, queue=queue.queue_id, offset=offset)

    def _fill(self, queue: ConsumeQueue, end: int, physical: int) -> None:
        """Put units without a message up to a logical offset; they sort as if they led to C{physical}."""
        filler = _pack(physical, PREFILL.size, 0)
        while queue.visible < end:
            count = min(end - queue.visible, _FLUSH_UNITS)
            queue.reserve(queue.visible + count)
            queue.write(filler * count, count)
            queue.next_offset = queue.visible

    # -- making anew -------------------------------------------------------------------------------------------

    def make_anew(self, messages: Iterable[tuple[StoredMessage, int]], end: int) -> None:
        """
        Make the wanted queues from all of the log.

        @param messages: the log's records, from the oldest on, each with the bytes of damage before it.
        @param end: physical offset of the log's end.
        """
        for queue in list(self._queues):
            if self.everything or queue.key in self.wanted:
                self._queues.discard_files(queue)
        for key, paths in self._layout.broken.items():
            for path in paths:
                self._files.remove(path)
            self._queues.create(*key)
        sequences: dict[QueueKey, UnitSequence] = {}
        for message, damaged in messages:
            made = self._unit_of(message)
            if made is None or not (self.everything or made[0] in self.wanted):
                continue
            key, offset, unit = made
            sequence = sequences.get(key)
            if sequence is None:
                sequence = sequences[key] = UnitSequence()
            sequence.add(offset, unit, damaged)
            if sequence.size >= _FLUSH_UNITS * UNIT_SIZE:
                self._take(key, sequence, False, True)
        for key, sequence in sequences.items():
            self._take(key, sequence, True, True)
        if self._table is not None and self._keeps_offsets:
            for entry in self._table.queues:
                key = (entry.topic, entry.queue_id)
                if (key in self.wanted or self.everything) and key not in self._begun_again and entry.next_offset:
                    self._keep_offsets(key, entry.next_offset, end)

    def _keep_offsets(self, key: QueueKey, next_offset: int, end: int) -> None:
        """Continue after the offsets that were given out before, so that none is given out again (D11)."""
        queue = self._queues.by_key.get(key) or self._queues.create(*key)
        if queue.visible >= next_offset:
            return
        if queue.files.files:
            self._fill(queue, next_offset, end)
        else:
            queue.begin_at(next_offset)

    # -- the end -----------------------------------------------------------------------------------------------

    def finish(self, minimum: int) -> None:
        """Zero what lies behind the ends of queues, find their first readable units, log what was left out."""
        if self._impossible:
            physical, (topic, queue_id) = min(self._impossible.items())
            self._log.warn(
                "{count} records name a queue that no topic has, and are left out; the first one, at {physical}, names"
                " queue {queue} of topic {topic}",
                count=len(self._impossible) if len(self._impossible) < _TOLD else f"{_TOLD} or more",
                physical=physical,
                queue=queue_id,
                topic=topic,
            )
        for queue in list(self._queues):
            if not queue.files.files:
                del self._queues.by_key[queue.key]
                continue
            if queue.key in self._trusted:
                continue
            unit = queue.unit(queue.visible)
            if (unit is not None and any(unit)) or queue.key in self._littered:
                self._changing()
                queue.cut(queue.visible)
            queue.minimum = self._first_readable(queue, minimum)

    def _first_readable(self, queue: ConsumeQueue, minimum: int) -> int:
        first = first_kept(queue.unit, queue.files.begin // UNIT_SIZE, queue.visible, minimum)
        return behind_fillers(queue.units, first, queue.visible)

    def _is_unused(self, queue: ConsumeQueue) -> bool:
        """Tell whether a queue has files, and no unit in them."""
        return queue.visible * UNIT_SIZE == queue.files.begin
