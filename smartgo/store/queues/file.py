"""
The units of one queue, in its files, and the table of all queues.

A unit is written once, behind the last one, and can always be made again from the CommitLog (reliability S10). Blocks
are reserved in steps before the first byte is written there: a mapped write into a hole of a full disk would end the
process (S1). A queue whose first unit is not number 0 is filled up from the start of its first file with
L{PREFILL<smartgo.schema.consumequeue.PREFILL>}. Source: C{store/ConsumeQueue.java}; docs/spec/store#queue-unit.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from zope.interface import implementer

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadName, MessageIllegal, ServiceNotAvailable
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit, unit_struct
from smartgo.schema.delay import DelayLevels
from smartgo.schema.record import HEAD_SIZE
from smartgo.schema.topics import LMQ_PREFIX, QUEUE_LIMIT, SCHEDULE_TOPIC, check_topic
from smartgo.store.filequeue import FileQueue
from smartgo.store.interfaces import IQueue
from smartgo.store.mappedfile import MappedFile, OpenMappings
from smartgo.store.tails import QueueTail

_STEP: Final = 64 * 1024
_TAIL_LENGTHS: Final = 3  # the topic's and the properties' length fields
_PREFILL: Final = PREFILL.pack()

QueueKey = tuple[str, int]


@implementer(IQueue)
class ConsumeQueue(QueueTail):
    """
    One queue of one topic; see L{IQueue}.

    C{minimum <= visible <= next_offset <= reserved}, all logical offsets.

    @ivar minimum: of the first unit that can be read.
    @ivar visible: after the last unit that can be read.
        C{next_offset} is above C{visible} while units wait for the end of a run or for a flush.
    @ivar own_from: from here on this process wrote the units itself.
    @ivar shared: units may lead to records of another queue (light queues), so these cannot be checked.
    """

    __slots__ = (
        "_dirty", "_mappings", "_tail", "directory", "files", "key", "minimum", "own_from", "shared", "topic",
        "visible",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: FileQueue,
        mappings: OpenMappings,
        dirty: dict[MappedFile, None],
        staged: list[ConsumeQueue],
        delay_levels: DelayLevels,
    ) -> None:
        """
        @param dirty: every file written to is entered here; whoever syncs it removes it.
        @param staged: the queue enters itself here when it has units to be written at the end of the run.
        """
        super().__init__()
        self.topic = topic
        self.queue_id = queue_id
        self.key = (topic, queue_id)
        self.files = files
        self.directory = files.directory
        self._mappings = mappings
        self._dirty = dirty
        self.staged = staged
        self.minimum = self.visible = 0
        raw = topic.encode()
        self.topic_part = bytes([len(raw)]) + raw
        self.overhead = HEAD_SIZE + _TAIL_LENGTHS + len(raw)
        self.delay_ms = delay_levels.delay_ms(queue_id + 1) if topic == SCHEDULE_TOPIC else None
        self.shared = topic.startswith(LMQ_PREFIX)
        self._tail: MappedFile | None = None  # the file last written to
        self.own_from = sys.maxsize

    # -- appending ---------------------------------------------------------------------------------------------

    def claim(self, count: int) -> int:
        """See L{IQueue.claim}."""
        first = self.next_offset
        if first + count > self.reserved:
            self.extend(count)
        return first

    def stage(self, first: int, units: bytes, codes: Sequence[int], stored_ms: int) -> None:
        """See L{IQueue.stage}. The units of a queue of SCHEDULE_TOPIC get the delivery time in place of the tag's."""
        if self.delay_ms is not None:
            units, codes = self._with_delivery_time(units, stored_ms + self.delay_ms)
        if not self.pending:
            self.staged.append(self)
        self.pending.append(units)
        self.codes += codes
        self.next_offset = first + len(codes)
        self.stored_ms = stored_ms

    def stage_fillers(self, count: int, physical: int, stored_ms: int) -> None:
        """Stage units without a message; they sort as if they led to C{physical}. L{claim} made room for them."""
        if not self.pending:
            self.staged.append(self)
        self.pending.append(Unit(physical, PREFILL.size, 0).pack() * count)
        self.codes.extend([0] * count)
        self.next_offset += count
        self.stored_ms = stored_ms

    def _with_delivery_time(self, units: bytes, due_ms: int) -> tuple[bytes, Sequence[int]]:
        changed = [Unit(offset, size, due_ms).pack() for offset, size, _ in unit_struct.iter_unpack(units)]
        return b"".join(changed), [due_ms] * len(changed)

    # -- writing -----------------------------------------------------------------------------------------------

    def begin_at(self, offset: int) -> None:
        """
        Let a queue without files begin at a logical offset: fill its first file up to there.

        @raise OSError: no room.
        """
        base = offset * UNIT_SIZE - offset * UNIT_SIZE % self.files.file_size
        self.minimum = self.visible = self.next_offset = self.reserved = base // UNIT_SIZE
        if offset > self.next_offset:
            count = offset - self.next_offset
            self.reserve(offset)
            self.write(_PREFILL * count, count)
            self.next_offset = offset
        self.minimum = offset

    def extend(self, count: int) -> None:
        """
        Make room for C{count} more units.

        @raise ServiceNotAvailable: the disk has none; nothing changed.
        """
        try:
            self.reserve(self.next_offset + count)
        except OSError as error:
            raise self.no_room(error) from error

    def no_room(self, error: OSError) -> ServiceNotAvailable:
        """Return what to raise where the disk has no room for units."""
        return ServiceNotAvailable(
            f"no room for a queue file of topic {self.topic}, queue {self.queue_id}: {error.strerror}"
        )

    def reserve(self, offset: int) -> None:
        """Give blocks to all units below a logical offset. @raise OSError: no room."""
        size = self.files.file_size
        while self.reserved < offset:
            position = self.reserved * UNIT_SIZE
            file = self.files.find(position)
            if file is None:
                file = self.files.create_sparse(position - position % size)
            at = position - file.base
            end = at - at % _STEP + _STEP
            if end - at < UNIT_SIZE:  # this unit reaches over the step's end
                end += _STEP
            end = min(end, size)
            try:
                self._mappings.mapping(file).reserve(at, end)
            except OSError:
                if at == 0:
                    self._discard_newest()
                raise
            self.reserved = (file.base + end) // UNIT_SIZE

    def _discard_newest(self) -> None:
        self._tail = None
        file = self.files.forget_newest()
        self._mappings.close(file)
        self.files.remove(file)

    def write(self, units: bytes, count: int) -> None:
        """Write C{count} packed units behind the last visible one; L{extend} made room for them."""
        position = self.visible * UNIT_SIZE
        tail = self._tail
        if tail is not None and tail.view is not None and tail.base <= position and position + len(units) <= tail.end:
            at = position - tail.base
            tail.view[at : at + len(units)] = units
            self._mappings.touch(tail)
            self._dirty[tail] = None
            self.visible += count
        else:
            self._write(units, count)

    def _write(self, units: bytes, count: int) -> None:
        """Write units that may go into more than one file; the first ones of this process always come here."""
        self.own_from = min(self.own_from, self.visible)
        position = self.visible * UNIT_SIZE
        done = 0
        while done < len(units):
            file = self.files.find(position)
            if file is None:
                raise ValueError(f"no room was made for unit {position // UNIT_SIZE} of {self.directory}")
            at = position - file.base
            part = min(len(units) - done, file.size - at)
            view = self._mappings.view(file)
            view[at : at + part] = units[done : done + part] if part < len(units) else units
            self._dirty[file] = None
            self._tail = file
            done += part
            position += part
        self.visible += count

    def find_written(self, count: int) -> None:
        """
        Make C{count} units visible that a killed process wrote behind the last one, all into one file.

        They may be in the page cache alone, and so may the name of a file that begins with them.
        """
        position = self.visible * UNIT_SIZE
        file = self.files.find(position)
        if file is not None:
            file.fresh = file.fresh or file.base == position
            self._dirty[file] = None
        self.visible += count
        self.next_offset = self.reserved = self.visible

    def forget(self) -> None:
        """Reset the offsets of the queue: all its files are gone."""
        self._tail = None
        self.own_from = sys.maxsize
        self.minimum = self.visible = self.next_offset = self.reserved = 0

    def expired(self) -> MappedFile | None:
        """Return the oldest file if all its units lie below C{minimum} and nobody works with it; never the newest."""
        files = self.files.files
        if len(files) < 2 or files[0].end > self.minimum * UNIT_SIZE or files[0].pins:
            return None
        return files[0]

    def cut(self, offset: int) -> None:
        """Zero the units from a logical offset on; their files stay. Not while any unit is pending."""
        zeros = bytes(_STEP)
        for file in self.files.files:
            if file.end <= offset * UNIT_SIZE:
                continue
            at = max(0, offset * UNIT_SIZE - file.base)
            view = self._mappings.view(file)
            while at < file.size:
                part = min(_STEP, file.size - at)
                if view[at : at + part] == zeros[:part]:
                    break  # written from the front, so nothing follows
                self._mappings.mapping(file).reserve(at, at + part)
                view[at : at + part] = zeros[:part]
                self._dirty[file] = None
                at += part
        self.visible = self.next_offset = offset
        self.reserved = min(self.reserved, offset)
        self.minimum = min(self.minimum, offset)

    # -- reading -----------------------------------------------------------------------------------------------

    def view(self, offset: int, count: int) -> memoryview | None:
        """
        Return the packed units from a logical offset on, at most C{count}, and not past the end of a file.

        C{None} where no file holds that offset. The caller keeps within C{visible}.
        """
        position = offset * UNIT_SIZE
        file = self.files.find(position)
        if file is None:
            return None
        at = position - file.base
        return self._mappings.view(file)[at : at + count * UNIT_SIZE]

    def unit(self, offset: int) -> Unit | None:
        """Return the unit at a logical offset, C{None} where no file holds it."""
        view = self.view(offset, 1)
        return None if view is None else Unit.unpack(view)

    def units(self, offset: int, count: int) -> list[Unit]:
        """Return at most C{count} visible units from a logical offset on."""
        found: list[Unit] = []
        offset = max(offset, self.minimum)
        end = min(offset + count, self.visible)
        while offset < end:
            view = self.view(offset, end - offset)
            if view is None:
                break
            found += map(Unit._make, unit_struct.iter_unpack(view))
            offset += len(view) // UNIT_SIZE
        return found


