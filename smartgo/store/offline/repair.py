"""
Repairs a store directory: what is valid stays where it is, what is damaged is set apart, what is derived is made anew.

The order, after the directory was locked:

 1. Log files that are short get their length, missing ones are made; they hold a blank or damage then.
 2. Each damaged record is taken from another directory of the same log (a slave's, a backup) if that has a valid one
    there. Else its bytes go to C{quarantine/}, and something that readers go over takes their place
    (L{smartgo.store.damagefill}); behind the last valid record there are zeros.
 3. Queues and index files that are wrong are moved to C{quarantine/}. A checkpoint that claims nothing is written, with
    the offsets that every queue had given out (docs/spec/reliability#D11).
 4. Tables that cannot be read are replaced by their previous content.

The next start of a broker, or C{smartgo store repair} itself, makes the queues and the index anew from the log
(L{smartgo.store.recovery.recovery}). Nothing is deleted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from smartgo.env.interfaces import IClock, IFiles
from smartgo.schema import regions
from smartgo.schema.record import BLANK_SIZE, encode_blank
from smartgo.schema.recordscan import Scan, Stop, find_record
from smartgo.store.checkpoint import CheckpointFiles, CheckpointSlot, IndexEntry, QueueEntry, QueueTable, Timestamps
from smartgo.store.damagefill import fill
from smartgo.store.filequeue import file_name
from smartgo.store.index.recovery import UNKNOWN
from smartgo.store.mappedfile import MappedFile
from smartgo.store.offline.directory import OfflineStore, place_text
from smartgo.store.offline.findings import queue_name
from smartgo.store.offline.logwalk import DamageKind, LogDamage
from smartgo.store.offline.repairplan import LogPiece, RepairPlan, RepairStep
from smartgo.store.offline.storecheck import StoreCheck
from smartgo.store.offline.tablecheck import BACKUP, TABLES, table_fault, table_names
from smartgo.store.offline.units import RecordReader, UnitReader, used_end
from smartgo.store.settings import StoreSettings
from smartgo.store.timer.slotstorage import DIRECTORY as TIMERS

DIRECTORY: Final = "quarantine"
_COPY: Final = 4 << 20  # bytes that are copied at once
_NEVER: Final = 1 << 62


class StoreRepair:
    """
    One repair of one store. All methods block; the caller holds the lock while L{apply} runs.

    @ivar cancelled: set from another thread to make L{plan} stop soon.
    """

    def __init__(
        self,
        files: IFiles,
        root: str,
        settings: StoreSettings,
        donor: str | None = None,
    ) -> None:
        """
        @param donor: a directory of the same log: a slave's, its master's, or a backup.
        """
        self._root = root
        self._check = StoreCheck(files, root, settings)
        self._store = OfflineStore(files, root, settings)
        self._files = self._store.files
        elsewhere = msgspec.structs.replace(settings, commitlog_directory=None)  # that is this store's
        self._donor = None if donor is None else OfflineStore(files, donor, elsewhere)
        self._quarantine = posixpath.join(root, DIRECTORY)

    @property
    def cancelled(self) -> bool:
        """True once the repair was told to stop."""
        return self._check.cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._check.cancelled = value

    def follow(self, told: Callable[[str, int, int], None]) -> None:
        """Call C{told} often with the phase of the plan, how much is done, and the total."""
        self._check.follow(told)

    # -- the plan ----------------------------------------------------------------------------------------------

    def plan(self) -> RepairPlan:
        """Check the store, and return what is to be done; nothing is changed. @raise StoreError: it was cancelled."""
        summary = self._check.run()
        plan = RepairPlan()
        self._plan_files(plan)
        log_changes = bool(plan.grown or plan.made)
        for damage in self._check.damaged_ranges:
            log_changes = self._plan_range(plan, damage) or log_changes
        wrong = set(self._store.queues) | set(self._store.broken) if log_changes else self._check.wrong_queues
        plan.queues = sorted(wrong)
        if log_changes and len(wrong) > 1:
            words = f"all {len(wrong)} queues are made anew from the log"
            plan.steps.append(RepairStep("queue", self._store.queue_directory, words))
        else:
            plan.steps += [RepairStep("queue", queue_name(key), "made anew from the log") for key in plan.queues]
        places = {finding.where for finding in summary.findings}
        plan.index = bool(self._store.index_files) and (log_changes or bool(places & set(self._store.index_files)))
        if plan.index:
            plan.steps.append(RepairStep("index", self._store.index_directory, "made anew from the log"))
        timers = posixpath.join(self._root, TIMERS)
        plan.timers = log_changes and self._files.is_directory(timers)
        if plan.timers:
            plan.steps.append(RepairStep("timers", timers, "made anew from the log"))
        own = posixpath.join(self._root, "smartgo.checkpoint")
        if plan.queues or log_changes or plan.index or any(place.startswith(own) for place in places):
            plan.steps.append(RepairStep("checkpoint", own, "made anew: the next start reads all of the log"))
        self._plan_tables(plan)
        return plan

    def _plan_files(self, plan: RepairPlan) -> None:
        store = self._store
        last_end = None
        for run in store.runs:
            if last_end is not None:
                plan.made += range(last_end, run.begin, store.log_file_size)
            last_end = run.end
            for file in run.files:
                missing = file.size - self._files.size(file.path)
                if missing > 0:
                    plan.grown.append((file.path, missing))
                    plan.steps.append(RepairStep("log", file.path, f"the {missing} B that are missing are filled up"))
                elif missing < 0:
                    plan.steps.append(RepairStep("left", file.path, f"it is {-missing} B too long; put it in order"))
        for base in plan.made:
            path = posixpath.join(store.log_directory, file_name(base))
            plan.steps.append(RepairStep("log", path, "the file is missing; an empty one takes its place"))
        known = {posixpath.basename(file.path) for run in store.runs for file in run.files}
        for name in self._files.list(store.log_directory):
            if name not in known and name not in ("lost+found", "smartgo.spare") and store.problem:
                path = posixpath.join(store.log_directory, name)
                plan.steps.append(RepairStep("left", path, "no CommitLog file; take it away"))

    def _plan_range(self, plan: RepairPlan, damage: LogDamage) -> bool:
        """Plan the repair of a damaged range; return whether the log changes."""
        if damage.kind is DamageKind.MISSING:
            return False  # the files are made
        changes = False
        for piece in self._pieces(damage):
            where = place_text(piece.path, piece.base, piece.begin)
            size = piece.end - piece.begin
            if piece.donated:
                words = f"{size} B ({piece.reason}) are taken from {self._donor.root if self._donor else ''}"
            elif piece.is_tail:
                words = f"{size} B behind the last valid record ({piece.reason}) are saved and cleared"
            elif fill(piece.begin, size, piece.to_file_end, piece.reason, 1) is None:
                plan.steps.append(RepairStep("left", where, f"{size} B ({piece.reason}) are too few to be replaced"))
                continue
            else:
                lacking = "" if self._donor is None else f": {self._donor.root} has no valid record there either"
                words = f"{size} B ({piece.reason}) are saved and passed over{lacking}"
            changes = True
            plan.pieces.append(piece)
            plan.steps.append(RepairStep("log", where, words))
        return changes

    def _pieces(self, damage: LogDamage) -> Iterator[LogPiece]:
        """Yield a damaged range by files."""
        run = self._store.run_at(damage.begin)
        if run is None:
            return
        for file in run.between(damage.begin, damage.end):
            begin, end = max(damage.begin, file.base), min(damage.end, file.end)
            piece = LogPiece(
                path=file.path,
                base=file.base,
                begin=begin,
                end=end,
                to_file_end=end == file.end,
                is_tail=damage.kind is DamageKind.TAIL,
                reason=damage.reason,
                stored_ms=damage.stored_ms,
            )
            yield from self._divided(piece, file)

    def _divided(self, piece: LogPiece, file: MappedFile) -> Iterator[LogPiece]:
        """Yield a damaged range in parts that the other directory has valid records for, and parts that it has not."""
        data = self._read_donor(piece, file)
        at, size = 0, piece.end - piece.begin
        while at < size:
            end = _valid_end(data, at, piece)
            donated = end > at
            if not donated:
                found = find_record(data, at + 1, piece.begin)
                end = size if found is None else found
            yield msgspec.structs.replace(
                piece,
                begin=piece.begin + at,
                end=piece.begin + end,
                to_file_end=piece.to_file_end and end == size,
                donated=donated,
            )
            at = end

    def _read_donor(self, piece: LogPiece, file: MappedFile) -> bytes:
        """Return what the other directory has in place of a damaged range; empty if it has nothing."""
        run = None if self._donor is None else self._donor.run_at(piece.begin)
        other = None if run is None else run.find(piece.begin)
        if other is None or other.base != file.base or other.size != file.size or piece.is_tail:
            return b""
        begin, end = piece.begin - other.base, piece.end - other.base
        data: bytes = self._files.read_at(other.path, begin, end - begin)
        return b"" if self._files.unreadable(other.path, begin, end) else data

    def _plan_tables(self, plan: RepairPlan) -> None:
        for name in table_names(self._files, self._root):
            path = posixpath.join(self._root, TABLES, name)
            fault = table_fault(self._files, path)
            if fault is None:
                continue
            if table_fault(self._files, path + BACKUP) is None:
                plan.tables.append(name)
                plan.steps.append(RepairStep("table", path, f"replaced by {name}{BACKUP}, its previous content"))
            else:
                plan.steps.append(RepairStep("left", path, f"unreadable ({fault}), and so is {name}{BACKUP}"))

    # -- the work ----------------------------------------------------------------------------------------------

    def apply(self, plan: RepairPlan, clock: IClock) -> None:
        """
        Do what a plan says. What was moved away is in C{quarantine/}.

        @raise OSError: as the system says; another repair finishes what this one began.
        """
        if plan.is_empty:
            return
        files, stamp = self._files, clock.wall_ms()
        kept = posixpath.join(self._quarantine, f"repair-{stamp}")
        files.make_directories(kept)
        entries = self._queue_entries() if plan.queues or plan.pieces or plan.index else None
        self._keep_checkpoints(kept)
        self._save_checkpoint(plan, entries)
        for path, missing in plan.grown:
            self._grow(path, missing)
        for base in plan.made:
            path = posixpath.join(self._store.log_directory, file_name(base))
            files.create_sparse(path, self._store.log_file_size)
            files.overwrite(path, 0, encode_blank(self._store.log_file_size))
            self._sync(path)
        for piece in plan.pieces:
            self._replace(piece, stamp)
        self._forget_regions(plan)
        for key in plan.queues:
            self._move(posixpath.join(self._store.queue_directory, key[0], str(key[1])), kept)
        if plan.index:
            self._move(self._store.index_directory, kept)
            files.make_directories(self._store.index_directory)
        if plan.timers:
            self._move(posixpath.join(self._root, TIMERS), kept)
        for name in plan.tables:
            path = posixpath.join(self._root, TABLES, name)
            self._copy(path, posixpath.join(kept, TABLES, name), 0, files.size(path) if files.exists(path) else 0)
            files.replace(path, files.read(path + BACKUP), backup=False)
        files.sync_directory(self._root)

    def _keep_checkpoints(self, kept: str) -> None:
        for name in ("checkpoint", "smartgo.checkpoint", "smartgo.queues", regions.PATH):
            path = posixpath.join(self._root, name)
            if self._files.exists(path):
                self._copy(path, posixpath.join(kept, posixpath.basename(name)), 0, self._files.size(path))

    def _save_checkpoint(self, plan: RepairPlan, entries: list[QueueEntry] | None) -> None:
        """Write a checkpoint that claims nothing of the log, before anything else is changed."""
        store, own = self._store, self._store.own
        if entries is None:
            return
        checkpoints = CheckpointFiles(self._files, self._root)
        checkpoints.load()
        checkpoints.set_abort()
        begin = store.begin
        checkpoints.open()
        try:
            checkpoints.save_table(QueueTable(begin, begin, entries, store.deleted, self._index_entries(plan)))
            checkpoints.save(
                CheckpointSlot(
                    clean=False,
                    position=begin,
                    flushed=max(begin, self._check.summary.end),
                    marked_from=_NEVER if own is None else own.marked_from,
                    log_file_size=store.log_file_size,
                    queue_file_size=store.queue_file_size,
                    written=Timestamps(*store.peer[:3]),
                    before=Timestamps(*store.peer[:3]),
                    indexed=UNKNOWN if own is None or plan.index else own.indexed,
                )
            )
        finally:
            checkpoints.close()

    def _index_entries(self, plan: RepairPlan) -> list[IndexEntry]:
        return [] if plan.index or self._store.table is None else list(self._store.table.index)

    def _queue_entries(self) -> list[QueueEntry]:
        """Return every queue with the offset that it gives out next: no offset is given out twice."""
        store = self._store
        known = {} if store.table is None else {(one.topic, one.queue_id): one for one in store.table.queues}
        units, records = UnitReader(store), RecordReader(store)
        found = []
        for key in sorted(known.keys() | store.queues.keys()):
            entry = known.get(key)
            end = used_end(store, key, units, records) if key in store.queues else 0
            minimum = 0 if entry is None else entry.minimum
            found.append(QueueEntry(*key, minimum, max(end, 0 if entry is None else entry.next_offset)))
        return [entry for entry in found if entry.next_offset]

    def _replace(self, piece: LogPiece, stamp: int) -> None:
        """Save a damaged range, and put something in its place."""
        begin, size = piece.begin - piece.base, piece.end - piece.begin
        name = f"{file_name(piece.begin)}-{size}"
        saved = posixpath.join(self._quarantine, f"{name}.bytes")
        if self._files.exists(saved):
            saved = posixpath.join(self._quarantine, f"{name}-{stamp}.bytes")
        self._copy(piece.path, saved, begin, begin + size)
        about = {
            "offset": piece.begin,
            "length": size,
            "reason": piece.reason,
            "found_ms": stamp,
            "saved": posixpath.basename(saved),
            "donor": None if not piece.donated or self._donor is None else self._donor.root,
        }
        text = msgspec.json.format(msgspec.json.encode(about), indent=2)
        self._files.replace(saved.removesuffix(".bytes") + ".json", text, backup=False)
        if piece.is_tail:
            self._files.zero(piece.path, begin, begin + size)
            return
        run = self._store.run_at(piece.begin)
        file = None if run is None else run.find(piece.begin)
        data = self._read_donor(piece, file) if piece.donated and file is not None else b""
        if len(data) < size or _valid_end(data, 0, piece) < size:  # the other directory may be in use
            data = fill(piece.begin, size, piece.to_file_end, piece.reason, max(piece.stored_ms, 1)) or b""
        for at in range(0, len(data), _COPY):
            self._files.overwrite(piece.path, begin + at, data[at : at + _COPY])
        self._sync(piece.path)

    def _forget_regions(self, plan: RepairPlan) -> None:
        """Take what was replaced out of the list of damaged regions."""
        repaired = {piece.begin for piece in plan.pieces}
        left = [one for one in self._store.regions if one.offset not in repaired]
        path = posixpath.join(self._root, regions.PATH)
        if self._files.exists(path) and (len(left) < len(self._store.regions) or self._store.regions_problem):
            self._files.replace(path, regions.encode(left), backup=False)

    # -- files -------------------------------------------------------------------------------------------------

    def _grow(self, path: str, missing: int) -> None:
        while missing > 0:
            count = min(missing, _COPY)
            self._files.append(path, bytes(count))
            missing -= count
        self._sync(path)

    def _copy(self, source: str, target: str, begin: int, end: int) -> None:
        self._files.make_directories(posixpath.dirname(target))
        self._files.create(target, b"")
        while begin < end and (data := self._files.read_at(source, begin, min(_COPY, end - begin))):
            self._files.append(target, data)
            begin += len(data)
        self._sync(target)

    def _move(self, path: str, kept: str) -> None:
        if not self._files.exists(path):
            return
        target = posixpath.join(kept, posixpath.relpath(path, self._root))
        self._files.make_directories(posixpath.dirname(target))
        self._files.rename(path, target)
        self._files.sync_directory(posixpath.dirname(path))

    def _sync(self, path: str) -> None:
        if not self._files.size(path):
            return
        mapping = self._files.map(path, writable=False)
        try:
            mapping.sync()
        finally:
            mapping.close()


def _valid_end(data: bytes, at: int, piece: LogPiece) -> int:
    """
    Return where the valid records end that begin at a position in another directory's bytes of a damaged range.

    A blank counts that fills the rest of the file.
    """
    scan = Scan(data, at, piece.begin)
    for _ in scan:
        pass
    if scan.stop is Stop.BLANK and piece.to_file_end:
        blank = data[scan.end : scan.end + BLANK_SIZE]
        if blank[:4] == encode_blank(len(data) - scan.end)[:4]:
            return len(data)
    return scan.end
