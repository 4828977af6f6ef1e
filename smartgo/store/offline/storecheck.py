"""
Checks a store directory, read-only: records and their CRCs, consume queues against the CommitLog, the index, tables.

All functions block; they run in a thread of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

from smartgo.env.interfaces import IFiles
from smartgo.errors import StoreError
from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.schema.message import PREPARED, StoredMessage
from smartgo.schema.properties import TAGS, find, tag_code
from smartgo.schema.topics import LMQ_PREFIX, SCHEDULE_TOPIC
from smartgo.store.damagefill import is_fill
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import DAMAGE, NOTE, REPAIR, StoreCheckResult, queue_name
from smartgo.store.offline.indexcheck import IndexCheck
from smartgo.store.offline.indexcoverage import IndexCoverage
from smartgo.store.offline.logwalk import DamageKind, LogDamage, LogWalk
from smartgo.store.offline.offsetsteps import OffsetSteps
from smartgo.store.offline.tablecheck import check_checkpoints, check_tables
from smartgo.store.offline.units import RecordReader, UnitReader
from smartgo.store.queues.file import QueueKey
from smartgo.store.recovery.logscan import written_end
from smartgo.store.settings import StoreSettings


class StoreCheck:
    """
    One check of a store.

    @ivar summary: the result so far.
    @ivar damaged_ranges: of the log, in order of their offsets; those that are listed already too.
    @ivar wrong_queues: queues with a finding that is not the work of a mere unclean stop.
    @ivar cancelled: set from another thread to make L{run} stop soon.
    """

    def __init__(
        self,
        files: IFiles,
        root: str,
        settings: StoreSettings,
        told: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> None:
        """
        @param told: called often with the phase, how much is done, and the total.
        """
        self._files = files
        self._root = root
        self._settings = settings
        self._told = told
        self.summary = StoreCheckResult(store=root)
        self.damaged_ranges: list[LogDamage] = []
        self.wrong_queues: set[QueueKey] = set()
        self.cancelled = False
        self._strangers: set[QueueKey] = set()
        self._matched: Counter[QueueKey] = Counter()  # units that lead to their records
        self._newest_ms = 0

    def follow(self, told: Callable[[str, int, int], None]) -> None:
        """Call C{told} often with the phase, how much is done, and the total."""
        self._told = told

    def run(self) -> StoreCheckResult:
        """Check the store; return the result. @raise StoreError: the check was cancelled, or there is no store."""
        summary = self.summary
        store = self._store = OfflineStore(self._files, self._root, self._settings)
        self._units = UnitReader(store, self._check_cancelled)
        self._reader = RecordReader(store)
        summary.clean = store.clean
        self._begin()
        coverage = IndexCoverage(store)
        self._log(coverage)
        self._queues()
        entries = IndexCheck(store, summary, self._told, self._check_cancelled)
        entries.run()
        coverage.conclude(summary, entries.astray)
        check_checkpoints(store, summary, self._newest_ms)
        check_tables(store, summary)
        return summary

    def _check_cancelled(self) -> None:
        if self.cancelled:
            raise StoreError("interrupted")

    def _begin(self) -> None:
        store, summary = self._store, self.summary
        if store.problem:
            summary.find(DAMAGE, self._root, store.problem)
        if not summary.clean and store.is_backup:
            summary.find(
                NOTE, self._root, "a backup of a running store: a broker that starts on it recovers it, as after a kill"
            )
        elif not summary.clean:
            summary.find(
                REPAIR,
                self._root,
                "not closed cleanly, or in use by a broker; the last messages may be missing in their consume queues",
            )
        for path in store.aside:
            summary.find(REPAIR, path, "incomplete file; nothing in it was flushed, and the next start moves it aside")
        for key, paths in store.broken.items():
            self.wrong_queues.add(key)
            summary.find(REPAIR, paths[0], f"files of {queue_name(key)} are short or missing")
        summary.log_files = sum(len(run.files) for run in store.runs)
        summary.queues = len(store.queues)

    # -- the log -----------------------------------------------------------------------------------------------

    def _log(self, coverage: IndexCoverage) -> None:
        """Read every record, and compare it with its consume queue unit and its index entries."""
        store, summary = self._store, self.summary
        summary.begin = summary.end = store.begin
        total = self._written_end() - store.begin
        self._told("log", 0, total)
        steps = OffsetSteps()
        replaced = 0
        walk = LogWalk(store, self._check_cancelled)
        for one in walk:
            if isinstance(one, LogDamage):
                self.damaged_ranges.append(one)
                self._judge(one)
                continue
            summary.records += 1
            if not summary.records & 0xFFF:
                self._told("log", walk.position - store.begin, max(total, walk.position - store.begin))
            replaced += is_fill(one)
            coverage.look(one)
            self._newest_ms = max(self._newest_ms, one.stored_ms)
            for message in steps.take(one) if self._has_unit(one) else ():
                self._look_up(message)
        summary.end = max(summary.end, walk.position)
        for message in steps.finish():
            self._look_up(message)
        self._find_misplaced(steps)
        if replaced:
            summary.find(NOTE, self._root, f"{replaced} of the records were put in place of damaged bytes by a repair")
        self._told("log", summary.end - store.begin, summary.end - store.begin)

    def _find_misplaced(self, steps: OffsetSteps) -> None:
        """Enter the records whose queue offset is damaged as damaged ranges."""
        for message in steps.misplaced:
            begin, end = message.physical_offset, message.physical_offset + message.size
            reason = f"its queue offset {message.queue_offset} is out of step"
            self.damaged_ranges.append(LogDamage(begin, end, DamageKind.MIDDLE, reason, message.stored_ms))
            key = (message.topic, message.queue_id)
            self.wrong_queues.add(key)
            self.summary.find(DAMAGE, self._store.place(begin), f"the record of {queue_name(key)}: {reason}")
        self.damaged_ranges.sort(key=lambda one: one.begin)

    def _written_end(self) -> int:
        """Return the physical offset where the written part of the log ends, by the last file that holds data."""
        for run in reversed(self._store.runs):
            for file in reversed(run.files):
                last = written_end(self._store.files, file.path, 0, file.size, self._check_cancelled)
                if last:
                    return file.base + last
        return self._store.begin

    def _judge(self, damage: LogDamage) -> None:
        """Say what damage of the log means."""
        store, summary = self._store, self.summary
        where, reason, size = store.place(damage.begin), damage.reason, damage.end - damage.begin
        if damage.kind is DamageKind.KNOWN:
            summary.find(DAMAGE, where, f"{size} B are damaged ({reason}); brokers know that, and skip them")
        elif damage.kind is DamageKind.MISSING:
            if not store.problem:
                summary.find(DAMAGE, where, f"the log from {damage.begin} to {damage.end} is missing")
        elif damage.kind is DamageKind.MIDDLE:
            summary.find(DAMAGE, where, f"invalid record ({reason}); the next valid one is {size} B further")
        elif damage.begin < store.flushed:
            summary.find(
                DAMAGE, where, f"invalid record ({reason}), although the log was flushed up to {store.flushed}"
            )
        elif not summary.clean:
            summary.find(
                REPAIR, where, f"the last record is incomplete ({reason}); it was never acknowledged as flushed"
            )
        elif store.own is not None or not reason.startswith("nothing"):
            summary.find(DAMAGE, where, f"invalid record ({reason}), and no valid one follows")

    # -- queues ------------------------------------------------------------------------------------------------

    def _has_unit(self, message: StoredMessage) -> bool:
        """Tell whether a record belongs into a queue."""
        return not message.sys_flag & PREPARED and message.physical_offset >= self._store.deleted.get(message.topic, 0)

    def _look_up(self, message: StoredMessage) -> None:
        """Compare a record with its unit."""
        store = self._store
        key = (message.topic, message.queue_id)
        bases = store.queues.get(key)
        if bases is None:
            if key not in self._strangers and key not in store.broken:
                self._strangers.add(key)
                self.summary.find(
                    NOTE,
                    queue_name(key),
                    "the log has messages of this queue, but the queue does not exist; was the topic deleted?",
                )
            return
        if message.queue_offset * UNIT_SIZE < bases[0]:
            return  # the queue starts later, or its older files were removed
        unit = self._units.unit(key, message.queue_offset)
        if unit is None or not unit.size:
            weight = DAMAGE if self.summary.clean else REPAIR
            self._find_queue(weight, key, f"message {message.queue_offset} is missing in the consume queue")
            return
        if (unit.commitlog_offset, unit.size) != (message.physical_offset, message.size):
            # The topic was deleted and created again, or a message that was stored again has the offset.
            later = unit.commitlog_offset > message.physical_offset
            other = self._reader.record(unit.commitlog_offset) if later else None
            if other is None or (other.topic, other.queue_id, other.queue_offset) != (*key, message.queue_offset):
                self._find_queue(
                    DAMAGE,
                    key,
                    f"unit {message.queue_offset} points to {unit.commitlog_offset}, but its message is at "
                    f"{message.physical_offset}",
                )
            return
        self._matched[key] += 1
        code = self._code(message)
        if code is not None and unit.tag_hash != code:
            self._find_queue(DAMAGE, key, f"unit {message.queue_offset} has tag code {unit.tag_hash}, not {code}")

    def _find_queue(self, weight: str, key: QueueKey, what: str) -> None:
        if weight != NOTE:
            self.wrong_queues.add(key)
        self.summary.find(weight, queue_name(key), what)

    def _code(self, message: StoredMessage) -> int | None:
        """Return the third field of a message's unit; C{None} if it is unknown."""
        if message.topic == SCHEDULE_TOPIC:
            return message.stored_ms + self._store.settings.delay_levels.delay_ms(message.queue_id + 1)
        return tag_code(find(message.properties, TAGS))

    def _queues(self) -> None:
        """Read every unit: each must point to its record, behind the previous one."""
        store, summary = self._store, self.summary
        done, total = 0, sum(len(bases) for bases in store.queues.values()) * store.queue_file_size
        for key, bases in store.queues.items():
            self._check_cancelled()
            before = -1
            leading = 0
            for number, unit in self._units.units(key):
                if not unit.size:
                    break
                summary.units += 1
                if unit.is_filler or key[0].startswith(LMQ_PREFIX):
                    continue
                if unit.commitlog_offset <= before:
                    self._find_queue(DAMAGE, key, f"unit {number} points back to {unit.commitlog_offset}")
                elif unit.commitlog_offset + unit.size > summary.end:
                    weight = DAMAGE if summary.clean else REPAIR
                    self._find_queue(weight, key, f"unit {number} points behind the end of the log")
                    break
                before = unit.commitlog_offset
                leading += self._wants_record(before)
            if leading > self._matched[key]:
                self._find_astray(key)
            done += len(bases) * store.queue_file_size
            self._told("queues", done, total)

    def _wants_record(self, offset: int) -> bool:
        """Tell whether a record must be at a physical offset: it was not removed, and no damage is told there."""
        place = bisect_right(self.damaged_ranges, offset, key=lambda one: one.begin) - 1
        return offset >= self._store.begin and not (place >= 0 and offset < self.damaged_ranges[place].end)

    def _find_astray(self, key: QueueKey) -> None:
        """Find the units of a queue that lead to no record, or to another one's."""
        for number, unit in self._units.units(key):
            if not unit.size:
                break
            offset = unit.commitlog_offset
            if unit.is_filler or offset + unit.size > self.summary.end or not self._wants_record(offset):
                continue
            message = self._reader.record(offset)
            if message is None or (message.topic, message.queue_id, message.queue_offset) != (*key, number):
                self._find_queue(DAMAGE, key, f"unit {number} points to {offset}, where its message is not")