class ConsumeQueues:
    """
    All queues, by topic and queue id. A queue has no file before its first message (reliability L19).

    @ivar by_key: the table itself, for the append's own look-up.
    @ivar dirty: files written to since they were last synced.
    @ivar staged: the queues that have units to be written at the end of the run, in the order of the first of them.
    """

    def __init__(
        self, files: IFiles, directory: str, file_size: int, mappings: OpenMappings, delay_levels: DelayLevels
    ) -> None:
        """
        @param directory: C{consumequeue} below the root.
        @param file_size: length of a queue file; rounded up to whole units.
        """
        self._files = files
        self._directory = directory
        self.file_size = round_up(file_size)
        self._mappings = mappings
        self._delay_levels = delay_levels
        self.by_key: dict[QueueKey, ConsumeQueue] = {}
        self.dirty: dict[MappedFile, None] = {}
        self.staged: list[ConsumeQueue] = []

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self.by_key.values())

    def create(self, topic: str, queue_id: int, bases: Iterable[int] = ()) -> ConsumeQueue:
        """
        Enter a queue into the table.

        @param bases: of the files it has already.
        @raise MessageIllegal: the name or the number cannot be that of a queue.
        """
        try:
            check_topic(topic)
        except BadName as error:
            raise MessageIllegal(str(error)) from None
        if not 0 <= queue_id < QUEUE_LIMIT:
            raise MessageIllegal(f"queue id {queue_id} of topic {topic} is no queue's")
        files = FileQueue(self._files, self.path(topic, queue_id), self.file_size, tuple(bases), scattered=True)
        queue = ConsumeQueue(topic, queue_id, files, self._mappings, self.dirty, self.staged, self._delay_levels)
        self.by_key[topic, queue_id] = queue
        return queue

    def path(self, topic: str, queue_id: int) -> str:
        """Return the directory of a queue."""
        return posixpath.join(self._directory, topic, str(queue_id))

    def discard_files(self, queue: ConsumeQueue) -> None:
        """Remove the files of a queue and make it empty. For rebuilding."""
        while queue.files.files:
            file = queue.files.forget_newest()
            self.dirty.pop(file, None)
            self._mappings.close(file)
            queue.files.remove(file)
        queue.forget()


def round_up(file_size: int) -> int:
    """Return a queue file's length that holds whole units."""
    return -(-file_size // UNIT_SIZE) * UNIT_SIZE
