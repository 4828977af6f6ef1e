"""
The end of a live store's log, seen from outside, and the extent of one micro-batch. No I/O: files are looked at through
L{Peek}.

A broker may be writing while we look. Ours copies a record, or a whole batch, at once and in no particular order, a
Java broker from front to back; so a record's head may be there before its body, and a body before its properties. A
record counts when

 - its lengths, physical offset and checksum are right, and its properties hold no NUL, which is what was never written;
 - and something was stored behind it, or it was there just the same at the look before: by then it is whole.

What was written long ago is not looked at here but by the tasks that read it: closed files, and the newest up to some
MiB before its end. In the newest file a place that stays bad while valid records follow, stored no earlier than those
before, is damage, and is passed over; anything else that is no record is the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from smartgo.schema.columns import record_positions
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    HEAD_SIZE,
    MESSAGE_MAGICS,
    SIZE_LIMIT,
    believed_size,
    decode,
    start_struct,
)
from smartgo.schema.recordscan import Scan, Stop, find_record
from smartgo.spark.stores import NamedFile

Peek = Callable[[str, int, int], bytes]
"""Reads a piece of a file: path, first byte, how many bytes; fewer at its end. Raises C{FileNotFoundError}."""

_CHUNK: Final = 4 << 20
_SEARCHED: Final = 32 << 20
_SETTLING: Final = 1000
_CHECKED_PIECES: Final = 3  # of what a look finds, the last ones
_NOTHING: Final = bytes(BLANK_SIZE)


class LogFollower:
    """
    Follows the end of one log. A look costs as much as was written since the last one, so look often.

    @ivar minimum: physical offset at which the log begins, as of the last look.
    @ivar end: physical offset before which all may be read.
    @ivar reached: physical offset after the last record there is, which may be being written.
    @ivar cut: how often the log was found to be cut, or written anew, behind what was seen of it.
    @ivar promised: physical offset up to which the ConsumeQueues name records, 0 where they do not tell. What is no
        record before that is damage, zeros too.
    @ivar written: physical offset after a byte that is known to be written: zeros before that are damage, too.
    """

    def __init__(self, peek: Peek) -> None:
        self._peek = peek
        self._witness = (0, b"")  # the last record that was checked: where, and its head
        self._stored_ms = 0  # when it was stored
        self._bad = -1  # where the last look stopped at something that is neither a record nor nothing
        self._searched = -1  # such a place behind which there is nothing
        self.minimum = 0
        self.end = 0
        self.reached = 0
        self.cut = 0
        self.promised = 0
        self.written = 0

    def look(self, files: Sequence[NamedFile]) -> int:
        """
        Find the current end of the log.

        @param files: those there are, in the order of their offsets.
        @return: L{end}.
        @raise FileNotFoundError: a file went away meanwhile: look again.
        """
        self.minimum = files[0].base if files else 0
        newest = self._newest(files)
        before = self.reached
        if newest is None:
            if before > self.minimum:
                self._forget(self.minimum)
            self.end = self.reached = self.minimum
            return self.end
        if before > newest.end or not self._still_there(files):
            self._forget(newest.base)
        elif before < newest.base:
            self.reached = newest.base
        closed = self._walk(newest)
        if closed or self.reached == before:
            self.end = self.reached
        else:
            self.end = max(newest.base, self._witness[0])
        return self.end

    def settle(self, files: Callable[[], Sequence[NamedFile]]) -> int:
        """
        Repeat the look at the log's end until two looks in a row find nothing that may be damage.

        @param files: lists them.
        @return: L{end}: of a log that nobody writes to, behind its newest record.
        """
        calm = 0
        for _ in range(_SETTLING):
            try:
                self.look(files())
            except FileNotFoundError:  # removed between listing and looking
                continue
            calm = calm + 1 if self._bad in (-1, self._searched) else 0
            if calm > 1:
                break
        return self.end

    # -- inside ------------------------------------------------------------------------------------------------

    def _newest(self, files: Sequence[NamedFile]) -> NamedFile | None:
        """Return the last file that something was written to; those after it were made ahead."""
        for file in reversed(files):
            known_end = max(self.promised, self.written)
            if file.base < known_end or self._peek(file.path, 0, BLANK_SIZE) not in (_NOTHING, b""):
                return file
        return None

    def _still_there(self, files: Sequence[NamedFile]) -> bool:
        """Tell whether the last record that was checked is unchanged, or expired with its file."""
        at, head = self._witness
        for file in files:
            if file.base <= at < file.end:
                return self._peek(file.path, at - file.base, len(head)) == head
        return at < files[0].base

    def _forget(self, begin: int) -> None:
        self.cut += 1
        self.reached, self._witness, self._stored_ms = begin, (begin, b""), 0
        self._bad = self._searched = -1

    def _walk(self, file: NamedFile) -> bool:
        """Check what lies behind the last record that was checked; return whether the file was closed."""
        bad, self._bad = self._bad, -1
        if self._is_nothing(file):
            return False
        self._pass_over_old(file)
        while (begin := self.reached) < file.end:
            data = self._read(file, begin)
            scan = Scan(data, 0, begin, limit=max(SIZE_LIMIT, len(data)))
            half = None
            for message in scan:
                if b"\0" in message.properties and not self._is_whole(data, scan.end, begin):
                    half = begin + scan.end
                    break
                at = begin + scan.end - message.size
                self._witness = (at, data[at - begin : at - begin + HEAD_SIZE])
                self.reached, self._stored_ms = begin + scan.end, message.stored_ms
            left = file.end - self.reached
            if half is not None:
                if not self._passes(file, half, bad):
                    return False
            elif left < BLANK_SIZE or (scan.stop is Stop.BLANK and _blank_size(data, scan.end) == left):
                self.reached = file.end
            elif scan.end == 0:
                is_end = scan.stop is Stop.EMPTY and self._is_nothing(file)
                if is_end or not self._passes(file, begin, bad):
                    return False
        return True

    def _is_whole(self, data: bytes, end: int, base: int) -> bool:
        """Tell whether the record that ends at a position is whole: the queues name it, or another one follows."""
        return base + end <= self.promised or _goes_on(data, end)

    def _passes(self, file: NamedFile, place: int, bad: int) -> bool:
        """
        Go on behind a bad place that was there at the last look as well, if records follow; return whether they do.

        @param bad: where the last look stopped.
        """
        self._bad = place
        if bad != place or self._searched == place or (after := self._beyond(file, place)) is None:
            return False
        self.reached, self._bad = after, -1
        return True

    def _is_nothing(self, file: NamedFile) -> bool:
        """Tell whether the log ends where it is read up to: nothing was written there."""
        is_empty = self._peek(file.path, self.reached - file.base, BLANK_SIZE) == _NOTHING
        return is_empty and self.reached >= max(self.promised, self.written)

    def _pass_over_old(self, file: NamedFile) -> None:
        """Skip to the last MiB behind the last record that was checked, by sizes and magics alone."""
        begins = [self.reached]
        while begins[-1] < file.end:
            data = self._read(file, begins[-1])
            positions = record_positions(data)
            if len(positions) == 0:
                break
            last = int(positions[-1])
            begins.append(begins[-1] + last + start_struct.unpack_from(data, last)[0])
        if len(begins) > _CHECKED_PIECES + 1:
            self.reached = begins[-1 - _CHECKED_PIECES]
            head = self._peek(file.path, self.reached - file.base, HEAD_SIZE)
            self._witness = (self.reached, head)

    def _read(self, file: NamedFile, begin: int) -> bytes:
        """Return a piece of the file with one whole record at least, if there is one."""
        at, room = begin - file.base, file.end - begin
        data = self._peek(file.path, at, min(_CHUNK, room))
        if BLANK_SIZE <= len(data) < room:
            size, magic = start_struct.unpack_from(data)
            if magic in MESSAGE_MAGICS and len(data) < size <= min(believed_size(data, 0, begin), room):
                data = self._peek(file.path, at, size)
        return data

    def _beyond(self, file: NamedFile, bad: int) -> int | None:
        """Return where records go on behind a bad place; C{None} where none follow, or only such as were cut off."""
        at = bad + 1
        while at < file.end:
            data = self._peek(file.path, at - file.base, _SEARCHED + SIZE_LIMIT)
            found = find_record(data, 0, at, _SEARCHED)
            if found is not None:
                if decode(data, found).stored_ms >= self._stored_ms:
                    return at + found
                break
            at += _SEARCHED
        self._searched = bad
        return None


def _goes_on(data: bytes, at: int) -> bool:
    return len(data) - at >= BLANK_SIZE and start_struct.unpack_from(data, at)[1] in MESSAGE_MAGICS | BLANK_MAGICS


def _blank_size(data: bytes, at: int) -> int:
    size: int = start_struct.unpack_from(data, at)[0]
    return size


# -- micro-batches -------------------------------------------------------------------------------------------


def begins_record(files: Sequence[NamedFile], position: int, peek: Peek) -> bool:
    """Tell whether a record, a blank or a file begins at a physical offset."""
    for file in files:
        if file.base <= position < file.end:
            start = peek(file.path, position - file.base, BLANK_SIZE)
            known = len(start) == BLANK_SIZE and start_struct.unpack(start)[1] in MESSAGE_MAGICS | BLANK_MAGICS
            return known or position == file.base
    return False


def next_record(files: Sequence[NamedFile], begin: int, position: int, end: int, peek: Peek) -> int:
    """
    Return where the first record or blank at or behind C{position} starts; C{end} where none starts before that.

    Found by going from record to record: in the room that a blank fills up may lie records of an earlier life. From a
    damaged place on, the next file.

    @param begin: where a record starts, not behind C{position}.
    """
    for file in files:
        if file.end <= position:
            continue
        at = max(begin, file.base)
        while at < position:
            data = peek(file.path, at - file.base, min(_CHUNK, file.end - at))
            starts = record_positions(data)
            if not len(starts) and len(data) < file.end - at:  # perhaps a long one
                data = peek(file.path, at - file.base, believed_size(data, 0, at))
                starts = record_positions(data)
            if not len(starts):
                at = file.end
                break
            number = int(starts.searchsorted(position - at))
            last = int(starts[-1])
            at += int(starts[number]) if number < len(starts) else last + start_struct.unpack_from(data, last)[0]
        if at < end and not begins_record(files, at, peek):
            at = file.end  # the next micro-batch could not tell that the damage goes on there
        return min(at, end)
    return end


def share(begins: Mapping[str, int], ends: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """
    Return the end of a micro-batch in each log, so that all are about C{limit} bytes, in proportion to what waits.

    @param begins: from where, by store; C{ends} up to where at most, for the same stores.
    @param limit: bytes, C{None} for all.
    @return: up to where, by store; behind the beginning wherever something waits.
    """
    waiting = {store: max(0, end - begins[store]) for store, end in ends.items()}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(ends)
    return {
        store: min(ends[store], begins[store] + max(1, limit * waits // total)) if waits else ends[store]
        for store, waits in waiting.items()
    }
