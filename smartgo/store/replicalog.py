"""
A slave's log: bytes as the master sends them, cut anywhere, become records and units.

The bytes are copied into the log at once. A record is checked by the rules of recovery (reliability S7) when its last
byte is there, and only then it counts: the log's end may lie inside a record, C{CommitLog.whole} does not. Nor does it
lie inside a batch, where the master told from where on it marks batches (docs/spec/reliability#D12): the records of a
batch count together, so that no half batch is in a queue, nor in the log of a slave that takes its master's place.

What turns out to be no record is taken back, and zeroed; unless the master's log is known to be damaged there: then its
bytes are kept as they are, and are a damaged region here, too (docs/spec/reliability#S8).

Queue offsets are the master's: a unit goes to the place that its record names. So a queue without a message may begin
in the middle, as in RocketMQ (C{ConsumeQueue.fillPreBlank}), where the log does. One that begins again at 0 tells that
its topic was deleted at the master; what the topic had here is dropped, but for queues that may be of the topic that
came after it. Else, as nothing protects that number, what L{smartgo.store.queues.unitruns} says holds here too: one
record that is out of step costs one message, two or more that count on from further ahead are believed, and messages
without units stand in for what is between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from twisted.logger import Logger

from smartgo.errors import BadRecord, OutOfPlace, ServiceNotAvailable
from smartgo.schema.consumequeue import unit_struct
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TagCodes
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    MESSAGE_MAGICS,
    SIZE_LIMIT,
    check,
    start_struct,
)
from smartgo.schema.topics import QUEUE_LIMIT
from smartgo.store.commitlog import CommitLog
from smartgo.store.integrity import LogIntegrity
from smartgo.store.queues.file import ConsumeQueue, ConsumeQueues, QueueKey
from smartgo.store.queues.unitruns import HIGHEST, LONGEST_GAP
from smartgo.store.recordbatch import CONTINUES

_start = start_struct.unpack_from
_pack = unit_struct.pack


class OutOfStepRecord(NamedTuple):
    """A record that did not continue its queue; the next record of the queue decides whether it counts."""

    offset: int
    physical: int
    size: int
    code: int
    stored_ms: int


class ReplicaLog:
    """Appends the bytes that a master sends to a slave's log."""

    _log = Logger()

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        integrity: LogIntegrity,
        begin: Callable[[int], None],
        retreat: Callable[[int], None],
        drop: Callable[[str, int, Collection[QueueKey]], None],
        marked_from: Callable[[], int],
    ) -> None:
        """
        @param integrity: knows, and is told, what is damaged.
        @param begin: lets an empty log begin at a physical offset.
        @param retreat: takes back what lies behind a physical offset.
        @param drop: forgets a topic whose records below a physical offset were deleted, but for some queues.
        @param marked_from: returns the physical offset from which on the records of batches are marked.
        """
        self._commitlog = log
        self._queues = queues
        self._integrity = integrity
        self._expected = (0, 0)  # damage of the master's log: where it begins here, and where it ends
        self._begin = begin
        self._retreat = retreat
        self._drop = drop
        self._marked_from = marked_from
        self._held: list[StoredMessage] = []  # records of a batch whose rest is to come, without their bodies
        self._tags = TagCodes()
        self._odd: dict[QueueKey, OutOfStepRecord] = {}
        self._warned: set[QueueKey] = set()
        self._impossible = False  # a record of a queue that cannot be was told of
        self._begun: dict[QueueKey, int] = {}  # queues that began here, at 0, to where their first record lies

    def append(self, offset: int, data: bytes | memoryview) -> None:
        """
        See L{IReplicatedLog.append_raw<smartgo.store.replicatedlog.IReplicatedLog.append_raw>}. The caller ends the
        run.

        @raise OutOfPlace: the bytes do not belong there.
        @raise BadRecord: they are no records; those before are in.
        @raise ServiceNotAvailable: no room; what there was room for is in.
        """
        log = self._commitlog
        if offset != log.end:
            if log.end != log.minimum or offset < log.end:
                raise OutOfPlace(f"bytes of physical offset {offset} for a log that ends at {log.end}")
            if offset % log.files.file_size:
                raise OutOfPlace(f"no file of {log.files.file_size} B begins at physical offset {offset}")
            self._begin(offset)
        left = memoryview(data)
        while left:
            left = left[log.append_bytes(left) :]
            self.take()

    def expect_damage(self, offset: int, end: int) -> None:
        """See L{IReplicatedLog.expect_damage<smartgo.store.replicatedlog.IReplicatedLog.expect_damage>}."""
        self._expected = offset, end

    def stop(self) -> None:
        """Truncate a record that is not whole: the master sends it again after the next start."""
        self._held.clear()
        if self._commitlog.torn:
            self._retreat(self._commitlog.whole)

    # -- records -----------------------------------------------------------------------------------------------

    def retake(self) -> None:
        """Check the records behind C{CommitLog.whole}, which was set back, and stage their units."""
        self._held.clear()
        self.take()

    def take(self) -> None:
        """Check the records that are whole now, and stage their units."""
        while self._take():
            pass  # there was damage, which is behind us

    def _take(self) -> bool:
        """Take records up to damage that is known, and that; return whether there was any."""
        log = self._commitlog
        passed = False
        held = self._held
        marked_from = self._marked_from()
        whole = log.whole if not held else held[-1].physical_offset + held[-1].size
        view, base, end = log.window(whole)
        file_end = base + len(view)
        last = file_end - BLANK_SIZE  # no record ends behind that
        try:
            while end - whole >= BLANK_SIZE:
                at = whole - base
                size, magic = _start(view, at)
                if magic not in MESSAGE_MAGICS:
                    if magic not in BLANK_MAGICS:
                        raise BadRecord(f"magic {magic & 0xFFFFFFFF:08x} at {whole} is not a record's")
                    if size != file_end - whole:
                        raise BadRecord(f"blank of {size} B at {whole}, where {file_end - whole} B are left")
                    self._enter_held()
                    if end == file_end:
                        whole = end
                    break
                if not BLANK_SIZE < size <= SIZE_LIMIT or size > last - whole:
                    raise BadRecord(f"size of {size} B at {whole}, {file_end - whole} B before the end of the file")
                if size > end - whole:
                    break
                message = check(view, at, whole)
                if whole >= marked_from and message.properties.endswith(CONTINUES):
                    held.append(message._replace(body=b""))
                else:
                    if held:
                        self._enter_held()
                    self._enter(message)
                whole += size
        except BadRecord:
            after = self._damage_end(whole, file_end)
            if after <= whole:
                self._retreat_from(whole)
                raise
            if after <= end:
                self._enter_or_retreat(whole)
                self._integrity.adopt(whole, after)
                whole = after
                passed = True
        except ServiceNotAvailable:
            self._retreat_from(whole)
            raise
        log.torn = log.end - (held[0].physical_offset if held else whole)
        return passed

    def _enter(self, message: StoredMessage) -> None:
        """Stage the unit of a record that counts. @raise ServiceNotAvailable: there is no room for it."""
        if message.queue_id >= QUEUE_LIMIT:
            self._log_impossible(message)
        elif not message.sys_flag & PREPARED:
            key = (message.topic, message.queue_id)
            queue = self._queues.by_key.get(key)
            odd = self._odd
            if queue is None:
                queue = self._queues.create(*key)
                odd.pop(key, None)  # one that was deleted had it
            number = message.queue_offset
            if number != queue.next_offset or (odd and key in odd):
                self._out_of_step(queue, message)
            else:
                queue.claim(1)
                physical = message.physical_offset
                if not number:
                    self._begun[key] = physical
                code = self._tags.of_stored(message.properties)
                queue.stage(number, _pack(physical, message.size, code), (code,), message.stored_ms)
        self._commitlog.stored_ms = message.stored_ms

    def _enter_held(self) -> None:
        """Stage the units of the records that were held. @raise ServiceNotAvailable: there is no room for the first."""
        held = self._held
        while held:
            self._enter(held[0])
            del held[0]

    def _enter_or_retreat(self, offset: int) -> None:
        """Stage the units of the records that were held; take back what there is no room for, up to C{offset}."""
        try:
            self._enter_held()
        except ServiceNotAvailable:
            self._retreat_from(offset)
            raise

    def _retreat_from(self, offset: int) -> None:
        """Take back what lies behind a physical offset, and the part of a batch before it that does not count yet."""
        held = self._held
        self._retreat(held[0].physical_offset if held else offset)
        held.clear()

    def _damage_end(self, offset: int, file_end: int) -> int:
        """Return where the damage ends that is known to begin at an offset, or to lie there; C{offset} for none."""
        begin, end = self._expected
        if begin == offset:
            return min(end, file_end)
        return max([offset, *(one.end for one in self._integrity.damage.between(offset, offset + 1))])

    # -- what is out of step -----------------------------------------------------------------------------------

    def _out_of_step(self, queue: ConsumeQueue, message: StoredMessage) -> None:
        """Decide about a record that does not continue its queue, or that follows one that did not."""
        code = self._tags.of_stored(message.properties)
        one = OutOfStepRecord(message.queue_offset, message.physical_offset, message.size, code, message.stored_ms)
        held = self._odd.get(queue.key)
        odd: OutOfStepRecord | None = None
        end = queue.next_offset
        if not 0 <= one.offset < HIGHEST:
            self._leave_out(queue, one)
            return
        if queue.minimum == end and (one.offset or not end):
            self._begin_queue(queue, one.offset)
            self._add(queue, one)
        elif one.offset == 0:
            self._forget_topic(queue, one.physical)
            self._add(self._queues.create(*queue.key), one)
            self._begun[queue.key] = one.physical
        elif one.offset == end or (held is not None and one.offset == end + 1):
            self._add(queue, one)
        elif held is not None and held.offset + 1 == one.offset and end < held.offset <= end + LONGEST_GAP:
            self._log.warn(
                "topic {topic}, queue {queue}: the master has no messages from offset {end} to {offset}",
                topic=queue.topic,
                queue=queue.queue_id,
                end=end,
                offset=held.offset,
            )
            self._add(queue, held, one)
            held = None
        elif held is None and end < one.offset <= end + self._most_lost(queue, one.physical):
            self._add(queue, one)
        else:
            odd = one
        if held is not None:
            self._leave_out(queue, held)
        if odd is not None:
            self._odd[queue.key] = odd
        else:
            self._odd.pop(queue.key, None)

    def _most_lost(self, queue: ConsumeQueue, physical: int) -> int:
        """Return how many messages of a queue damage may have held between its last one and a physical offset."""
        last = queue.unit(queue.visible - 1) if queue.visible > queue.minimum else None
        return self._integrity.damage.most_records(0 if last is None else last.commitlog_offset, physical)

    def _begin_queue(self, queue: ConsumeQueue, offset: int) -> None:
        """
        Begin a queue without messages at an offset other than 0.

        It may have files all the same: after a power failure their names may be there, and their units not.
        """
        self._queues.discard_files(queue)
        try:
            queue.begin_at(offset)
        except OSError as error:
            raise queue.no_room(error) from error

    def _forget_topic(self, queue: ConsumeQueue, end: int) -> None:
        """
        Drop what a topic had that was deleted at the master some time before physical offset C{end}.

        That was after the last message of C{queue}. A queue that began later than that may be of the topic of the same
        name that came then: it stays.
        """
        last = queue.unit(queue.visible - 1) if queue.visible else None
        known = self._begun.get(queue.key, 0) if last is None else last.commitlog_offset
        kept = self.begun_since(queue.topic, known + 1)
        kept.pop(queue.key, None)
        self._drop(queue.topic, min(end, *kept.values()) if kept else end, kept)

    def begun_since(self, topic: str, since: int) -> dict[QueueKey, int]:
        """
        Return the queues of a topic that began at 0 at physical offset C{since} or behind, and where, readable or not.

        All others are of the topic of that name that there was before: as a queue that begins again is made anew here,
        none holds messages of both.
        """
        begins = ((one.key, self._begin_of(one)) for one in self._queues if one.topic == topic)
        return {key: begin for key, begin in begins if begin >= since}

    def _begin_of(self, queue: ConsumeQueue) -> int:
        """Return where the first message of a queue lies that begins at 0; -1 for another queue."""
        if queue.minimum:
            return -1
        if queue.key in self._begun:
            return self._begun[queue.key]
        first = queue.unit(0)
        return -1 if first is None else first.commitlog_offset

    def _add(self, queue: ConsumeQueue, *records: OutOfStepRecord) -> None:
        """
        Add the units of adjacent records.

        Where messages are missing before them, units without one stand in, which lead to the first of these records.
        """
        first = records[0]
        missing = first.offset - queue.next_offset
        queue.claim(missing + len(records))
        if missing:
            queue.stage_fillers(missing, first.physical, first.stored_ms)
        for one in records:
            queue.stage(one.offset, _pack(one.physical, one.size, one.code), (one.code,), one.stored_ms)

    def _log_impossible(self, message: StoredMessage) -> None:
        """Warn, once, of a record that is left out as no topic has its queue."""
        if not self._impossible:
            self._impossible = True
            self._log.warn(
                "the record at {physical} names queue {queue} of topic {topic}, which no topic has: it is left out, as"
                " others like it will be",
                physical=message.physical_offset,
                queue=message.queue_id,
                topic=message.topic,
            )

    def _leave_out(self, queue: ConsumeQueue, one: OutOfStepRecord) -> None:
        if queue.key not in self._warned:
            self._warned.add(queue.key)
            self._log.warn(
                "topic {topic}, queue {queue}: the message at {physical} has a wrong offset, {offset}, and is left out",
                physical=one.physical,
                topic=queue.topic,
                queue=queue.queue_id,
                offset=one.offset,
            )
