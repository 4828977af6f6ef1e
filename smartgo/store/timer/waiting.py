"""
The messages that wait, by delivery time: the near ones in memory, the others in slot files on the disk.

C{taken} divides them: an entry up to it is in memory, one above it is in a file. It rises when a slot is loaded, the
earliest first, and sinks when so much arrived below it that memory would not do: then the later half goes to files.
So memory is bounded by twice the limit, however many wait, and whether they are due over 40 days or in one second.
Where many are due in a slot it has several files, so that work on all of a file is bounded too.

Nothing here reads a clock or a file: times are given, and what is to be written and loaded is returned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import chain

from smartgo.schema.timers import (
    FIRST,
    SLOT_MS,
    TimerCheckpoint,
    due_of,
    is_recall,
    offset_of,
    slot_end,
    slot_of,
)
from smartgo.store.timer.entryfile import FILE_LIMIT, NEVER, LoadedSlot, SlotFile
from smartgo.store.timer.nearentries import NearEntries
from smartgo.store.timer.recalls import WaitingRecalls


class WaitingTimers:
    """
    The entries that wait.

    @ivar near: the entries in memory.
    @ivar in_flight: entries that were taken to be delivered; each waits until it is L{done}.
    @ivar masked: see L{TimerCheckpoint}.
    @ivar unwritten_count: entries that are to be written to files; an upper bound.
    @ivar dead: files that nothing is in any more, to be removed once a checkpoint does without them.
    """

    def __init__(self, limit: int) -> None:
        """
        @param limit: entries that are loaded at once; twice as many may be in memory.
        """
        self._limit = limit
        self._taken = FIRST
        self._slots: list[int] = []  # those that have files, in order
        self._files: dict[int, list[SlotFile]] = {}
        self._unwritten: dict[SlotFile, None] = {}
        self.unwritten_count = 0
        self._held: list[bytes] | None = None  # what came while a slot is loaded, and may be above what is found in it
        self._next_number = 1
        self._recalls = WaitingRecalls()
        self._on_disk = 0
        self.near = NearEntries()
        self.in_flight: dict[bytes, None] = {}
        self.masked: set[int] = set()
        self.dead: list[SlotFile] = []

    @property
    def count(self) -> int:
        """The number of messages that wait and are not recalled."""
        entries = len(self.near) + len(self.in_flight) + self._on_disk + len(self._held or ()) - len(self.masked)
        return max(0, entries - self._recalls.count - self._recalls.recalled)

    @property
    def next_ms(self) -> int | None:
        """The delivery time of the next message in memory; C{None}: nothing is in memory."""
        first = self.near.first
        return None if first is None else due_of(first)

    @property
    def next_between_ms(self) -> tuple[int, int] | None:
        """The times between which the next message is due: its own, or those of its slot; C{None}: nothing waits."""
        due_ms = self.next_ms
        if due_ms is None and self._slots:
            return self._slots[0] * SLOT_MS, (self._slots[0] + 1) * SLOT_MS - 1
        return None if due_ms is None else (due_ms, due_ms)

    @property
    def earliest_ms(self) -> int | None:
        """A time before which nothing is due that waits or is being delivered; C{None}: there is nothing."""
        memory = chain(filter(None, (self.near.first,)), self.in_flight, self._held or ())
        times = [due_of(entry) for entry in memory]
        if self._slots:
            times.append(self._slots[0] * SLOT_MS)
        return min(times, default=None)

    @property
    def oldest(self) -> int | None:
        """A physical offset below which no record waits; C{None}: nothing waits."""
        memory = min(map(offset_of, chain(self.near, self.in_flight, self._held or ())), default=NEVER)
        lowest = min((file.oldest for file in chain.from_iterable(self._files.values())), default=NEVER)
        found = min(memory, lowest)
        return None if found == NEVER else found

    def has_old(self, below: int) -> bool:
        """Tell whether a record below a physical offset waits."""
        return (
            self.near.has_old(below)
            or any(offset_of(entry) < below for entry in chain(self.in_flight, self._held or ()))
            or any(file.oldest < below for file in chain.from_iterable(self._files.values()))
        )

    # -- arrivals ----------------------------------------------------------------------------------------------

    def put(self, entry: bytes, horizon_ms: int, recalled: int | None = None) -> None:
        """
        Let an entry wait.

        @param horizon_ms: what is due before that may stay in memory.
        @param recalled: of a recall: a number for the message that is recalled; C{None}: not known.
        """
        if is_recall(entry):
            self._recalls.add(entry, recalled)
        self._put(entry, horizon_ms)

    def _put(self, entry: bytes, horizon_ms: int) -> None:
        if entry <= self._taken:
            self.near.add(entry)
        elif self._held is not None:
            self._held.append(entry)
        elif (
            due_of(entry) <= horizon_ms
            and len(self.near) < self._limit
            and (not self._slots or self._slots[0] > slot_of(entry))
        ):
            self._taken = entry
            self.near.add(entry)
        else:
            self._add(entry)
        if len(self.near) > 2 * self._limit and self._held is None:
            self._spill()

    def _add(self, entry: bytes) -> None:
        """Add an entry to a file of its slot."""
        slot = slot_of(entry)
        files = self._files.get(slot)
        if files is None:
            files = self._files[slot] = []
            insort(self._slots, slot)
        file = files[-1] if files else None
        if file is None or file.closed or file.count >= FILE_LIMIT or file.floor > self._taken:
            file = SlotFile(slot, self._next_number)
            self._next_number += 1
            files.append(file)
        file.entries.append(entry)
        file.count += 1
        file.left += 1
        file.oldest = min(file.oldest, offset_of(entry))
        self._on_disk += 1
        self._unwritten[file] = None
        self.unwritten_count += 1

    def _spill(self) -> None:
        """Move the later ones of the entries in memory to files."""
        entries = sorted(self.near)
        self.near.replace(entries[: self._limit])
        self._taken = entries[self._limit - 1]
        for entry in entries[self._limit :]:
            self._add(entry)

    # -- delivery ----------------------------------------------------------------------------------------------

    def take_due(self, now_ms: int, count: int) -> list[bytes]:
        """Take the earliest entries that are due, C{count} at most; they are in flight then."""
        found = self.near.take_due(now_ms, count)
        self.in_flight.update(dict.fromkeys(found))
        return found

    def is_clear(self, due_ms: int) -> bool:
        """Tell whether no entry waits any more, in memory or in a file, that is due at a time or before it."""
        next_ms = self.next_ms
        if (next_ms is not None and next_ms <= due_ms) or any(due_of(entry) <= due_ms for entry in self._held or ()):
            return False
        return not self._slots or self._slots[0] * SLOT_MS > due_ms or due_of(self._taken) > due_ms

    def done(self, entry: bytes) -> None:
        """Forget an entry that was in flight."""
        del self.in_flight[entry]
        if is_recall(entry):
            self._recalls.remove(entry)

    def give_back(self, entry: bytes) -> None:
        """Let an entry wait again that was in flight."""
        del self.in_flight[entry]
        self.near.add(entry)

    # -- files -------------------------------------------------------------------------------------------------

    def unwritten(self) -> list[tuple[SlotFile, list[bytes]]]:
        """Return the entries that are to be written, by file; they count as handed over."""
        found: list[tuple[SlotFile, list[bytes]]] = []
        for file in self._unwritten:
            found.append((file, file.entries))
            file.entries = []
            file.dirty = True
        self._unwritten = {}
        self.unwritten_count = 0
        return found

    @property
    def has_unwritten(self) -> bool:
        """True while there are entries to be written to files."""
        return bool(self._unwritten)

    def take_dirty(self) -> list[SlotFile]:
        """Return the files that are to be synced; they count as synced."""
        found = [file for files in self._files.values() for file in files if file.dirty and file.count]
        for file in found:
            file.dirty = False
        return found

    def abandon(self, parts: Iterable[tuple[SlotFile, list[bytes]]]) -> None:
        """Take entries back that could not be written: they go to other files, as what is in these is not known."""
        for file, entries in parts:
            later = file.entries
            file.entries = []
            self._unwritten.pop(file, None)
            file.closed = True
            lost = len(entries) + len(later)
            file.count -= lost
            file.left -= lost
            self._on_disk -= lost
            for entry in chain(entries, later):
                self._put(entry, 0)

    def to_load(self, horizon_ms: int) -> list[SlotFile]:
        """
        Return the files of the earliest slot if it is to be loaded now; L{loaded} has to follow, or L{not_loaded}.

        @param horizon_ms: a slot is loaded that begins before that, while there is room in memory.
        """
        if self._held is not None or not self._slots or len(self.near) > self._limit // 2:
            return []
        slot = self._slots[0]
        if slot * SLOT_MS > horizon_ms or any(file.rolling for file in self._files[slot]):
            return []
        self._held = []
        return self._files[slot]

    def loaded(self, slot: int, found: LoadedSlot, horizon_ms: int) -> None:
        """Take what was found in the files of the slot that L{to_load} named."""
        files = self._files[slot]
        if found.more:
            self._taken = found.entries[-1]
            for file, count in zip(files, found.counts, strict=True):
                file.floor = max(file.floor, self._taken)  # it is higher where entries went to files since
                file.left -= count
        else:
            self._taken = max(self._taken, slot_end(slot))
            del self._files[slot], self._slots[bisect_left(self._slots, slot)]
            self.dead += files
        self._on_disk -= len(found.entries)
        masked = self.masked
        for entry in found.entries:
            offset = offset_of(entry)
            if offset in masked:
                masked.discard(offset)
            else:
                self.near.add(entry)
        self.not_loaded(horizon_ms)

    def not_loaded(self, horizon_ms: int) -> None:
        """Go on after a slot was loaded, or could not be."""
        held, self._held = self._held or [], None
        for entry in held:
            self._put(entry, horizon_ms)

    # -- entries of old records --------------------------------------------------------------------------------

    def take_old(self, below: int, count: int) -> list[bytes]:
        """Take entries in memory of records below a physical offset, C{count} at most; they are in flight then."""
        found = self.near.take_old(below, count)
        self.in_flight.update(dict.fromkeys(found))
        return found

    def next_old_file(self, below: int) -> SlotFile | None:
        """
        Return a file with an entry whose record lies below a physical offset, C{None} where there is none.

        It is neither written to nor loaded until L{replace} or L{keep} is called.
        """
        if self._held is not None:
            return None
        for files in self._files.values():
            for file in files:
                if file.oldest < below and not file.entries:
                    file.closed = file.rolling = True
                    return file
        return None

    def mask(self, entry: bytes) -> None:
        """Let an entry of a file count no more."""
        self.masked.add(offset_of(entry))
        if is_recall(entry):
            self._recalls.remove(entry)

    def replace(self, file: SlotFile, entries: list[bytes], removed: set[int]) -> None:
        """
        Put the entries that stay of a file into another one.

        @param removed: physical offsets of the records of the others, which are masked.
        """
        self._on_disk -= file.left
        self.masked -= removed
        self._files[file.slot].remove(file)
        self.dead.append(file)
        for entry in entries:
            self._put(entry, 0)
        if not self._files[file.slot]:
            del self._files[file.slot], self._slots[bisect_left(self._slots, file.slot)]

    def keep(self, file: SlotFile) -> None:
        """Leave a file as it is."""
        file.rolling = False

    # -- checkpoints -------------------------------------------------------------------------------------------

    def checkpoint(self, queue_offset: int, position: int) -> TimerCheckpoint:
        """Return all that waits; what is L{unwritten} has to be written and synced before it counts."""
        near = [*self.near, *self.in_flight, *(self._held or ())]
        rows = [file.row() for files in self._files.values() for file in files if file.left]
        return TimerCheckpoint(
            queue_offset, position, self._next_number, self._recalls.count, self._taken, near, list(self.masked), rows
        )

    def restore(self, saved: TimerCheckpoint) -> None:
        """Begin with what a checkpoint says."""
        self._taken = saved.taken
        self._next_number = saved.next_number
        self._recalls.restore(saved.recalls)
        self.near.replace(saved.near)
        self.masked = set(saved.masked)
        for row in saved.files:
            file = SlotFile.of(row)
            self._files.setdefault(row.slot, []).append(file)
            self._on_disk += row.left
        self._slots = sorted(self._files)

    def remove_delivered(self, delivered: set[int]) -> None:
        """
        Remove the entries in memory whose records were delivered; each is taken out of C{delivered}.

        Recalls stay: it is not known whether what they recall was dropped already.
        """
        kept = []
        for entry in self.near:
            offset = offset_of(entry)
            if offset in delivered:
                delivered.discard(offset)
            else:
                kept.append(entry)
        self.near.replace(kept)
