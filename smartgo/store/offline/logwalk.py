"""A walk through the records of a log, and the damaged ranges between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from smartgo.schema.message import StoredMessage
from smartgo.schema.recordscan import Stop
from smartgo.store.filequeue import FileQueue
from smartgo.store.messagelookup import HEAD_LIMIT, head_stored_ms
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.recovery.logscan import LogScan, record_after, written_end

_NEVER: Final = 1 << 62
_TORN: Final = "its properties are torn"
_NOTHING: Final = "nothing was written here"


class DamageKind(Enum):
    """Kinds of damaged ranges."""

    KNOWN = "listed in quarantine/regions.json"
    MIDDLE = "valid records follow"
    TAIL = "no valid record follows"
    MISSING = "a log file is missing"


class LogDamage(NamedTuple):
    """
    A range of the log without a valid record.

    @ivar begin: physical offset of its first byte; C{end}: after its last.
    @ivar reason: what is wrong with its first bytes.
    @ivar stored_ms: store timestamp of the record before it; 0 without one.
    """

    begin: int
    end: int
    kind: DamageKind
    reason: str
    stored_ms: int = 0


class LogWalk:
    """
    Goes through the log of a store; iterate once.

    Bodies are memoryviews.

    @ivar position: physical offset after the last record given out, behind a blank where the next file begins. At the
        end, where the log ends.
    """

    def __init__(self, store: OfflineStore, check_cancelled: Callable[[], None] = lambda: None, begin: int = 0) -> None:
        """
        @param check_cancelled: called between pieces of some MiB; may raise to end the walk.
        @param begin: physical offset; the walk begins with the log file that holds it.
        """
        self._store = store
        self._files = store.files
        self._check_cancelled = check_cancelled
        self._stored_ms = self._before_ms = 0  # of the last two records: one of them may be damaged
        self._begin = begin
        # From there on no record has NUL in its properties, unless it is torn; see the recovery.
        self._marked_from = _NEVER if store.own is None or store.settings.replica else store.own.marked_from
        self.position = store.begin

    def __iter__(self) -> Iterator[StoredMessage | LogDamage]:
        """Yield records and damage in the order of their offsets."""
        for run in self._store.runs:
            if run.end <= self._begin:
                self.position = run.end
                continue
            if run.begin > self.position:
                yield LogDamage(self.position, run.begin, DamageKind.MISSING, "the file is missing", self._stored_ms)
            first = run.find(self._begin)
            yield from self._walk(run, run.begin if first is None else first.base)

    def _walk(self, run: FileQueue, at: int) -> Iterator[StoredMessage | LogDamage]:
        known = self._store.damage
        self.position = at
        while at < run.end:
            region = known.at(at)
            if region is not None:
                yield LogDamage(region.offset, region.end, DamageKind.KNOWN, region.reason, self._stored_ms)
                at = self.position = region.end
                continue
            scan = LogScan(self._files, run, at, self._check_cancelled)
            for message in scan:
                region = known.at(message.physical_offset)
                if region is not None:
                    break
                self.position = scan.position
                begin = message.physical_offset
                wrong = self._store.unreadable(begin, begin + message.size)  # zeros may pass for its properties
                if not wrong and begin >= self._marked_from and 0 in message.properties:
                    wrong = _TORN
                if wrong:
                    yield LogDamage(begin, scan.position, DamageKind.MIDDLE, wrong, self._stored_ms)
                    continue
                self._before_ms, self._stored_ms = self._stored_ms, message.stored_ms
                yield message
            else:
                at = self.position = scan.position
                region = known.at(at)
            if region is not None:
                at = region.offset
                continue
            if scan.stop is Stop.END or (scan.stop is Stop.EMPTY and not self._goes_on(run, at)):
                return
            damage = self._damage(run, at, scan)
            damage = damage._replace(reason=self._store.unreadable(at, damage.end) or damage.reason)
            if damage.end > damage.begin:
                yield damage
            at = damage.end
            if damage.kind is DamageKind.TAIL:
                return
            self.position = at

    def _goes_on(self, run: FileQueue, position: int) -> bool:
        """Tell whether anything was written behind the apparent end of the log."""
        file = run.find(position)
        if file is None:
            return False
        last = written_end(self._files, file.path, position - file.base, file.size, self._check_cancelled)
        return last > position - file.base or file is not self._store.runs[-1].files[-1]

    def _damage(self, run: FileQueue, at: int, scan: LogScan) -> LogDamage:
        """Return the damage that begins at a physical offset."""
        reason = scan.reason or _NOTHING
        following = record_after(self._files, run, at, self._check_cancelled)
        region = self._store.damage.next_after(at)
        known = run.end if region is None else region.offset
        if following is None and known < run.end:
            following = known
        if following is not None and not self._is_left_over(run, following):
            return LogDamage(at, min(following, known), DamageKind.MIDDLE, reason, self._stored_ms)
        if run is not self._store.runs[-1]:
            return LogDamage(at, run.end, DamageKind.MIDDLE, reason, self._stored_ms)
        last = at
        for file in run.files:
            if file.end > at:
                first = max(0, at - file.base)
                written = written_end(self._files, file.path, first, file.size, self._check_cancelled)
                last = file.base + written if written > first else last
        return LogDamage(at, last, DamageKind.TAIL, reason, self._stored_ms)

    def _is_left_over(self, run: FileQueue, offset: int) -> bool:
        """
        Tell whether a valid record behind damage is left over from a log that was cut: it is older than what precedes.

        RocketMQ does not clear what it cuts (docs/spec/store#recovery); smartgo does.
        """
        file = run.find(offset)
        if self._store.own is not None or file is None or file is not self._store.runs[-1].files[-1]:
            return False
        stored_ms = head_stored_ms(self._files.read_at(file.path, offset - file.base, HEAD_LIMIT))
        return 0 < stored_ms < min(self._stored_ms, self._before_ms)
